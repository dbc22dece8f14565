"""Values that a graph is fed beside ordinary numbers: NaN, infinities, denormals, huge ones."""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from ep_nnapi.nnapi.array import Array


class Values(StrEnum):
    """Which floats a graph is fed."""

    ORDINARY = "ordinary"
    SPECIAL = "special"
    HUGE = "huge"


def fed(feeds: Mapping[str, Array], values: Values, seed: int, *, half: bool) -> dict[str, Array]:
    """The feeds with such floats in them, which depend on the seed alone.

    half  True if float16 computes: no finite number is beyond it
    """
    if values is Values.ORDINARY:
        return dict(feeds)
    rng = np.random.default_rng(seed)
    change = {Values.SPECIAL: _special, Values.HUGE: _huge}[values]
    info = np.finfo(np.float16 if half else np.float32)
    return {
        n: change(a, info, rng) if a.dtype.kind == "f" and rng.random() < 0.75 else a
        for n, a in feeds.items()
    }


def _special(array: Array, info: np.finfo, rng: np.random.Generator) -> Array:
    """Some elements are others: all of one kind, so that not all becomes NaN."""
    infinity = float("inf")
    largest, least = float(info.max), float(info.smallest_subnormal)
    half_of_normal = float(info.smallest_normal) / 2
    nan, ends, zeros = (float("nan"),), (infinity, -infinity), (0.0, -0.0)
    tiny = (least, -least, half_of_normal, -half_of_normal, 2 * half_of_normal)
    ties = (1.0, 1.0, -1.0, 0.5)
    kinds = (nan, ends, zeros, tiny, ties, (infinity,), (largest, -largest), nan + ends + zeros)
    kind = np.asarray(kinds[rng.integers(len(kinds))], array.dtype)
    where = rng.random(array.shape) < rng.choice((0.05, 0.3, 0.9))
    return np.where(where, rng.choice(kind, array.shape), array).astype(array.dtype)


def _huge(array: Array, info: np.finfo, rng: np.random.Generator) -> Array:
    """Up to the type's largest number, some with smaller ones among them."""
    most = np.log10(float(info.max) / 4)
    powers = rng.uniform(most * rng.choice((0.4, 0.8, 0.95)), most, array.shape)
    return np.asarray(np.asarray(array, np.float64) * 10.0**powers, array.dtype)
