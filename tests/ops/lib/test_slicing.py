"""Slices by ranges and equal parts, against numpy: exact, as elements only move."""

import numpy as np
import pytest

from ep_nnapi.ops.lib.slicing import equal_parts, slice_ranges, sliced
from tests.ops.lib.emitting import constant, emitted, floats, node, value, written

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
