"""The polynomial approximations, against float64 on 20,001 points: the documented bounds hold."""

import numpy as np
import pytest
from scipy import special

from ep_nnapi.operators.lib.approximations import (
    arctan,
    erf,
    gelu,
    half_angle,
    polynomial,
    swish,
    tanh_gelu,
)
from tests.operators.lib.emitting import returned, written


def points(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 20_001).astype(np.float32)


def test_erf_is_off_by_2e_7():
    x = points(-6, 6)
    assert np.abs(written(erf, x, like=x) - special.erf(x.astype(np.float64))).max() <= 2e-7


def test_gelu_is_off_by_4e_7_within_4_and_2e_7_x_beyond():
    x = points(-9, 9)
    exact = x * special.ndtr(x.astype(np.float64))
    off, inside = np.abs(written(gelu, x, like=x) - exact), np.abs(x) < 4
    rounded = 6e-8 * np.abs(exact)  # the result's own rounding to float32
    assert (off[inside] <= 4e-7 + rounded[inside]).all()
    assert (off[~inside] <= 2e-7 * np.abs(x[~inside]) + rounded[~inside]).all()


def test_arctan_is_off_by_2e_7():
    x = points(-1, 1)
    assert np.abs(returned(arctan, x) - np.arctan(x.astype(np.float64))).max() <= 2e-7


def test_half_angles_match():
    x = points(-3, 3)
    exact = np.tan(np.arctan(x.astype(np.float64)) / 2)
    assert np.allclose(returned(half_angle, x), exact, rtol=1e-6, atol=0)  # five roundings


@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_swish_matches(alpha: float):
    x = points(-9, 9)
    found = written(lambda n, x, y: swish(n, x, y, alpha), x, like=x)
    assert np.allclose(found, x * special.expit(alpha * x.astype(np.float64)), rtol=1e-5, atol=1e-6)


def test_gelu_by_tanh_matches():
    x = points(-5, 5)
    d = x.astype(np.float64)
    exact = d * (1 + np.tanh(np.sqrt(2 / np.pi) * (d + 0.044715 * d**3))) / 2
    assert np.allclose(written(tanh_gelu, x, like=x), exact, rtol=0, atol=2e-6)  # float32 of 5


def test_a_polynomial_begins_with_its_constant():
    x = np.array([0, 1, 2, -3], np.float32)
    found = returned(lambda n, x: polynomial(n, x, (1.0, -2.0, 3.0)), x)
    assert found.tolist() == (1 - 2 * x + 3 * x**2).tolist()
