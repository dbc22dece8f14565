"""Lowering of transposes of any rank and element type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import GATHER, TRANSPOSE
from ep_nnapi.operators.lib.emit import Computed, reshape, reshaped
from ep_nnapi.operators.lib.node import Node, int32


def transpose(n: Node, x: Value, perm: Sequence[int], y: Value) -> Iterator[Call]:
    """Emit `y` = `x` transposed: axis i of `y` is axis perm[i] of `x`.

    Beyond rank 4, axes that stay adjacent are merged. If more than 4 remain, blocks of axes are
    swapped one after the other, with at most one TRANSPOSE for each axis.
    """
    if x.dtype is DType.INT32:
        yield from _gathered(n, x, perm, y)
        return
    if 0 < x.rank <= MAX_RANK:
        yield apply(TRANSPOSE, x, perm=int32(perm), out=y)
        return
    sizes, order = merged(x.shape, perm)
    if len(sizes) <= MAX_RANK:
        if order != sorted(order):
            x = yield from _permuted(n, x, sizes, order)
    else:
        for seen in _swaps(sizes, order):
            x = yield from _permuted(n, x, seen, (0, 2, 1, 3))
    yield from reshape(n, x, y)


def _permuted(n: Node, x: Value, sizes: Sequence[int], perm: Sequence[int]) -> Computed:
    """Return `x`, reshaped to `sizes`, with its axes permuted."""
    seen = yield from reshaped(n, x, sizes)
    out = n.temp(x, [sizes[p] for p in perm])
    yield apply(TRANSPOSE, seen, perm=int32(perm), out=out)
    return out


def _gathered(n: Node, x: Value, perm: Sequence[int], y: Value) -> Iterator[Call]:
    """Emit the transpose as a GATHER on the flat tensor, as TRANSPOSE does not take INT32."""
    flat = yield from reshaped(n, x, (x.size,))
    shape, axes = x.shape, tuple(perm)
    places = Constant(
        (x.size,),
        DType.INT32,
        lambda: np.arange(prod(shape), dtype=np.int32).reshape(shape).transpose(axes).reshape(-1),
    )
    out = n.temp(x, (x.size,))
    yield apply(GATHER, flat, axis=0, indices=places, out=out)
    yield from reshape(n, out, y)


def merged(shape: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return shape and permutation without axes of size 1, with axes merged that stay adjacent.

    >>> merged((2, 1, 3, 4, 5), (3, 4, 0, 1, 2))
    ([6, 20], [1, 0])
    """
    groups: list[list[int]] = []
    for axis in (p for p in perm if shape[p] != 1):
        if groups and _next(shape, groups[-1][-1]) == axis:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    source = sorted(groups)
    return [prod(shape[i] for i in g) for g in source], [source.index(g) for g in groups]


def _next(shape: Sequence[int], axis: int) -> int:
    """Return the next axis after `axis` that is longer than 1."""
    after = axis + 1
    while after < len(shape) and shape[after] == 1:
        after += 1
    return after


def _swaps(sizes: Sequence[int], order: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Return rank-4 shapes; swapping the middle axes of each in turn brings axes into `order`."""
    now = list(range(len(sizes)))
    for at, axis in enumerate(order):
        start = now.index(axis)
        end = start + 1
        while end < len(now) and now[start : end + 1] == list(order[at : at + end + 1 - start]):
            end += 1
        if start != at:
            blocks = (now[:at], now[at:start], now[start:end], now[end:])
            before, first, second, after = (prod(sizes[i] for i in b) for b in blocks)
            yield before, first, second, after
            now = blocks[0] + blocks[2] + blocks[1] + blocks[3]
