"""ArgMax, ArgMin and TopK."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.nnapi.errors import Reason
from tests.cases import each
from tests.oracle import (
    FL,
    Fed,
    accepts,
    emitted,
    f16,
    f32,
    f64,
    graph,
    i32,
    i64,
    ints,
    matches,
    node,
    on_cpu,
    rejects,
)

UNSIGNED = Fed(TensorProto.UINT32, (4,), 0, 9)
AXES = [((5,), 0), ((3, 5), -1), ((3, 5), 0), ((2, 3, 4), 1), ((2, 3, 4, 2), 0)]
FOLDED = [((2, 3, 4, 2, 2), 2), ((2, 1, 3, 2, 2, 5), -1)]


@pytest.mark.parametrize("select_last_index", [0, 1])
@pytest.mark.parametrize("keepdims", [0, 1])
@each(("shape", "axis"), AXES + FOLDED)
@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_places_match(op_type, shape, axis, keepdims, select_last_index):
    for given in (f32(*shape), i32(*shape, low=-2, high=2), f32(*shape, low=1, high=1)):
        case = node(
            op_type, given, axis=axis, keepdims=keepdims, select_last_index=select_last_index
        )
        matches(case, FL[8])


@pytest.mark.parametrize("opset", [7, 11, 12, 13])
def test_places_of_every_opset_match(opset):
    matches(node("ArgMax", f32(2, 3, 4), axis=1, opset=opset), FL[3], oracle=on_cpu)
    matches(node("ArgMax", f16(2, 3, 4), axis=1, opset=13), FL[3])


def test_a_place_is_one_operation_at_level_3():
    case = node("ArgMax", f32(2, 3, 4, 5), axis=1, keepdims=0)
    assert emitted(case, FL[3]) == ["ARGMAX"]
    rejects(case, FL[2], Reason.LEVEL, "ARGMAX")
    accepts(node("ArgMax", f32(2, 3, 4, 5), axis=1, keepdims=1), FL[3])


def test_the_class_of_each_pixel_costs_no_transpose():
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], "pool", kernel_shape=[2, 2]),
        helper.make_node("ArgMax", ["a"], ["y0"], "arg", axis=1, keepdims=0),
    ]
    case = graph(nodes, {"x": f32(1, 4, 6, 7)})
    assert emitted(case, FL[3]) == ["MAX_POOL_2D", "ARGMAX"]
    matches(case, FL[3])


def test_places_in_five_dimensions_need_integers_reshaped():
    case = node("ArgMax", f32(2, 3, 4, 5, 6), axis=1)
    accepts(case, FL[6])
    rejects(case, FL[4], Reason.LEVEL, "RESHAPE")


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), AXES + FOLDED)
def test_top_k_matches(shape, axis, largest):
    k = np.array([2 if shape[axis] > 1 else 1], np.int64)
    for given in (f32(*shape), i32(*shape, low=-2, high=2), f32(*shape, low=1, high=1)):
        case = node("TopK", given, k, axis=axis, largest=largest, outputs=2)
        matches(case, FL[8], oracle=on_cpu)


def test_top_k_of_the_least_integers_does_not_overflow():
    extremes = np.array([-(2**31), 2**31 - 1, 0, -(2**31)], np.int32)
    case = node("TopK", i32(4), np.array([3], np.int64), largest=0, outputs=2)
    reference = [extremes[[0, 3, 2]], np.array([0, 3, 2])]
    matches(case, FL[4], feeds={"x0": extremes}, reference=reference)
    rejects(case, FL[3], Reason.LEVEL, "SUB of TENSOR_INT32")


def test_top_k_by_attribute_matches():
    matches(node("TopK", f32(3, 5), k=3, axis=0, outputs=2, opset=9), FL[3], oracle=on_cpu)
    matches(node("TopK", f32(3, 5), np.array([3]), outputs=2, opset=10), FL[3], oracle=on_cpu)


def test_top_k_of_all_and_of_one_match():
    for k in (1, 5):
        case = node("TopK", f32(3, 5), np.array([k], np.int64), outputs=2)
        matches(case, FL[3], oracle=on_cpu)


def test_top_k_needs_level_3():
    case = node("TopK", f32(3, 5), np.array([2], np.int64), outputs=2)
    assert emitted(case, FL[3]) == ["GATHER", "TOPK_V2", "GATHER"]
    rejects(case, FL[2], Reason.LEVEL, "GATHER")


def test_other_types_and_computed_k_are_refused():
    rejects(node("ArgMax", f64(3, 5)), FL[8], Reason.DTYPE, "DOUBLE")
    rejects(node("TopK", i64(3, 5), np.array([2]), outputs=2), FL[8], Reason.DTYPE, "INT64")
    types = [
        helper.make_tensor_type_proto(t, [3, 2]) for t in (TensorProto.FLOAT, TensorProto.INT64)
    ]
    computed = node("TopK", f32(3, 5), i64(1), outputs=2, output_types=types)
    rejects(computed, FL[8], Reason.CONSTANT, "must be constant")


@pytest.mark.parametrize("largest", [5, -1])
def test_any_other_number_than_1_means_the_least(largest):
    """As in ONNX Runtime."""
    case = node("TopK", f32(3, 5), np.array([3]), largest=largest, outputs=2)
    matches(case, FL[3], oracle=on_cpu)


def test_the_least_of_unsigned_numbers_are_rejected():
    least = node("TopK", UNSIGNED, ints(2), outputs=2, largest=0)
    rejects(least, FL[8], Reason.DTYPE, "x0 is UINT32")
