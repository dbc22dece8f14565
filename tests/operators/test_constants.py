"""Tensors that depend on sizes and constants alone, triangles, rows with one element set."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ep_nnapi.nnapi.errors import Reason
from tests import oracle
from tests.oracle import FL, accepts, boolean, f16, f32, i32, i64, matches, node, on_cpu, rejects


def beside(op_type, *given, opset=21, **attributes):
    """The node beside another, for a model of NNAPI has at least one input."""
    names = [f"x{i}" for i in range(len(given))]
    nodes = [
        helper.make_node(op_type, names, ["y0"], "node", **attributes),
        helper.make_node("Relu", ["beside"], ["y1"], "beside"),
    ]
    inputs = dict(zip(names, given, strict=True)) | {"beside": oracle.f32(2)}
    return oracle.graph(nodes, inputs, outputs=2, opset=opset)


@pytest.mark.parametrize("bounds", [{}, {"start": 1}, {"start": -3, "end": -1}, {"end": 2}])
def test_shape_matches(bounds):
    oracle.matches(beside("Shape", oracle.f32(2, 3, 4, 5), **bounds), oracle.FL[3])
    oracle.matches(beside("Shape", oracle.boolean(2, 3, 1, 2, 5), **bounds), oracle.FL[8])


def test_size_matches():
    for x in (oracle.f32(2, 3, 4), oracle.f32(), oracle.boolean(3, 2)):
        oracle.matches(beside("Size", x), oracle.FL[3])


@pytest.mark.parametrize("k", [-1, 0, 2])
@pytest.mark.parametrize(
    "dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64]
)
def test_eye_like_matches(dtype, k):
    oracle.matches(beside("EyeLike", oracle.f32(3, 5), k=k, dtype=dtype), oracle.FL[3])


def test_eye_like_of_its_own_type_matches():
    oracle.matches(beside("EyeLike", oracle.f32(4, 4)), oracle.FL[3])
    assert oracle.emitted(beside("EyeLike", oracle.f32(4, 4)), oracle.FL[3]) == ["RESHAPE", "RELU"]


@pytest.mark.parametrize(
    "bounds", [(0, 5, 1), (10, -3, -4), (0.5, 2.5, 0.25), (-1.0, 1.0, 0.3)], ids=str
)
def test_range_matches(bounds):
    dtype = np.float32 if isinstance(bounds[0], float) else np.int64
    oracle.matches(
        beside("Range", *(np.array(b, dtype) for b in bounds)), oracle.FL[3], atol=1e-6
    )  # added one by one or not


@pytest.mark.parametrize("number", [1.5, np.float16(2), np.int32(-3), np.int64(7), np.bool_(True)])
def test_constant_of_shape_matches(number):
    value = numpy_helper.from_array(np.array([number], getattr(number, "dtype", np.float32)))
    for shape in ([2, 3], [5000, 2], [2, 1, 2, 1, 3]):
        case = beside("ConstantOfShape", np.array(shape, np.int64), value=value)
        oracle.matches(case, oracle.FL[8])
    oracle.matches(beside("ConstantOfShape", np.array([3], np.int64)), oracle.FL[3])


def test_many_equal_numbers_are_filled():
    case = beside("ConstantOfShape", np.array([100, 100], np.int64))
    assert "FILL" in oracle.emitted(case, oracle.FL[4])
    assert "FILL" not in oracle.emitted(case, oracle.FL[3])


def test_integers_need_level_3():
    oracle.accepts(oracle.node("Size", oracle.f32(2, 3)), oracle.FL[3])
    oracle.rejects(oracle.node("Size", oracle.f32(2, 3)), oracle.FL[2], Reason.LEVEL, "CAST")


def test_what_is_not_known_is_refused():
    oracle.rejects(oracle.node("Shape", oracle.f32("n", 3)), oracle.FL[8], Reason.SHAPE, "'n'")
    large = oracle.node("Range", *(np.array(b, np.int64) for b in (2**40, 2**40 + 2, 1)))
    oracle.rejects(large, oracle.FL[8], Reason.DTYPE, "INT32 does not hold")
    output = helper.make_tensor_type_proto(TensorProto.INT64, [3])
    computed = oracle.node("Range", oracle.i64(), oracle.i64(), oracle.i64(), output_types=[output])
    oracle.rejects(computed, oracle.FL[8], Reason.CONSTANT, "must be constant")


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [None, -2, 0, 1, 9])
def test_trilu_matches(diagonal, upper, given):
    more = [] if diagonal is None else [np.array(diagonal, np.int64)]
    matches(node("Trilu", given(2, 4, 5), *more, upper=upper), FL[8])


@pytest.mark.parametrize(("upper", "far"), [(1, -3), (0, 4)])
def test_trilu_of_all_elements_is_a_copy(upper, far):
    """Of [4, 5] a step further to the other side is a mask again, and beyond all is zero."""
    inward, nothing = (1, 5) if upper else (-1, -4)
    for diagonal, mask in ((far, False), (far + inward, True), (nothing, False)):
        case = node("Trilu", f32(4, 5), np.array(diagonal, np.int64), upper=upper)
        (taken,) = accepts(case, FL[8])
        assert ("SELECT" in {c.spec.name for c in taken.calls}) is mask
        if diagonal != nothing:  # constants alone have no model
            matches(case, FL[8])


@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 1, 4, 4), (1, 70, 70)])
def test_trilu_of_every_rank_matches(shape):
    matches(node("Trilu", f32(*shape)), FL[3])
    matches(node("Trilu", f32(*shape)), FL[8])


def test_trilu_refusals():
    rejects(node("Trilu", f32(3, 3)), FL[2], Reason.LEVEL, "SELECT")
    rejects(node("Trilu", f32(3, 3), i64()), FL[8], Reason.CONSTANT, "x1 must be constant")


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 1), ((3, 5, 2), 1), ((2, 3), 0)])
def test_cum_sum_matches(shape, axis, exclusive, reverse):
    at = np.array(axis, np.int64)
    by = {"exclusive": exclusive, "reverse": reverse}
    matches(node("CumSum", f32(*shape), at, **by), FL[2], atol=1e-5)  # sums in another order
    matches(node("CumSum", i32(*shape), at, **by), FL[6])


def test_cum_sum_beyond_rank_4_matches():
    case = node("CumSum", f32(2, 3, 2, 2, 2), np.array(-3, np.int64))
    matches(case, FL[8], atol=1e-5)


def test_cum_sum_limits():
    axis = np.array(1, np.int64)
    accepts(node("CumSum", f32(2, 1024), axis), FL[1])
    rejects(node("CumSum", f32(2, 1025), axis), FL[8], Reason.SIZE, "1025 elements along the axis")
    rejects(node("CumSum", f32(2, 3), i64()), FL[8], Reason.CONSTANT, "x1 must be constant")


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize(("shape", "axis"), [((3, 5), 1), ((2, 3, 4), 1), ((2, 3, 2, 2, 2), 2)])
def test_hardmax_matches(shape, axis, opset):
    matches(node("Hardmax", f32(*shape), axis=axis, opset=opset), FL[3], oracle=on_cpu)


def test_hardmax_sets_the_first_of_equals():
    ties = [[1, 3, 3, 0], [2, 2, 2, 2]]
    case = node("Hardmax", f32(2, 4))
    matches(case, FL[3], feeds={"x0": ties})
    rejects(case, FL[2], Reason.LEVEL, "ARGMAX")


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("values", [[0, 1], [2, -3]])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_one_hot_matches(axis, values, dtype):
    depth, pair = np.array(5, np.int64), np.array(values, dtype)
    case = node("OneHot", i32(2, 3, low=-7, high=7), depth, pair, axis=axis)
    matches(case, FL[8])


def test_one_hot_refusals():
    depth, pair = np.array(5, np.int64), np.array([0, 1], np.float32)
    accepts(node("OneHot", i32(2, 3, 4), depth, pair), FL[3])
    rejects(node("OneHot", i64(2, 3), depth, pair), FL[8], Reason.DTYPE, "x0 is INT64; use INT32")
    rejects(node("OneHot", i32(2, 3, 2, 2), depth, pair), FL[8], Reason.RANK, "rank 5")
    rejects(node("OneHot", i32(2), i64(), pair), FL[8], Reason.CONSTANT, "x1 must be constant")
    rejects(node("OneHot", i32(2), depth, f32(2)), FL[8], Reason.CONSTANT, "x2 must be constant")


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [2**62, -(2**62)])
def test_diagonals_beyond_the_matrix_match(k, upper):
    matches(node("Trilu", f32(3, 4), np.array(k), upper=upper), FL[8], oracle=on_cpu)
