"""Tensors broadcast to one another, by the operation itself or element by element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ep_nnapi.nnapi.call import Call, Row
from ep_nnapi.nnapi.spec import LOGICAL_AND, NOT_EQUAL, SELECT, TILE
from ep_nnapi.ops.fold import common
from ep_nnapi.ops.node import Node, int32
from ep_nnapi.ops.steps import Steps, as_number, compute, each, place, reshaped, settle
from ep_nnapi.value import MAX_RANK, Constant, DType, Value, held


def broadcast(n: Node, row: Row, operands: Sequence[Value], y: Value) -> Iterator[Call]:
    """`y` is `row` of tensors that broadcast; beyond rank 4 their axes are merged."""
    if max(v.rank for v in (*operands, y)) <= MAX_RANK:
        yield row(*operands, out=y)
        return
    shapes, out = common([v.shape for v in operands], y.shape)
    if len(out) > MAX_RANK:
        shapes, out = [[y.size]] * len(operands), [y.size]
        operands = yield from each(expanded(n, v, y.shape) for v in operands)
    parts = yield from each(reshaped(n, *pair) for pair in zip(operands, shapes, strict=True))
    whole = place(n, y, out)
    yield row(*parts, out=whole)
    yield from settle(n, whole, y)


def expanded(n: Node, x: Value, shape: Sequence[int]) -> Steps:
    """`x` broadcast to `shape`, element by element."""
    shape = tuple(shape)
    if held(x.shape) == held(shape):
        return x
    sizes = (1,) * (len(shape) - x.rank) + x.shape
    if x.constant is not None:
        repeated = x.constant.map(shape, lambda a: np.broadcast_to(a.reshape(sizes), shape))
        return replace(x, dims=shape, constant=repeated)
    if x.dtype is DType.BOOL:
        return (yield from _expanded_booleans(n, x, shape))
    (before,), after = (common([sizes], shape)) if len(shape) > MAX_RANK else ([sizes], shape)
    wide = yield from tiled(n, x, before, [b // a for a, b in zip(before, after, strict=True)])
    return (yield from reshaped(n, wide, held(shape)))


def _expanded_booleans(n: Node, x: Value, shape: tuple[int, ...]) -> Steps:
    """TILE has no booleans: they are broadcast against True, or as numbers beyond rank 4."""
    if len(shape) > MAX_RANK:
        number = yield from as_number(n, x)
        wide = yield from expanded(n, number, shape)
        return (yield from compute(n, NOT_EQUAL, wide, n.scalar(0, wide), dtype=DType.BOOL))
    sizes = (1,) * (len(shape) - x.rank) + x.shape
    missing = tuple(b if a == 1 else 1 for a, b in zip(sizes, shape, strict=True))
    holds = Constant(missing, DType.BOOL, lambda: np.ones(missing, np.bool_))
    return (yield from compute(n, LOGICAL_AND, x, holds, shape=shape))


def tiled(n: Node, x: Value, sizes: Sequence[int], repeats: Sequence[int]) -> Steps:
    """`x`, seen in the shape `sizes`, repeated along each of its axes.

    Beyond rank 4 one axis after the other, which leaves the result flat.
    """
    if len(sizes) <= MAX_RANK:
        seen = yield from reshaped(n, x, sizes)
        shape = [s * r for s, r in zip(sizes, repeats, strict=True)]
        return (yield from compute(n, TILE, seen, multiples=int32(repeats), shape=shape))
    done = list(sizes)
    for axis, repeat in enumerate(repeats):
        if repeat == 1:
            continue
        view = (prod(done[:axis]), prod(done[axis:]))
        seen = yield from reshaped(n, x, view)
        times = int32((1, repeat))
        x = yield from compute(n, TILE, seen, multiples=times, shape=(view[0], view[1] * repeat))
        done[axis] *= repeat
    return (yield from reshaped(n, x, (prod(done),)))


def select(n: Node, condition: Value, a: Value, b: Value, y: Value) -> Iterator[Call]:
    """`y` is `a` where `condition` holds, else `b`; all three are broadcast to it."""
    parts = yield from each(expanded(n, part, y.shape) for part in (condition, a, b))
    yield SELECT(*parts, out=y)
