"""Reversed axes and indexes, against numpy."""

import numpy as np
import pytest

from ep_nnapi.ops.lib.reverse import mirrored_indices, reverse_axis
from tests.ops.lib.emitting import emitted, floats, node, returned, value, written

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
