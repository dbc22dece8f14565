"""Rows of tables, found by index or by key."""

from __future__ import annotations

import numpy as np

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import stored
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8, Q8S


def embedding_lookup(lookups: Array, values: Array, *, out: Array) -> None:
    """The rows of `values` at the indexes `lookups`. Source: NDK ANEURALNETWORKS_EMBEDDING_LOOKUP.

    Raises ShapeError for an index that `values` does not have.
    """
    wrong = lookups[(lookups < 0) | (lookups >= values.shape[0])]
    if wrong.size:
        raise ShapeError(f"there is no row {wrong[0]} of {values.shape[0]}")
    np.take(values, lookups, 0, out=out, mode="clip")


def hashtable_lookup(
    lookups: Array, keys: Array, values: Array, *, out: tuple[Array, Array]
) -> None:
    """The rows of `values` whose `keys`, which ascend, are `lookups`, and whether there are such.

    A row of zeros, as they are stored, where there is none.
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
