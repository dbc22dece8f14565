"""Writing the page: levels compared, times measured, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.measured_times import MeasuredTimes
from ep_nnapi.html_report.page import Findings, data_of
from ep_nnapi.html_report.write import write_report
from ep_nnapi.nnapi.errors import ModelError, OptionError
from tests.cli.command import DIGITS
from tests.html_report.models import Page, blocks, embedded, named
from tests.source_lines import recorded


def test_it_is_the_report_of_check(tmp_path: Path):
    report = write_report(DIGITS, tmp_path / "r.html", levels=False)
    assert report == ep_nnapi.check(DIGITS)
    data = embedded((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert data["report"] == report.to_json()
    assert data["clusters"][0]["listing"].startswith("model")


def test_levels_are_those_of_check(tmp_path: Path):
    """Every feature level up to the runtime's, every optimization level; options stay in force."""
    steps: list[tuple[int, int]] = []
    write_report(
        DIGITS,
        tmp_path / "r.html",
        exclude="MaxPool",
        feature_level=3,
        advance=lambda done, total: steps.append((done, total)),
    )
    rows = Page((tmp_path / "r.html").read_text(encoding="utf-8")).rows["levels"]
    features, optimizations = rows[1:9], rows[10:]
    for row in features:
        report = ep_nnapi.check(DIGITS, exclude="MaxPool", feature_level=int(row[0]))
        assert row[1:4] == [str(report.nodes), str(report.taken), str(len(report.clusters))]
    assert [r[0] for r in optimizations] == ["disable", "basic", "extended", "all", "nnapi-aware"]
    assert steps == [(i, 13) for i in range(13)]


def test_measured_times_of_clusters_and_cpu_nodes(tmp_path: Path):
    write_report(blocks(5), tmp_path / "r.html", levels=False, measure=True)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    data = embedded(text)
    assert all(c["measured_us"] > 0 for c in data["clusters"])
    (on_cpu,) = [n for n in data["nodes"] if n["cluster"] < 0]
    assert on_cpu["measured"]["us"] > 0
    parts = [row[0] for row in Page(text).rows["times"][1:]]
    assert sorted(parts) == [on_cpu["name"], "cluster 0", "cluster 1"]


def test_devices_behind_the_c_api_measure_themselves(tmp_path: Path):
    write_report(
        DIGITS,
        tmp_path / "r.html",
        levels=False,
        measure=True,
        runtime=ep_nnapi.libneuralnetworks_path(),
        device="nnapi-reference",
    )
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "As the devices measured themselves" in text
    assert "<li>cluster 0 on nnapi-reference: " in text


def test_a_model_in_memory(tmp_path: Path):
    write_report(named(""), tmp_path / "r.html", levels=False)
    assert "<h1>model</h1>" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_nothing_is_written_for_a_model_that_cannot_be_loaded(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(b"no model")
    (tmp_path / "r.html").write_text("as before")
    with pytest.raises(ModelError, match="cannot load"):
        write_report(tmp_path / "m.onnx", tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == "as before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "r.html"]


def test_a_folder_that_is_not_there(tmp_path: Path):
    with pytest.raises(OptionError, match="cannot be written: No such file"):
        write_report(named(""), tmp_path / "none" / "r.html", levels=False)


def test_a_compiled_model_has_no_optimization_levels(tmp_path: Path):
    onnx.save(named(""), tmp_path / "m.onnx")
    done = ep_nnapi.prepare(tmp_path / "m.onnx", tmp_path / "out", format="context")
    (name,) = [o for o in done.models[0].outputs if o.endswith(".onnx")]
    write_report(tmp_path / "out" / name, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "nnapi-aware" not in {r[0] for r in Page(text).rows["levels"]}


# The data of the page: the JSON of check, and what is needed to draw

REPORT = ep_nnapi.check(blocks(10))
DATA = data_of(Findings("m.onnx", REPORT))


def test_the_report_is_the_json_of_check():
    assert DATA["report"] == REPORT.to_json()
    assert json.loads(json.dumps(DATA))["report"] == REPORT.to_json()


def test_each_node_has_its_cluster_or_its_reason():
    rejections = REPORT.to_json()["rejections"]
    for node in DATA["nodes"]:
        if node["cluster"] >= 0:
            assert node["name"] in REPORT.clusters[node["cluster"]].nodes
            assert node["rejection"] == -1
        else:
            assert rejections[node["rejection"]]["node"] == node["name"]
    assert len(DATA["nodes"]) == REPORT.nodes == 40


def test_nodes_have_types_times_and_readers():
    first = DATA["nodes"][0]
    assert first["outputs"] == ["m0: float [4, 4]"]
    readers = {DATA["nodes"][i]["name"] for i in first["readers"]}
    assert readers == {"/layer.0/Relu", "/layer.0/Sigmoid"}
    assert all(us > 0 for us in first["us"])


def test_clusters_have_listings_and_times():
    report = ep_nnapi.check(DIGITS)
    times = MeasuredTimes({report.clusters[0].nodes: 1.5})
    (cluster,) = data_of(Findings("m", report, ("CONV_2D",), times))["clusters"]
    assert cluster["operators"] == report.clusters[0].operators
    assert (cluster["listing"], cluster["measured_us"]) == ("CONV_2D", 1.5)
    assert cluster["nnapi_us"] == report.clusters[0].nnapi_us


def test_nodes_have_measured_times():
    """An NNAPI operation is at the first node that it computes, with the others beside it."""
    taken, on_cpu = REPORT.clusters[0].nodes[:2], REPORT.rejections[0].node
    times = MeasuredTimes(operations={taken: 2.5, ("elsewhere",): 9.0}, cpu_nodes={on_cpu: 4.0})
    found = {n["name"]: n["measured"] for n in data_of(Findings("m", REPORT, times=times))["nodes"]}
    assert found[taken[0]] == {"us": 2.5, "nodes": taken}
    assert found[on_cpu] == {"us": 4.0, "nodes": (on_cpu,)}
    assert sum(m is not None for m in found.values()) == 2


def test_the_advice_of_every_reason_is_there():
    assert DATA["advice"]["OP"].startswith("NNAPI has no equivalent")


def test_source_lines_are_shown():
    report = ep_nnapi.check(recorded(named(""), "layers.0", "/home/me/net.py"))
    sources = {n["op"]: n["source"] for n in data_of(Findings("m", report))["nodes"]}
    assert sources["Det"] == "layers.0 at /home/me/net.py:12: y = self.act(self.conv(x))"
