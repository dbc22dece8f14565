"""Nodes converted to an ONNX model compute what the original model computes."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.to_onnx import model_of, node_of, without_shapes
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.sessions.cpu import session_of
from tests.onnx_graph import graph_of
from tests.oracle import f32, graph

CASE = graph(
    [
        onnx.helper.make_node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Clip", ["a", "", "high"], ["y0"], "clip"),
    ],
    {
        "x": f32(1, 2, 5, 5),
        "w": np.linspace(-1, 1, 36, dtype=np.float32).reshape(2, 2, 3, 3),
        "high": np.array(0.5, np.float32),
    },
)


def test_the_model_computes_the_same() -> None:
    whole = graph_of(CASE.model)
    model = model_of(whole.nodes, whole.inputs, whole.outputs, whole.opsets)
    onnx.checker.check_model(model, full_check=True)
    feeds = CASE.draw()
    (found,) = ReferenceEvaluator(model).run(None, feeds)
    (wanted,) = CASE.evaluate(feeds)
    np.testing.assert_array_equal(found, wanted)
    assert {t.name for t in model.graph.initializer} == {"w", "high"}


def test_without_shapes_any_size_is_allowed() -> None:
    whole = graph_of(CASE.model)
    inputs, outputs = without_shapes(whole.inputs), without_shapes(whole.outputs)
    model = model_of(whole.nodes, inputs, outputs, whole.opsets)
    assert not model.graph.input[0].type.tensor_type.HasField("shape")
    (found,) = ReferenceEvaluator(model).run(None, {"x": np.ones((2, 2, 3, 4), np.float32)})
    assert found.shape == (2, 2, 3, 4)


def test_an_empty_list_and_an_omitted_input() -> None:
    """The type of an empty list is unknown, so it is omitted; an omitted input has no name."""
    x, y = (Value(name, DType.FLOAT, (2,)) for name in "xy")
    node = GraphNode(0, "n", "Clip", "", 13, (x, None, x), (y,), {"list": (), "one": 1})
    proto = node_of(node)
    assert [a.name for a in proto.attribute] == ["one"]
    assert list(proto.input) == ["x", "", "x"]


def test_nodes_of_one_name() -> None:
    """ONNX Runtime loads no model with two; an unnamed node goes by its output, as another may."""
    x, y, z = (Value(name, DType.FLOAT, (2,)) for name in "xyz")
    nodes = [
        GraphNode(i, "y", "Abs", "", 13, (a,), (b,), {})
        for i, (a, b) in enumerate(((x, y), (y, z)))
    ]
    session_of(model_of(nodes, [x], [z], {"": 13}).SerializeToString())
