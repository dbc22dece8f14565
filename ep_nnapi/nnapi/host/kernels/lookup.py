"""Table lookup kernels, by index or by key."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import stored
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8, Q8S


def embedding_lookup(lookups: Array, values: Array, *, out: Array) -> None:
    """Returns rows of `values` by index. Source: NDK ANEURALNETWORKS_EMBEDDING_LOOKUP.

    Raises ShapeError for an index out of range.
    """
    wrong = lookups[(lookups < 0) | (lookups >= values.shape[0])]
    if wrong.size:
        raise ShapeError(f"there is no row {wrong[0]} of {values.shape[0]}")
    np.take(values, lookups, 0, out=out, mode="clip")


def hashtable_lookup(
    lookups: Array, keys: Array, values: Array, *, out: tuple[Array, Array]
) -> None:
    """Stores the rows of `values` whose `keys` (ascending) equal `lookups`, and hit flags.

    A missing key gives a row of stored zeros.
    Source: NDK ANEURALNETWORKS_HASHTABLE_LOOKUP.
    """
    found, hits = out
    found.fill(0)
    hits.fill(0)
    if keys.size:
        rows = np.minimum(np.searchsorted(keys, lookups), keys.size - 1)
        hit = keys[rows] == lookups
        found[hit] = values[rows[hit]]
        hits[hit] = 1


KERNELS = (
    stored(spec.EMBEDDING_LOOKUP, embedding_lookup, F32, F16, I32, Q8, Q8S),
    stored(spec.HASHTABLE_LOOKUP, hashtable_lookup, F32, I32, Q8),
)
