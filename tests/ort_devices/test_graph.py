"""ONNX graphs under construction: names, nodes, and constants inside and outside the model."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ep_nnapi.ort_devices.graph import OnnxGraph

INLINE = 1024
"""Bytes of the largest constant inside the model: a quarter as many floats."""


def value(name: str, code: int, *shape: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, code, shape)


def test_the_model_computes_its_nodes():
    """x * 2 clipped at 3, by ONNX's reference evaluator."""
    graph = OnnxGraph()
    two, three = (graph.constants.array(np.array(n, np.float32)) for n in (2, 3))
    y = graph.node("Min", graph.node("Mul", "x", two), three)
    built = graph.build([value("x", TensorProto.FLOAT, 3)], [value(y, TensorProto.FLOAT, 3)])
    onnx.checker.check_model(built.proto, full_check=True)
    (found,) = ReferenceEvaluator(built.proto).run(None, {"x": np.array([-1, 1, 2], np.float32)})
    assert found.tolist() == [-2, 2, 3]
    assert not built.weights


def test_nodes_may_have_several_outputs_and_another_domain():
    graph = OnnxGraph()
    a, b = graph.many("Split", 2, "x", axis=1, num_outputs=2)
    graph.node("Gelu", a, domain="com.microsoft")
    split, gelu = graph.nodes
    assert list(split.output) == [a, b]
    assert (list(gelu.input), gelu.domain) == ([a], "com.microsoft")


def test_equal_constants_are_stored_once():
    constants = OnnxGraph().constants
    zero = constants.array(np.zeros(2, np.float32))
    assert constants.array(np.zeros(2, np.float32)) == zero
    others = (np.zeros(2, np.int32), np.zeros((1, 2), np.float32), np.ones(2, np.float32))
    assert len({zero, *map(constants.array, others)}) == 4


def test_constants_are_computed_when_the_model_is_built():
    graph, calls = OnnxGraph(), []

    def make() -> np.ndarray:
        calls.append(1)
        return np.ones(3, np.float32)

    assert graph.constants.lazy("ones", make) == graph.constants.lazy("ones", make)
    y = graph.node("Neg", graph.constants.lazy("ones", make))
    assert not calls
    graph.build([], [value(y, TensorProto.FLOAT, 3)])
    assert calls == [1]


@pytest.mark.parametrize(("floats", "outside"), [(INLINE // 4, 0), (INLINE // 4 + 1, 1)])
def test_large_constants_are_outside_the_model(floats, outside):
    graph = OnnxGraph()
    name = graph.constants.array(np.arange(floats, dtype=np.float32).reshape(1, -1).T)
    y = graph.node("Neg", name)
    built = graph.build([], [value(y, TensorProto.FLOAT, floats, 1)])
    assert [t.name for t in built.proto.graph.initializer] == [name] * (not outside)
    assert [v.name for v in built.proto.graph.input] == list(built.weights) == [name] * outside
    for tensor in built.proto.graph.initializer:
        assert list(tensor.dims) == [floats, 1]
    for given in built.proto.graph.input:
        assert [size.dim_value for size in given.type.tensor_type.shape.dim] == [floats, 1]


@pytest.mark.parametrize(
    "attribute", [3, (1, 2), [1, 2], True, 0.5, (0.5, 1.0), "SAME", np.int64(7)], ids=repr
)
def test_attributes_are_those_of_onnx(attribute):
    """Integers are added without ONNX's helper, which must make the same of them."""
    graph = OnnxGraph()
    graph.node("Any", "x", given=attribute)
    assert list(graph.nodes[0].attribute) == [helper.make_attribute("given", attribute)]


def reshapes(graph: OnnxGraph, *outputs: str) -> list[tuple[str, str]]:
    """What the reshapes of the built model read and write."""
    built = graph.build([], [value(name, TensorProto.FLOAT, 6) for name in outputs])
    return [(n.input[0], n.output[0]) for n in built.proto.graph.node if n.op_type == "Reshape"]


def test_a_reshape_of_a_reshape_reads_what_the_first_read():
    graph = OnnxGraph()
    first = graph.reshape("x", (3, 2))
    second = graph.reshape(first, (6,))
    assert reshapes(graph, second) == [("x", second)]
    assert reshapes(graph, first, second) == [("x", first), ("x", second)]


def test_a_reshape_to_the_shape_that_a_value_has_is_none():
    graph = OnnxGraph()
    graph.shapes["x"] = (2, 3)
    assert graph.reshape(graph.reshape("x", (6,)), (2, 3)) == "x"
    assert graph.reshape("y", (2, 3)) != "y"  # of unknown shape
    assert reshapes(graph) == []


@pytest.mark.parametrize("sizes", [(0, 2), (-1, 6), (0, -1)])
def test_sizes_that_depend_on_the_value_are_taken_from_it(sizes):
    graph = OnnxGraph()
    first = graph.reshape("x", (3, 2))
    second = graph.reshape(first, sizes)
    assert reshapes(graph, second) == [("x", first), (first, second)]


def test_a_reshape_is_made_once():
    graph = OnnxGraph()
    assert graph.reshape("x", (-1, 3)) == graph.reshape("x", (-1, 3))
    assert len(graph.nodes) == 1


def test_an_exact_cast_is_undone_by_none():
    graph = OnnxGraph()
    narrow = graph.cast("x", TensorProto.INT32, exact_from=TensorProto.INT64)
    assert graph.cast(narrow, TensorProto.INT64) == "x"
    rounded = graph.cast("y", TensorProto.INT32)
    assert graph.cast(rounded, TensorProto.INT64) not in ("x", "y")
    assert graph.cast(narrow, TensorProto.FLOAT) not in ("x", "y")


def test_what_nothing_reads_is_left_out():
    graph = OnnxGraph()
    graph.node("Add", graph.node("Neg", "x"), graph.constants.array(np.zeros(INLINE, np.float32)))
    y = graph.node("Abs", "x")
    built = graph.build([value("x", TensorProto.FLOAT, 3)], [value(y, TensorProto.FLOAT, 3)])
    assert [node.op_type for node in built.proto.graph.node] == ["Abs"]
    assert not built.weights


def test_outputs_have_names_of_their_own():
    graph = OnnxGraph()
    y = graph.node("Relu", "x")
    names = [graph.output(value) for value in (y, y, "x")]
    assert names[0] == y
    assert len({*names, "x"}) == 4
    assert [n.op_type for n in graph.nodes] == ["Relu", "Identity", "Identity"]
