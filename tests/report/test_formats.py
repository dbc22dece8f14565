"""Files for other tools: all of a format, whole or not at all, never over the model.

Graphs and node data for Model Explorer: those of the report, accepted by its own classes.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from bench.chromium import chromium, missing
from ep_nnapi.graph.onnx_io import graphs
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.report.formats import (
    PREFIX,
    ReportFormat,
    annotated,
    collection,
    overlays,
    write_format,
)
from tests.cli.command import DIGITS
from tests.html_report.models import blocks, named
from tests.onnx_graph import parsed
from tests.provider.test_planner import IF_MODEL
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


def entries(node: onnx.NodeProto) -> dict[str, str]:
    found = {e.key: e.value for e in node.metadata_props if e.key.startswith(PREFIX)}
    assert len(found) == sum(e.key.startswith(PREFIX) for e in node.metadata_props)
    return {key.removeprefix(PREFIX): value for key, value in found.items()}


def made(folder: Path, model: onnx.ModelProto, **options: object) -> onnx.ModelProto:
    onnx.save(model, folder / "m.onnx")
    report = ep_nnapi.check(folder / "m.onnx", **options)
    return onnx.load_from_string(annotated(folder / "m.onnx", report, folder))


def test_each_node_has_its_decision(tmp_path: Path):
    found = made(tmp_path, blocks(10))
    report = ep_nnapi.check(blocks(10))
    of_node = {n.name: entries(n) for n in found.graph.node}
    for number, cluster in enumerate(report.clusters):
        for name in cluster.nodes:
            assert (of_node[name]["decision"], of_node[name]["cluster"]) == ("NNAPI", str(number))
            assert of_node[name]["device"] == cluster.device
    for rejection in report.rejections:
        entry = of_node[rejection.node]
        assert (entry["decision"], entry["reason"]) == ("CPU", "OP")
        assert entry["detail"] == rejection.detail
        assert entry["time"].startswith("about ")


def test_the_model_is_otherwise_the_same(tmp_path: Path):
    found = made(tmp_path, blocks(3))
    for node in found.graph.node:
        del node.metadata_props[:]
    assert found == blocks(3)


def test_nodes_that_were_merged_have_the_decision_of_the_merged_one():
    """ONNX Runtime merges MatMul and Add into a Gemm, which has the output of the Add."""
    report = ep_nnapi.check(DIGITS)
    found = onnx.load_from_string(annotated(Path(DIGITS), report, Path(DIGITS).parent))
    last, before = found.graph.node[-1], found.graph.node[-2]
    assert (last.op_type, before.op_type) == ("Add", "MatMul")
    assert entries(last)["decision"] == "NNAPI"
    assert entries(before)["decision"].startswith("none: ONNX Runtime's basic optimization")


def test_subgraphs_and_source_lines(tmp_path: Path):
    inner = {n.name: entries(n) for g in graphs(made(tmp_path, IF_MODEL).graph) for n in g.node}
    assert inner["Abs"]["decision"] == inner["Neg"]["decision"] == "NNAPI"
    found = made(tmp_path, recorded(named(""), "layers.0", "/home/me/net.py"))
    assert entries(found.graph.node[1])["source"] == "layers.0 at /home/me/net.py:12"
    assert "namespace" in {e.key for e in found.graph.node[1].metadata_props}


def test_again_replaces_the_entries(tmp_path: Path):
    once = made(tmp_path, blocks(3))
    again = made(tmp_path, once, exclude="Relu")
    assert entries(again.graph.node[1])["reason"] == "EXCLUDED"


def external(folder: Path) -> Path:
    weight = np.arange(16, dtype=np.float32).reshape(4, 4)
    model = parsed("(float[4,4] x) => (float[4,4] y) { [add] y = Add (x, w) }", 21, 8, w=weight)
    path = folder / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def test_external_data_stays_where_it_is_in_the_same_folder(tmp_path: Path):
    path = external(tmp_path)
    content = annotated(path, ep_nnapi.check(path), tmp_path)
    (weight,) = onnx.load_from_string(content).graph.initializer
    assert weight.external_data


def test_external_data_is_embedded_for_another_folder(tmp_path: Path):
    path = external(tmp_path)
    content = annotated(path, ep_nnapi.check(path), tmp_path / "other")
    (weight,) = onnx.load_from_string(content).graph.initializer
    assert not weight.external_data
    assert onnx.numpy_helper.to_array(weight)[3, 3] == 15


def test_other_files_are_refused(tmp_path: Path):
    (tmp_path / "m.ort").write_bytes(b"\x18\x00\x00\x00ORTM")
    with pytest.raises(ModelError, match=r"m\.ort: not an \.onnx file"):
        annotated(tmp_path / "m.ort", ep_nnapi.check(DIGITS), tmp_path)


@pytest.mark.web
def test_it_opens_in_netron(tmp_path: Path):
    """Netron itself draws the nodes; a click on one shows its metadata."""
    if missing():
        pytest.skip(missing())
    netron = pytest.importorskip("netron", reason="`make test-web` installs it")
    from selenium.webdriver.support.ui import WebDriverWait

    (tmp_path / "a.onnx").write_bytes(made(tmp_path, blocks(5)).SerializeToString())
    host, port = netron.start(str(tmp_path / "a.onnx"), browse=False)
    try:
        with chromium() as browser:
            browser.get(f"http://{host}:{port}/")
            wait = WebDriverWait(browser, 60)
            wait.until(lambda b: b.find_elements("css selector", "button"))
            wait.until(_accepted_or_drawn)
            drawn = wait.until(lambda b: b.find_elements("id", "node-name-/layer.4/Det"))
            click = """arguments[0].querySelector("path").dispatchEvent(
                new MouseEvent("click", {bubbles: true}))"""
            browser.execute_script(click, drawn[0])
            shown = wait.until(lambda b: b.find_elements("css selector", "#sidebar, .sidebar"))
            wait.until(lambda b: "Det: NNAPI has no determinant" in shown[0].text)
    finally:
        netron.stop()


def _accepted_or_drawn(browser: object) -> bool:
    """Accepts Netron's note on cookies, if it asks; True when nodes are drawn."""
    for button in browser.find_elements("css selector", "button"):
        if button.text == "Accept":
            button.click()
    return bool(browser.find_elements("css selector", ".node"))
