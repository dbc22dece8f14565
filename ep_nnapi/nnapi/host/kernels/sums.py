"""Accurate sums of many float32 numbers.

float32 has 24 bits: adding n numbers one by one loses up to n roundings of the partial sum. So
long sums are accumulated in float64, at the cost of about one more pass over the numbers. Matrix
products, where most of the work is, are split into parts that BLAS accumulates in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

import numpy as np

from ep_nnapi.nnapi.array import Array

DEPTH = 512
"""Products that are accumulated in float32 before the partial sums are added in float64."""
_SHORT = 128
"""Up to this many products, the sum is left to BLAS."""
_RELATIVE_RANGE = 0.5
"""Numbers are far from zero if their range is less than this many times |minimum + maximum|."""
_SAMPLES = 16
"""Approximate number of samples along an axis to test if numbers are far from zero."""
_BLOCK = 1 << 15
"""Squares computed at once, few enough to stay in the cache."""
_INNER_LENGTH = 256
"""Length of contiguous inner loops, over numbers of different sums."""


def total(numbers: Array, axes: tuple[int, ...]) -> Array:
    """Returns the sums along `axes` in float64; the reduced axes have size 1."""
    flat = _adjacent(numbers, axes)
    if flat is None:
        found: Array = np.add.reduce(numbers, axis=axes, keepdims=True, dtype=np.float64)
        return found
    return _sums(flat).reshape(_reduced_shape(numbers, axes))


def total_of_squares(numbers: Array, axes: tuple[int, ...]) -> Array:
    """Returns the sums of squares along `axes` in float64; the reduced axes have size 1."""
    flat = _adjacent(numbers, axes)
    if flat is None:
        return total(np.square(numbers), axes)
    sums = np.zeros((flat.shape[0], flat.shape[2]))
    for rows, parts in _blocks(*flat.shape):
        sums[rows] += _sums(np.square(flat[rows, parts]))
    return sums.reshape(_reduced_shape(numbers, axes))


def multiply(first: Array, second: Array, out: Array) -> None:
    """Computes matrix products [..., M, K] times [..., K, N] into `out`.

    For float32, each `DEPTH` products are accumulated in float32 and these partial sums in float64.
    Rows far from zero are shifted by their centre c first, so that partial sums do not cancel:
    x W = (x - c) W + c * (column sums of W).
    """
    depth = first.shape[-1]
    if out.dtype != np.float32 or depth <= _SHORT:
        np.matmul(first, second, out=out)
        return
    center = _centre(first)
    sums: Array | float = 0.0
    if center is not None:
        sums = center * np.add.reduce(second, axis=-2, keepdims=True, dtype=np.float64)
        if np.isfinite(sums).all():
            first = first - center
        else:
            sums = 0.0
    if depth <= DEPTH and isinstance(sums, float):
        np.matmul(first, second, out=out)
        return
    exact = np.empty(out.shape)
    exact[...] = sums
    part = np.empty(out.shape, np.float32)
    for start in range(0, depth, DEPTH):
        some = slice(start, start + DEPTH)
        np.matmul(first[..., some], second[..., some, :], out=part)
        exact += part
    np.copyto(out, exact, casting="same_kind")


def _centre(rows: Array) -> Array | None:
    """Returns a central value [..., M, 1] of each row [..., M, K]; None if zero will do.

    It samples few numbers of few rows: a bad guess costs accuracy, but results stay correct.
    """
    flat = rows.reshape(-1, *rows.shape[-2:])
    some = flat[:1, :: _step(flat.shape[1]), :: _step(flat.shape[2])]
    if not some.size:
        return None
    low, high = np.minimum.reduce(some, axis=None), np.maximum.reduce(some, axis=None)
    if not high - low < _RELATIVE_RANGE * abs(low + high):
        return None
    found: Array = rows[..., :: _step(rows.shape[-1])].mean(axis=-1, keepdims=True)
    return found if np.isfinite(found).all() else None


def _step(size: int) -> int:
    """Returns the distance between sampled numbers."""
    return max(1, size // _SAMPLES)


def _adjacent(numbers: Array, axes: tuple[int, ...]) -> Array | None:
    """Returns a view [outer, reduced, inner]; None if the memory layout does not allow it."""
    along = sorted(axis % numbers.ndim for axis in axes) if numbers.ndim else []
    adjacent = along == list(range(along[0], along[-1] + 1)) if along else False
    if not adjacent or not numbers.flags.c_contiguous or numbers.size == 0:
        return None
    outer, inner = numbers.shape[: along[0]], numbers.shape[along[-1] + 1 :]
    return numbers.reshape(prod(outer), -1, prod(inner))


def _sums(flat: Array) -> Array:
    """Returns the sums [outer, inner] of [outer, reduced, inner]."""
    outer, count, inner = flat.shape
    together = gcd(count, max(1, _INNER_LENGTH // inner)) if inner > 1 else 1
    wide = flat.reshape(outer, count // together, together * inner)
    sums = np.add.reduce(wide, axis=1, dtype=np.float64)
    found: Array = sums if together == 1 else sums.reshape(outer, together, inner).sum(axis=1)
    return found


def _blocks(outer: int, count: int, inner: int) -> Iterator[tuple[slice, slice]]:
    """Yields slices of the first two axes of [outer, count, inner], for about `_BLOCK` numbers."""
    rows = max(1, _BLOCK // (count * inner))
    parts = max(1, _BLOCK // inner)
    for row in range(0, outer, rows):
        for part in range(0, count, parts):
            yield slice(row, row + rows), slice(part, part + parts)


def _reduced_shape(numbers: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    along = {axis % numbers.ndim for axis in axes}
    return tuple(1 if i in along else size for i, size in enumerate(numbers.shape))
