"""Values that a graph is fed beside ordinary numbers: NaN, infinities, zeros, denormals, huge ones."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from ep_nnapi.nnapi.array import Array


class Values(StrEnum):
    """Which floats a graph is fed."""

    ORDINARY = "ordinary"
    SPECIAL = "special"
    HUGE = "huge"


def _pools(dtype: np.dtype) -> tuple[tuple[float, ...], ...]:
    """Values to put among ordinary ones; an array gets those of one pool."""
    info, infinity = np.finfo(dtype), float("inf")
    largest, least = float(info.max), float(info.smallest_subnormal)
    small = float(info.smallest_normal)
    nan, ends, zeros = (float("nan"),), (infinity, -infinity), (0.0, -0.0)
    tiny = (least, -least, small / 2, -small / 2, small)
    ties = (1.0, 1.0, -1.0, 0.5)
    return (nan, ends, zeros, tiny, ties, (infinity,), (largest, -largest), nan + ends + zeros)


def special(feeds: Mapping[str, Array], values: Values, seed: int) -> dict[str, Array]:
    """The feeds with other floats in them, which depend on the seed alone."""
    rng = np.random.default_rng(seed)
    return {n: _changed(a, values, rng) if a.dtype.kind == "f" else a for n, a in feeds.items()}


def _changed(array: Array, values: Values, rng: np.random.Generator) -> Array:
    if values is Values.ORDINARY or rng.random() < 0.25:
        return array
    if values is Values.HUGE:
        most = np.log10(float(np.finfo(array.dtype).max)) - np.log10(2.0)
        powers = rng.uniform(most * rng.choice((0.4, 0.8, 0.95)), most, array.shape)
        return np.asarray(np.asarray(array, np.float64) * 10.0**powers / 2, array.dtype)
    pools = _pools(array.dtype)
    pool = np.asarray(pools[rng.integers(len(pools))], array.dtype)
    put = rng.random(array.shape) < rng.choice((0.05, 0.3, 0.9))
    return np.where(put, rng.choice(pool, array.shape), array).astype(array.dtype)
