"""Locality-sensitive hashing kernel."""

from __future__ import annotations

from math import prod

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.fingerprint import fingerprint64
from ep_nnapi.nnapi.host.kernel import stored
from ep_nnapi.nnapi.shapes.lookup import Projection
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8

_BLOCK = 1 << 18
"""Bytes of keys hashed at once."""


def lsh_projection(
    hash: Array, input: Array, type: int, weight: Array | None = None, *, out: Array
) -> None:
    """Computes bits of hash functions: separate elements (DENSE), or one number per function.

    A bit is 1 if the weighted sum of the hashes of the input's items is positive. SPARSE adds an
    offset per function so that ranges are disjoint. Source: NDK ANEURALNETWORKS_LSH_PROJECTION.
    """
    functions, width = hash.shape
    bits = _bits(hash.reshape(-1), input, weight)
    if type == Projection.DENSE:
        np.copyto(out, bits)
        return
    places = np.int64(1) << np.arange(width - 1, -1, -1)
    numbers = bits.reshape(functions, width) @ places
    if type == Projection.SPARSE:
        numbers += np.arange(functions) << width
    out[...] = numbers.astype(np.int32)


def _bits(seeds: Array, input: Array, weight: Array | None) -> Array:
    """Returns for each seed whether the weighted sum of the items' hashes is positive."""
    bytes_each = input.itemsize * prod(input.shape[1:])
    items = np.ascontiguousarray(input).view(np.uint8).reshape(input.shape[0], bytes_each)
    seed_bytes = seeds.astype(np.float32).view(np.uint8).reshape(-1, 4)
    weights = np.ones(len(items)) if weight is None else weight.astype(np.float64)
    length = 4 + items.shape[1]
    step = max(1, _BLOCK // max(1, len(items) * length))
    bits = np.empty(len(seeds), np.int64)
    for start in range(0, len(seeds), step):
        some = seed_bytes[start : start + step]
        keys = np.empty((len(some), len(items), length), np.uint8)
        keys[:, :, :4] = some[:, np.newaxis]
        keys[:, :, 4:] = items
        hashes = fingerprint64(keys.reshape(-1, length)).view(np.int64)
        bits[start : start + step] = hashes.reshape(len(some), -1) @ weights > 0
    return bits


KERNELS = (stored(spec.LSH_PROJECTION, lsh_projection, F32, F16, I32, Q8),)
