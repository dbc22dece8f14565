"""INT64 operands as INT32: the same numbers, at the limits of what operators take and what fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ep_nnapi.rewriting.int64 import int64_as_int32
from tests.rewriting.equality import same, types

INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
IDS = np.array([[3, -1, 0], [2**31 - 1, -(2**31), 7]])


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    **constants: np.ndarray,
) -> onnx.ModelProto:
    """A model whose inputs are [2, 3]; nodes have the names of their outputs."""
    for node in nodes:
        node.name = node.output[0]
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, t, [2, 3]) for n, t in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid(domain, 21) for domain in ("", "my.domain")]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8)
    )


MASK = [
    helper.make_node("Unsqueeze", ["m", "axis"], ["u"]),
    helper.make_node("Sub", ["one", "u"], ["s"]),
    helper.make_node("Cast", ["s"], ["y"], to=FLOAT),
]
AXIS, ONE = np.array([1]), np.array(1)


def test_a_mask_is_int32_from_its_input_on():
    """What reads a converted node's result is converted with it."""
    model = model_of(MASK, {"m": INT64}, {"y": FLOAT}, axis=AXIS, one=ONE)
    found = int64_as_int32(model, {"u"}, {"m", "u", "s", "one"})
    assert types(found) == ["Cast", "Unsqueeze", "Sub", "Cast"]
    assert [n.input[0] for n in found.graph.node] == ["m", "m/int32", "one/int32", "s/int32"]
    same(model, found, {"m": IDS // 2})


def test_conversion_ends_where_numbers_may_not_fit():
    model = model_of(MASK, {"m": INT64}, {"y": FLOAT}, axis=AXIS, one=ONE)
    found = int64_as_int32(model, {"u"}, {"m", "u", "one"})
    assert types(found) == ["Cast", "Unsqueeze", "Cast", "Sub", "Cast"]
    same(model, found, {"m": IDS})
    assert int64_as_int32(model, {"u"}, {"u", "s", "one"}) is None  # the input may not fit


def test_only_named_nodes_begin():
    model = model_of(MASK, {"m": INT64}, {"y": FLOAT}, axis=AXIS, one=ONE)
    assert int64_as_int32(model, {"elsewhere"}, {"m", "u", "s", "one"}) is None


def test_outputs_of_the_model_stay_int64():
    model = model_of([helper.make_node("Add", ["m", "m"], ["y"])], {"m": INT64}, {"y": INT64})
    found = int64_as_int32(model, {"y"}, {"m", "y"})
    assert types(found) == ["Cast", "Add", "Cast"]
    same(model, found, {"m": IDS // 2})


def test_an_index_always_fits():
    table = np.arange(10, dtype=np.float32)
    nodes = [helper.make_node("Gather", ["t", "m"], ["y"])]
    model = model_of(nodes, {"m": INT64}, {"y": FLOAT}, t=table)
    found = int64_as_int32(model, {"y"}, set())
    assert types(found) == ["Cast", "Gather"]
    same(model, found, {"m": np.array([[0, 9, -10], [-1, 5, 2]])})


def test_data_of_a_gather_is_converted_apart_from_its_indexes():
    nodes = [helper.make_node("Gather", ["t", "m"], ["y"])]
    model = model_of(nodes, {"m": INT64}, {"y": INT64}, t=np.array([1, 2**40]))
    found = int64_as_int32(model, {"y"}, {"m"})
    assert found.graph.node[-1].input[:] == ["t", "m/int32"]
    same(model, found, {"m": IDS * 0})


@pytest.mark.parametrize("op_type", ["Reshape", "Expand"])
def test_shapes_have_to_be_int64(op_type: str):
    nodes = [
        helper.make_node("Gather", ["m", "zero"], ["row"]),
        helper.make_node("Abs", ["row"], ["shape"]),
        helper.make_node(op_type, ["x", "shape"], ["y"]),
    ]
    model = model_of(nodes, {"m": INT64, "x": FLOAT}, {"y": FLOAT}, zero=np.array(0))
    found = int64_as_int32(model, {"row"}, {"m", "row", "shape"})
    assert [n.input[1] for n in found.graph.node if n.op_type == op_type] == ["shape"]
    x = np.ones((2, 3), np.float32)
    same(model, found, {"m": np.array([[1, 2, 3], [0, 0, 0]]), "x": x})


def test_a_cast_to_int64_becomes_one_to_int32():
    nodes = [
        helper.make_node("Cast", ["b"], ["wide"], to=INT64),
        helper.make_node("Mul", ["wide", "one"], ["y"]),
    ]
    model = model_of(nodes, {"b": BOOL}, {"y": INT64}, one=ONE)
    found = int64_as_int32(model, {"wide"}, {"wide", "y", "one"})
    assert types(found) == ["Cast", "Mul", "Cast"]
    same(model, found, {"b": np.array([[True, False, True]] * 2)})


def test_operators_that_nobody_defines_stay():
    node = helper.make_node("Own", ["m"], ["y"], domain="my.domain")
    model = model_of([node], {"m": INT64}, {"y": INT64})
    assert int64_as_int32(model, {"y"}, {"m", "y"}) is None
