"""Symbolic sizes bound to numbers."""

import numpy as np
from onnx import TensorProto, helper

from ep_nnapi.graph.graph import Graph
from ep_nnapi.sizes.bind import bind_shapes, is_dynamic
from tests.onnx_graph import graph_of


def convolution() -> Graph:
    """x [batch, 3, height, width] -> Conv stride 2 -> GlobalAveragePool -> Flatten -> y."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "height", None])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])
    weights = helper.make_tensor("w", TensorProto.FLOAT, [8, 3, 3, 3], np.zeros(216))
    made = helper.make_graph(nodes, "g", [x], [y], [weights])
    return graph_of(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]))


def shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    return {o.name: o.shape for n in graph.nodes for o in n.outputs if o is not None}


def test_every_size_follows_from_the_inputs() -> None:
    graph = bind_shapes(convolution(), {"x": (2, 3, 9, 11)})
    assert shapes(graph) == {"c": (2, 8, 5, 6), "p": (2, 8, 1, 1), "y": (2, 8)}
    assert graph.inputs[0].shape == (2, 3, 9, 11)


def test_a_graph_without_symbols_needs_no_inference() -> None:
    static = bind_shapes(convolution(), {"x": (1, 3, 8, 8)})
    assert not is_dynamic(o for n in static.nodes for o in n.outputs if o is not None)
    assert bind_shapes(static, {}) == static
