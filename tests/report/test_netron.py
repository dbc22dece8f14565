"""Models for Netron: the same computation, with the decision in the metadata of each node."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from bench.chromium import chromium, missing
from ep_nnapi.graph.onnx_io import graphs
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.report.netron import PREFIX, annotated
from tests.cli.command import DIGITS
from tests.html_report.models import blocks, named
from tests.onnx_graph import parsed
from tests.provider.test_outline import IF_MODEL
from tests.source_lines import recorded


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
