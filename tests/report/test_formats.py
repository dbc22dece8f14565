"""Files for other tools: all of a format, whole or not at all, never over the model.

Graphs and node data for Model Explorer: those of the report, accepted by its own classes.
"""

import json
from pathlib import Path

import onnx
import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.report.formats import ReportFormat, collection, overlays, write_format
from ep_nnapi.report.netron import annotated
from tests.cli.command import DIGITS
from tests.html_report.models import blocks, named
from tests.provider.test_outline import IF_MODEL
from tests.source_lines import recorded

REPORT = ep_nnapi.check(blocks(10))
COLLECTION = collection(REPORT, "m.onnx")
(GRAPH,) = COLLECTION["graphs"]
NAMES = [n.name for n in REPORT.graphs[0].outline]
VALUES = {"error": {NAMES[0]: 0.5, NAMES[1]: float("inf")}, "measured": {NAMES[1]: 12.5}}


def attributes(node: dict[str, object]) -> dict[str, str]:
    return {a["key"]: a["value"] for a in node["attrs"]}


def test_clusters_are_namespaces():
    for number, cluster in enumerate(REPORT.clusters):
        inside = [n for n in GRAPH["nodes"] if n["namespace"] == f"cluster {number}"]
        assert {attributes(n)["name"] for n in inside} == set(cluster.nodes)
        group = GRAPH["groupNodeAttributes"][f"cluster {number}"]
        assert group["bytes in and out"] == str(cluster.boundary_bytes)
    outside = [attributes(n)["name"] for n in GRAPH["nodes"] if not n["namespace"]]
    assert outside == [r.node for r in REPORT.rejections]


def test_edges_lead_from_producers():
    for node, shown in zip(REPORT.graphs[0].outline, GRAPH["nodes"], strict=True):
        edges = [
            (int(e["sourceNodeId"]), int(e["sourceNodeOutputId"])) for e in shown["incomingEdges"]
        ]
        read = [REPORT.graphs[0].outline[i].outputs[k] for i, k in edges]
        assert read == [name for name in node.inputs if name != "x"]


def test_rejected_nodes_have_reason_detail_and_source():
    report = ep_nnapi.check(recorded(named(""), "layers.0", "/home/me/net.py"))
    (graph,) = collection(report, "m")["graphs"]
    found = attributes(next(n for n in graph["nodes"] if n["label"] == "Det"))
    assert (found["decision"], found["reason"]) == ("CPU", "OP")
    assert found["detail"] == report.rejections[0].detail
    assert found["source"] == "layers.0 at /home/me/net.py:12"


def test_types_of_outputs():
    (output,) = GRAPH["nodes"][0]["outputsMetadata"]
    assert output["attrs"] == [
        {"key": "tensor_name", "value": "m0"},
        {"key": "tensor_shape", "value": "float [4, 4]"},
    ]


def test_subgraphs_are_graphs_of_their_own():
    graphs = {g["id"]: g for g in collection(ep_nnapi.check(IF_MODEL), "m")["graphs"]}
    assert graphs.keys() == {"main", "choice.then_branch", "choice.else_branch"}
    (choice,) = graphs["main"]["nodes"]
    assert sorted(choice["subgraphIds"]) == ["choice.else_branch", "choice.then_branch"]


def test_node_data_has_each_nodes_decision_reason_and_time():
    data = overlays(REPORT)
    decisions = {NAMES[int(i)]: r["value"] for i, r in data["decision"]["main"]["results"].items()}
    assert decisions == {
        name: f"NNAPI: cluster {i}" for i, c in enumerate(REPORT.clusters) for name in c.nodes
    } | {r.node: "CPU" for r in REPORT.rejections}
    reasons = {NAMES[int(i)]: r["value"] for i, r in data["reason"]["main"]["results"].items()}
    assert reasons == {r.node: "OP" for r in REPORT.rejections}
    times = data["time"]["main"]["results"]
    assert len(times) == REPORT.nodes
    assert all(r["value"] > 0 for r in times.values())


def test_numbers_of_nodes_are_more_node_data():
    first, second = NAMES[:2]
    found = overlays(REPORT, {"error": {first: 0.25, second: float("inf"), "elsewhere": 1.0}})
    main = found["error"]["main"]
    assert main["name"] == "error, relative to the spread of the outputs"
    assert main["results"] == {"0": {"value": 0.25}, "1": {"value": "not comparable"}}
    assert found.keys() == {*overlays(REPORT), "error"}


def test_model_explorers_own_classes_take_them():
    """Unknown keys and wrong types are errors; node data may be texts too, as its docs say."""
    model_explorer = pytest.importorskip(
        "model_explorer", reason="`make test-model-explorer` installs it"
    )
    builder = pytest.importorskip("model_explorer.graph_builder")
    data_builder = pytest.importorskip("model_explorer.node_data_builder")
    dacite = pytest.importorskip("dacite")
    for report in (REPORT, ep_nnapi.check(IF_MODEL)):
        plain = json.loads(json.dumps(collection(report, "m")))
        found = dacite.from_dict(builder.GraphCollection, plain, dacite.Config(strict=True))
        assert sum(len(g.nodes) for g in found.graphs) == report.nodes
        loose = dacite.Config(strict=True, check_types=False)
        for overlay in json.loads(json.dumps(overlays(report, VALUES))).values():
            for data in overlay.values():
                read = dacite.from_dict(data_builder.GraphNodeData, data, loose)
                assert read.results.keys() == data["results"].keys()
            model_explorer.config().add_node_data("overlay", json.dumps(overlay))


ON_DIGITS = ep_nnapi.check(DIGITS)


def test_model_explorer(tmp_path: Path):
    found = write_format(ReportFormat.MODEL_EXPLORER, Path(DIGITS), ON_DIGITS, tmp_path / "g.json")
    contents = {p.name: json.loads(p.read_text(encoding="utf-8")) for p in found}
    assert contents == {"g.json": collection(ON_DIGITS, "digits.onnx")} | {
        f"g.{name}.json": data for name, data in overlays(ON_DIGITS).items()
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(contents)


def test_more_node_data_of_model_explorer(tmp_path: Path):
    values = {"error": {ON_DIGITS.graphs[0].outline[0].name: 0.5}}
    output = tmp_path / "g.json"
    found = write_format(ReportFormat.MODEL_EXPLORER, Path(DIGITS), ON_DIGITS, output, values)
    assert found[-1] == tmp_path / "g.error.json"
    written = json.loads(found[-1].read_text(encoding="utf-8"))
    assert written == overlays(ON_DIGITS, values)["error"]


def test_netron(tmp_path: Path):
    (path,) = write_format(ReportFormat.NETRON, Path(DIGITS), ON_DIGITS, tmp_path / "d.onnx")
    assert path.read_bytes() == annotated(Path(DIGITS), ON_DIGITS, tmp_path)
    onnx.checker.check_model(str(path))


@pytest.mark.parametrize("form", ReportFormat)
def test_a_folder_that_is_not_there(form: ReportFormat, tmp_path: Path):
    with pytest.raises(OptionError, match="cannot be written: No such file"):
        write_format(form, Path(DIGITS), ON_DIGITS, tmp_path / "none" / "file")


@pytest.mark.parametrize("form", ReportFormat)
def test_the_model_is_not_overwritten(form: ReportFormat, tmp_path: Path):
    (tmp_path / "link.onnx").symlink_to(DIGITS)
    with pytest.raises(OptionError, match="is the model itself"):
        write_format(form, Path(DIGITS), ON_DIGITS, tmp_path / "link.onnx")
