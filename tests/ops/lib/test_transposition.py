"""Transposes of any rank, against numpy: exact, as elements only move."""

import numpy as np
import pytest

from ep_nnapi.ops.lib.transposition import merged, transpose
from tests.ops.lib.emitting import floats, written

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
