"""Measures of errors against their formulas, over one run and over several."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from ep_nnapi.diagnostics.error_measures import ErrorMeasures


def random_pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    want = rng.standard_normal((3, 5)).astype(np.float32)
    return (want + 0.1 * rng.standard_normal((3, 5))).astype(np.float32), want


@pytest.mark.parametrize("seed", range(3))
def test_formulas(seed: int):
    got, want = random_pair(seed)
    found = ErrorMeasures.of(got, want)
    a, b = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    assert found.maximum == np.abs(a - b).max()
    assert found.mean == pytest.approx(np.abs(a - b).mean(), rel=1e-12)  # float64 rounding
    assert found.cosine == pytest.approx(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), rel=1e-12)
    assert found.decibels == pytest.approx(10 * np.log10((b**2).sum() / ((a - b) ** 2).sum()))


def test_several_runs_are_measured_as_one_array():
    pairs = [random_pair(seed) for seed in range(4)]
    found = ErrorMeasures.over(ErrorMeasures.of(*pair) for pair in pairs)
    got, want = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    whole = ErrorMeasures.of(got, want)
    assert found.to_json() == pytest.approx(whole.to_json(), rel=1e-12)  # float64 rounding


def test_equal_arrays_have_no_noise():
    x = np.array([1.0, np.inf, np.nan, -2.0], np.float32)
    found = ErrorMeasures.of(x.copy(), x)
    assert (found.maximum, found.mean, found.cosine, found.decibels) == (0.0, 0.0, 1.0, inf)


@pytest.mark.parametrize(
    ("got", "want"),
    [([1.0, np.nan], [1.0, 2.0]), ([1.0, np.inf], [1.0, -np.inf]), ([1.0], [1.0, 2.0])],
    ids=["not a number", "another infinity", "another shape"],
)
def test_what_cannot_be_subtracted_is_infinitely_wrong(got: list[float], want: list[float]):
    found = ErrorMeasures.of(np.array(got), np.array(want))
    assert (found.maximum, found.mean, found.decibels) == (inf, inf, -inf)


@pytest.mark.parametrize(("got", "cosine", "decibels"), [(0.0, 1.0, inf), (1.0, 0.0, -inf)])
def test_zeros_have_no_direction(got: float, cosine: float, decibels: float):
    found = ErrorMeasures.of(np.full(3, got), np.zeros(3))
    assert (found.cosine, found.decibels) == (cosine, decibels)


def test_integers_do_not_overflow():
    found = ErrorMeasures.of(np.array([0, 255], np.uint8), np.array([255, 0], np.uint8))
    assert (found.maximum, found.mean) == (255.0, 255.0)


def test_no_elements_are_no_error():
    none = ErrorMeasures.of(np.empty((0, 3)), np.empty((0, 3)))
    assert (none.maximum, none.mean, none.elements) == (0.0, 0.0, 0)
    assert ErrorMeasures.over([]).maximum == 0.0
