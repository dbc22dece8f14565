"""Triangles, running sums, rows with one element set."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL1,
    FL2,
    FL3,
    FL6,
    FL8,
    accepts,
    boolean,
    f16,
    f32,
    i32,
    i64,
    matches,
    node,
    on_cpu,
    rejects,
)


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [None, -2, 0, 1, 9])
def test_trilu_matches(diagonal, upper, given):
    more = [] if diagonal is None else [np.array(diagonal, np.int64)]
    matches(node("Trilu", given(2, 4, 5), *more, upper=upper), FL8)


@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 1, 4, 4), (1, 70, 70)])
def test_trilu_of_every_rank_matches(shape):
    matches(node("Trilu", f32(*shape)), FL3)
    matches(node("Trilu", f32(*shape)), FL8)


def test_trilu_refusals():
    rejects(node("Trilu", f32(3, 3)), FL2, Reason.LEVEL, "SELECT")
    rejects(node("Trilu", f32(3, 3), i64()), FL8, Reason.CONSTANT, "x1 must be constant")


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 1), ((3, 5, 2), 1), ((2, 3), 0)])
def test_cum_sum_matches(shape, axis, exclusive, reverse):
    at = np.array(axis, np.int64)
    by = {"exclusive": exclusive, "reverse": reverse}
    matches(node("CumSum", f32(*shape), at, **by), FL2, atol=1e-5)  # sums in another order
    matches(node("CumSum", i32(*shape), at, **by), FL6)


def test_cum_sum_beyond_rank_4_matches():
    case = node("CumSum", f32(2, 3, 2, 2, 2), np.array(-3, np.int64))
    matches(case, FL8, atol=1e-5)


def test_cum_sum_limits():
    axis = np.array(1, np.int64)
    accepts(node("CumSum", f32(2, 1024), axis), FL1)
    rejects(node("CumSum", f32(2, 1025), axis), FL8, Reason.SIZE, "1025 elements along the axis")
    rejects(node("CumSum", f32(2, 3), i64()), FL8, Reason.CONSTANT, "x1 must be constant")


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize(("shape", "axis"), [((3, 5), 1), ((2, 3, 4), 1), ((2, 3, 2, 2, 2), 2)])
def test_hardmax_matches(shape, axis, opset):
    matches(node("Hardmax", f32(*shape), axis=axis, opset=opset), FL3, oracle=on_cpu)


def test_hardmax_sets_the_first_of_equals():
    ties = [[1, 3, 3, 0], [2, 2, 2, 2]]
    case = node("Hardmax", f32(2, 4))
    matches(case, FL3, feeds={"x0": ties})
    rejects(case, FL2, Reason.LEVEL, "ARGMAX")


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("values", [[0, 1], [2, -3]])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_one_hot_matches(axis, values, dtype):
    depth, pair = np.array(5, np.int64), np.array(values, dtype)
    case = node("OneHot", i32(2, 3, low=-7, high=7), depth, pair, axis=axis)
    matches(case, FL8)


def test_one_hot_refusals():
    depth, pair = np.array(5, np.int64), np.array([0, 1], np.float32)
    accepts(node("OneHot", i32(2, 3, 4), depth, pair), FL3)
    rejects(node("OneHot", i64(2, 3), depth, pair), FL8, Reason.DTYPE, "x0 is INT64; use INT32")
    rejects(node("OneHot", i32(2, 3, 2, 2), depth, pair), FL8, Reason.RANK, "rank 5")
    rejects(node("OneHot", i32(2), i64(), pair), FL8, Reason.CONSTANT, "x1 must be constant")
    rejects(node("OneHot", i32(2), depth, f32(2)), FL8, Reason.CONSTANT, "x2 must be constant")


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [2**62, -(2**62)])
def test_diagonals_beyond_the_matrix_match(k, upper):
    matches(node("Trilu", f32(3, 4), np.array(k), upper=upper), FL8, oracle=on_cpu)
