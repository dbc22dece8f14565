"""Fixed-point arithmetic against exact numbers: what it rounds how, and how far off it may be."""

import numpy as np
import pytest

from ep_nnapi.nnapi.host.kernels.fixed_point import (
    ONE,
    Multiplier,
    divide,
    inverse_root,
    logistic,
    product,
    rescale,
    saturate,
    tanh,
)

EVERY = np.arange(-(2**15), 2**15)
SEED = 20260817


def test_division_rounds_halves_away_from_zero():
    halves = np.array([-5, -3, -2, -1, 0, 1, 2, 3, 5])
    assert divide(halves, 1).tolist() == [-3, -2, -1, -1, 0, 1, 1, 2, 3]
    assert divide(halves, 0).tolist() == halves.tolist()
    assert divide(np.array([-9, 9, 6]), np.array([0, 1, 2])).tolist() == [-9, 5, 2]


def test_products_round_halves_up():
    half = 1 << 14
    assert product(np.array([3, 1, -1, -3]), half).tolist() == [2, 1, 0, -1]
    assert product(np.array([-(2**15)]), -(2**15)).tolist() == [ONE]


def test_rescaling_saturates():
    assert rescale(np.array([1, 5000, -5000]), 3).tolist() == [8, ONE, -ONE - 1]
    assert rescale(np.array([16, 24, -24]), -4).tolist() == [1, 2, -2]
    assert saturate(np.array([127, 128, -129]), 8).tolist() == [127, 127, -128]


@pytest.mark.parametrize("factor", [0.5, 0.3, 1.0, 1 - 2.0**-40, 2.7, 1e-6, 12345.678])
def test_multipliers_are_within_one(factor):
    values = np.random.default_rng(SEED).integers(-(2**17), 2**17, 1000)
    assert np.abs(Multiplier.of(factor)(values) - values * factor).max() <= 1
    assert np.abs(Multiplier.of(factor / 8)(values, up=3) - values * factor).max() <= 1


def test_multipliers_of_nothing_and_of_next_to_nothing():
    assert Multiplier.of([0.0, 2.0**-40])(np.array([2**30, 2**30])).tolist() == [0, 0]


def test_inverse_roots():
    """Five steps from 1 come within 1.3e-6, worst at the ends of what they are scaled to."""
    values = np.unique(np.geomspace(1, 2**30, 5000).astype(np.int64))
    found = inverse_root(values)
    exact = found.mantissa / 2.0**31 * 2.0**found.shift * np.sqrt(values)
    assert np.abs(exact - 1).max() < 1.3e-6
    below = inverse_root(np.array([0, -5]))
    assert below(np.array([1000, -1000])).tolist() == [1000, -1000]


FAR = 13
"""Parts of 2**15 that the polynomial and the division in 16 bits may be off."""


def test_logistic():
    found = logistic(EVERY)
    assert np.abs(found - 2**15 / (1 + np.exp(-EVERY / 2**12))).max() <= FAR
    assert found[EVERY == 0] == 1 << 14
    above = EVERY[EVERY > 0]
    assert np.array_equal(logistic(-above), ONE - logistic(above))


@pytest.mark.parametrize("integer_bits", range(7))
def test_tanh(integer_bits):
    found = tanh(EVERY, integer_bits)
    exact = np.tanh(EVERY / 2.0 ** (15 - integer_bits)) * 2**15
    assert np.abs(found - exact).max() <= FAR
    assert found[EVERY == 0] == 0
    inner = EVERY[1:]
    assert np.array_equal(tanh(-inner, integer_bits), -tanh(inner, integer_bits))
