"""Graphs of one cluster are judged once, for all sizes; others for sample sizes."""

import onnx
import pytest
from onnx import parser

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.host.registry import host_runtime
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.operators.lib import quantizing
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import Target
from ep_nnapi.ort_devices.session import PreparedSession
from ep_nnapi.provider import planner
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from ep_nnapi.provider.whole_graph import WholeGraph
from models.zoo import MODELS
from tests.onnx_graph import graph_of
from tests.runtimes import host_only

pytestmark = host_only
HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def compiler(device: str = "host-cpu") -> Compiler:
    runtime = host_runtime()
    return Compiler(Target(8), runtime, next(d for d in runtime.devices() if d.name == device))


def plan(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, **options: object) -> bool:
    """Plans a graph, whose clusters are open; returns whether it was judged for sample sizes."""
    judged: list[object] = []
    judge_graph = planner.judge_graph
    monkeypatch.setattr(planner, "judge_graph", lambda *a: judged.append(a) or judge_graph(*a))
    found = planner.Planner(compiler(), parse(options)).plan(graph_of(model))
    assert found.clusters
    assert all(isinstance(c, DynamicCluster) and c.opened for c in found.clusters)
    return bool(judged)


def test_networks_of_one_cluster_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("resnet18", "transformer_encoder"):  # the encoder's masks are the CPU provider's
        assert not plan(MODELS[name](dynamic=("batch", "size")), monkeypatch)


@pytest.mark.parametrize(
    "text",
    [
        """agraph (float[n, 4] x) => (float[n, 4] y) {
            a = Exp (x) b = Cast <to = 11> (a) c = Sin (b) d = Cast <to = 1> (c) y = Exp (d) }""",
        "agraph (float[n, 4] x) => (float[n, 4] y) { y = Exp (x) }",
    ],
    ids=["two clusters", "sizes in use"],
)
def test_others_are_judged_for_sample_sizes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"sizes": "n=8,16"} if "Exp (x) }" in text else {}
    assert plan(parser.parse_model(HEAD + text), monkeypatch, **options)


def test_weights_are_dequantized_for_the_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the nodes as well, which keep the bytes in case that other sizes are lowered."""
    text = """agraph (float[n, 4] x) => (float[n, 3] y)
        <int8[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float scale = {0.5}> {
            real = DequantizeLinear (w, scale) y = MatMul (x, real) }"""
    made, compute = list[Array](), quantizing._dequantized
    monkeypatch.setattr(quantizing, "_dequantized", lambda *a: made.append(a[0]) or compute(*a))
    plan(parser.parse_model(HEAD + text), monkeypatch)
    assert [array.shape for array in made] == [(4, 3)]


def test_what_is_rejected_leaves_no_condition() -> None:
    text = """agraph (float[n, 4] x, int64[n, 4] mask) => (float[n, 4] y, double[n, 4] z) {
        z = Cast <to = 11> (mask) y = Exp (x) }"""
    graph = graph_of(parser.parse_model(HEAD + text))
    found = WholeGraph.of(graph, compiler(), parse({}))
    assert found is not None
    assert [r.node for r in found.capability.rejections()] == ["z"]
    assert [*map(str, found.tracing.trace.conditions)] == ["-16 * n + 4294967295 >= 0"]


def test_devices_of_numbers_have_sample_sizes() -> None:
    graph = graph_of(MODELS["mlp"](dynamic=("batch",)))
    assert WholeGraph.of(graph, compiler("nnapi-reference"), parse({})) is None


def test_the_trial_is_as_small_as_each_size_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """That heights and widths are divided by 16 asks for no large batch."""
    shapes, execute = list[tuple[int, ...]](), PreparedSession.execute

    def noted(
        prepared: PreparedSession, inputs: Arrays, outputs: Arrays, options: RunOptions
    ) -> list[Array]:
        shapes.extend(array.shape for array in inputs if array is not None)
        return execute(prepared, inputs, outputs, options)

    monkeypatch.setattr(PreparedSession, "execute", noted)
    plan(MODELS["segmentation"](dynamic=("batch", "size")), monkeypatch)
    ((batch, *others),) = shapes
    assert (batch, min(others)) == (2, 3)
    assert max(others) <= 48
