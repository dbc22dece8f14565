"""The data of the page: the JSON of check, and what is needed to draw."""

from __future__ import annotations

import json

import ep_nnapi
from ep_nnapi.diagnostics.measured_times import MeasuredTimes
from ep_nnapi.html_report.page_data import Findings, data_of
from tests.cli.command import DIGITS
from tests.html_report.models import blocks, named
from tests.source_lines import recorded

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
