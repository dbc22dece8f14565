"""Sums of many float32 numbers, exact to a rounding of the result.

float32 has 24 bits: a sum of n numbers, one added to the other, loses up to n roundings of what it
has become by then. So long sums are in float64, at the cost of about one more pass over the
numbers; products, whose sums are most of the work, are cut into parts that BLAS sums in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

import numpy as np

from ep_nnapi.graph.value import Array

DEPTH = 512
"""Products that are summed in float32."""
_SHORT = 128
"""Products whose sum is BLAS's own."""
_FAR = 0.5
"""Numbers whose range is less than this many times the sum of its ends are far from zero."""
_LOOK = 16
"""Numbers looked at along an axis, about, to tell whether they are far from zero."""
_BLOCK = 1 << 15
"""Squares made at once, which stay in the cache."""
_STRETCH = 256
"""Numbers that lie side by side and belong to different sums, for loops that are not short."""


def total(numbers: Array, axes: tuple[int, ...]) -> Array:
    """The sums along `axes`, which stay as ones, in float64."""
    flat = _adjacent(numbers, axes)
    if flat is None:
        found: Array = np.add.reduce(numbers, axis=axes, keepdims=True, dtype=np.float64)
        return found
    return _sums(flat).reshape(_kept(numbers, axes))


def total_of_squares(numbers: Array, axes: tuple[int, ...]) -> Array:
    """As `total`, of the squares."""
    flat = _adjacent(numbers, axes)
    if flat is None:
        return total(np.square(numbers), axes)
    sums = np.zeros((flat.shape[0], flat.shape[2]))
    for rows, parts in _blocks(*flat.shape):
        sums[rows] += _sums(np.square(flat[rows, parts]))
    return sums.reshape(_kept(numbers, axes))


def multiply(first: Array, second: Array, out: Array) -> None:
    """Matrix products [..., M, K] times [..., K, N], to `out`.

    Of float32, every `DEPTH` products are summed in float32 and these sums in float64. Rows far
    from zero are multiplied as distances from a number in their midst, so that what is summed does
    not cancel out: x W = (x - c) W + c (the sums of W).
    """
    depth = first.shape[-1]
    if out.dtype != np.float32 or depth <= _SHORT:
        np.matmul(first, second, out=out)
        return
    centre = _centre(first)
    sums: Array | float = 0.0
    if centre is not None:
        sums = centre * np.add.reduce(second, axis=-2, keepdims=True, dtype=np.float64)
        if np.isfinite(sums).all():
            first = first - centre
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
    """A number [..., M, 1] in the midst of each row [..., M, K]; None where zero will do.

    Looks at a few numbers of a few rows: a bad guess costs accuracy, it is never wrong.
    """
    flat = rows.reshape(-1, *rows.shape[-2:])
    some = flat[:1, :: _step(flat.shape[1]), :: _step(flat.shape[2])]
    if not some.size:
        return None
    low, high = np.minimum.reduce(some, axis=None), np.maximum.reduce(some, axis=None)
    if not high - low < _FAR * abs(low + high):
        return None
    found: Array = rows[..., :: _step(rows.shape[-1])].mean(axis=-1, keepdims=True)
    return found if np.isfinite(found).all() else None


def _step(size: int) -> int:
    """From one number that is looked at to the next."""
    return max(1, size // _LOOK)


def _adjacent(numbers: Array, axes: tuple[int, ...]) -> Array | None:
    """The numbers as [outer, reduced, inner]; None where memory does not hold them so."""
    along = sorted(axis % numbers.ndim for axis in axes) if numbers.ndim else []
    adjacent = along == list(range(along[0], along[-1] + 1)) if along else False
    if not adjacent or not numbers.flags.c_contiguous or numbers.size == 0:
        return None
    outer, inner = numbers.shape[: along[0]], numbers.shape[along[-1] + 1 :]
    return numbers.reshape(prod(outer), -1, prod(inner))


def _sums(flat: Array) -> Array:
    """The sums [outer, inner] of [outer, reduced, inner]."""
    outer, count, inner = flat.shape
    together = gcd(count, max(1, _STRETCH // inner)) if inner > 1 else 1
    wide = flat.reshape(outer, count // together, together * inner)
    sums = np.add.reduce(wide, axis=1, dtype=np.float64)
    found: Array = sums if together == 1 else sums.reshape(outer, together, inner).sum(axis=1)
    return found


def _blocks(outer: int, count: int, inner: int) -> Iterator[tuple[slice, slice]]:
    """Parts of [outer, count, inner] of about `_BLOCK` numbers, along the first two axes."""
    rows = max(1, _BLOCK // (count * inner))
    parts = max(1, _BLOCK // inner)
    for row in range(0, outer, rows):
        for part in range(0, count, parts):
            yield slice(row, row + rows), slice(part, part + parts)


def _kept(numbers: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    along = {axis % numbers.ndim for axis in axes}
    return tuple(1 if i in along else size for i, size in enumerate(numbers.shape))
