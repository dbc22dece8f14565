"""Signs at levels with and without ABS and NEG: exact, as only signs change."""

import numpy as np
import pytest

from ep_nnapi.ops.lib.signs import absolute, absolute_of, negative, negative_of, signed_like
from tests.ops.lib.emitting import floats, returned, written

X = floats(2, 3)


@pytest.mark.parametrize("level", [1, 3, 8])
def test_absolute_values_match(level: int):
    assert np.array_equal(written(absolute, X, like=X, level=level), np.abs(X))
    assert np.array_equal(returned(absolute_of, X, level=level), np.abs(X))


@pytest.mark.parametrize("level", [1, 3, 8])
def test_negations_match(level: int):
    assert np.array_equal(written(negative, X, like=X, level=level), -X)
    assert np.array_equal(returned(negative_of, X, level=level), -X)


def test_signs_are_copied():
    size = floats(2, 3, low=0.5, high=1)
    assert np.array_equal(written(signed_like, size, X, like=X), np.copysign(size, X))
