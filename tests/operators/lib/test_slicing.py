"""Slices by ranges and equal parts, against numpy: exact, as elements only move."""

import numpy as np
import pytest

from ep_nnapi.operators.lib.reverse import mirrored_indices, reverse_axis
from ep_nnapi.operators.lib.slicing import equal_parts, slice_ranges, sliced
from ep_nnapi.operators.lib.transposition import merged, transpose
from tests.operators.lib.emitting import constant, emitted, floats, node, returned, value, written

RANGES = [
    (range(0, 4), range(1, 5)),
    (range(1, 4, 2), range(5)),
    (range(3, -1, -1), range(4, 0, -2)),
    (range(2), range(3), range(1, 2), range(4), range(1, 5), range(2)),
]


@pytest.mark.parametrize("ranges", RANGES)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_ranges_match(ranges: tuple[range, ...], dtype: type):
    shape = (4, 5) if len(ranges) == 2 else (2, 3, 3, 4, 5, 2)
    x = (100 * floats(*shape)).astype(dtype)
    exact = x[np.ix_(*ranges)]
    found = written(lambda n, x, y: slice_ranges(n, x, ranges, y), x, like=exact)
    assert np.array_equal(found, exact)


@pytest.mark.parametrize("level", [2, 3])
def test_slices_at_levels_without_slice_match(level: int):
    x = floats(4, 5)
    exact = x[1:3, 2:]
    ranges = (range(1, 3), range(2, 5))
    found = written(lambda n, x, y: slice_ranges(n, x, ranges, y), x, like=exact, level=level)
    assert np.array_equal(found, exact)


def test_a_constant_is_sliced_without_operations():
    w = constant(floats(4, 3))
    made = emitted(sliced, node(), w, (range(1, 3), range(3)), (6,))
    assert made.calls == []
    assert np.array_equal(made.returned.constant.array, w.constant.array[1:3].reshape(6))


@pytest.mark.parametrize(("level", "operation"), [(2, "STRIDED_SLICE"), (3, "SPLIT")])
def test_parts_are_split_where_the_level_can(level: int, operation: str):
    x = value("x", floats(2, 6))
    made = emitted(equal_parts, node([x], level=level), x, 1, 3)
    assert set(made.names) == {operation}
    assert [v.shape for v in made.returned] == [(2, 2)] * 3


def test_one_part_is_the_tensor_itself():
    x = value("x", floats(2, 6))
    assert emitted(equal_parts, node([x]), x, 1, 1).returned == [x]


# Reversed axes and indexes, against numpy

X = floats(2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("level", [3, 8])
def test_an_axis_is_reversed(axis: int, level: int):
    found = returned(lambda n, x: reverse_axis(n, x, axis), X, level=level)
    assert np.array_equal(found, np.flip(X, axis))


def test_an_axis_of_size_1_takes_no_operation():
    x = value("x", floats(1, 3))
    made = emitted(reverse_axis, node([x]), x, 0)
    assert (made.calls, made.returned) == ([], x)


def test_indexes_are_counted_from_the_end():
    at = np.array([0, 3, 4], np.int32)
    found = written(lambda n, x, y: mirrored_indices(n, x, 5, y), at, like=at)
    assert found.tolist() == [4, 1, 0]


# Transposes of any rank, against numpy: exact, as elements only move

PERMS = [(1, 0), (0, 2, 1), (3, 1, 0, 2), (4, 3, 2, 1, 0), (0, 1, 4, 2, 3), (5, 0, 4, 1, 3, 2)]


@pytest.mark.parametrize("perm", PERMS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_permutations_match(perm: tuple[int, ...], dtype: type):
    x = (100 * floats(*range(2, 2 + len(perm)))).astype(dtype)
    exact = np.transpose(x, perm)
    assert np.array_equal(written(lambda n, x, y: transpose(n, x, perm, y), x, like=exact), exact)


def test_axes_that_stay_adjacent_are_merged():
    assert merged((2, 3, 1, 4, 5), (3, 4, 0, 1, 2)) == ([6, 20], [1, 0])
    assert merged((2, 3, 4), (0, 1, 2)) == ([24], [0])
