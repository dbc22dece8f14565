"""Nodes lowered again for other sizes show what was made of plain numbers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.capability.node import CapableNode, judge
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.options.target import Target
from ep_nnapi.provider import retracing
from ep_nnapi.sizes.bind import bind_shapes
from tests.onnx_graph import graph_of, parsed

MODEL = """(float[n,4] x) => (float[n,4] y) {
    a = Exp (x) b = Exp (a) s = Shape (b) e = Reshape (b, s) y = Tanh (e) }"""
Judge = Callable[..., CapableNode | Rejection]


def difference(monkeypatch: pytest.MonkeyPatch, judged: Judge) -> str:
    """What is found of the model, lowered by this function, for other sizes."""
    trace = Trace()
    graph = bind_shapes(graph_of(parsed(MODEL, 18)), {"x": (trace.size("n", 6), 4)})
    first = [judged(node, Target(8)) for node in graph.nodes]
    monkeypatch.setattr(retracing, "judge", judged)
    members = [member for member in first if isinstance(member, CapableNode)]
    return retracing.difference(members, {"n": 11}, trace, Target(8))


def test_nodes_of_a_kind_are_lowered_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []

    def counted(
        node: GraphNode, target: Target, *, checked: bool = True
    ) -> CapableNode | Rejection:
        lowered.append(node.op_type)
        return judge(node, target, checked=checked)

    assert difference(monkeypatch, counted) == ""
    assert lowered == ["Exp", "Exp", "Shape", "Reshape", "Tanh", "Exp", "Reshape", "Tanh"]


@pytest.mark.parametrize(
    "use", [lambda n: len(range(n)), lambda n: 1.0 * n, lambda n: int(np.arange(n)[-1])]
)
def test_a_size_that_was_a_plain_number_is_found(
    use: Callable[[int], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaking(
        node: GraphNode, target: Target, *, checked: bool = True
    ) -> CapableNode | Rejection:
        made = judge(node, target, checked=checked)
        if node.op_type != "Tanh" or isinstance(made, Rejection) or node.inputs[0] is None:
            return made
        (call,) = made.calls
        number = use(node.inputs[0].shape[0])
        return replace(made, calls=(replace(call, inputs=(*call.inputs, number)),))

    assert difference(monkeypatch, leaking) == "TANH of y"


def test_a_node_that_is_rejected_for_other_sizes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(
        node: GraphNode, target: Target, *, checked: bool = True
    ) -> CapableNode | Rejection:
        if node.outputs[0] is not None and len(range(node.outputs[0].shape[0])) > 10:
            return Rejection(node.name, node.op_type, Reason.SHAPE, "it is large")
        return judge(node, target, checked=checked)

    assert "it is large" in difference(monkeypatch, limited)
