"""Lowering steps for broadcasting, implicit in an operation or explicit (TILE)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value, operand_shape
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import LOGICAL_AND, SELECT, TILE
from ep_nnapi.operators.lib.emit import (
    Computed,
    compute,
    each,
    full,
    of_any_type,
    output_or_temp,
    reshape,
    reshaped,
    write_output,
)
from ep_nnapi.operators.lib.merge_axes import merge_broadcast_axes
from ep_nnapi.operators.lib.node import Node, int32


def broadcast(n: Node, row: OperationSpec, operands: Sequence[Value], y: Value) -> Iterator[Call]:
    """Emit `y` = `row` of operands that broadcast; beyond rank 4, adjacent axes are merged."""
    if max(v.rank for v in (*operands, y)) <= MAX_RANK:
        yield apply(row, *operands, out=y)
        return
    shapes, out = merge_broadcast_axes([v.shape for v in operands], y.shape)
    if len(out) > MAX_RANK:
        shapes, out = [[y.size]] * len(operands), [y.size]
        operands = yield from each(expanded(n, v, y.shape) for v in operands)
    parts = yield from each(reshaped(n, *pair) for pair in zip(operands, shapes, strict=True))
    whole = output_or_temp(n, y, out)
    yield apply(row, *parts, out=whole)
    yield from write_output(n, whole, y)


def expanded(n: Node, x: Value, shape: Sequence[int]) -> Computed:
    """Return `x` broadcast to `shape`, with its elements repeated; a constant is folded."""
    shape = tuple(shape)
    if operand_shape(x.shape) == operand_shape(shape):
        return x
    if x.constant is not None:
        sizes = (1,) * (len(shape) - x.rank) + x.shape
        wide = x.constant.map(shape, lambda a: np.broadcast_to(a.reshape(sizes), shape))
        return replace(x, dims=shape, constant=wide)
    out = n.temp(x, shape)
    yield from expand(n, x, out)
    return out


def expand(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = `x` broadcast to the shape of `y`, with its elements repeated."""
    sizes, shape = (1,) * (y.rank - x.rank) + x.shape, y.shape
    if operand_shape(x.shape) == operand_shape(shape):
        yield from reshape(n, x, y)
    elif x.dtype is DType.BOOL and y.rank <= MAX_RANK:
        missing = tuple(b if a == 1 else 1 for a, b in zip(sizes, shape, strict=True))
        holds = Constant(missing, DType.BOOL, lambda: np.ones(missing, np.bool_))
        yield apply(LOGICAL_AND, x, holds, out=y)
    else:
        yield from of_any_type(n, x, y, lambda a, b: _repeated(n, a, sizes, b))


def _repeated(n: Node, x: Value, sizes: Sequence[int], y: Value) -> Iterator[Call]:
    before, after = list(sizes), list(y.shape)
    if y.rank > MAX_RANK:
        (before,), after = merge_broadcast_axes([sizes], y.shape)
    yield from tile(n, x, before, [b // a for a, b in zip(before, after, strict=True)], y)


def tile(
    n: Node, x: Value, sizes: Sequence[int], repeats: Sequence[int], y: Value
) -> Iterator[Call]:
    """Emit `y` = `x`, reshaped to `sizes`, repeated `repeats[i]` times along each axis i.

    Beyond rank 4 there is one TILE for each repeated axis.
    """
    if len(sizes) <= MAX_RANK:
        seen = yield from reshaped(n, x, sizes)
        result = output_or_temp(n, y, [s * r for s, r in zip(sizes, repeats, strict=True)])
        yield apply(TILE, seen, multiples=int32(repeats), out=result)
        yield from write_output(n, result, y)
        return
    done = list(sizes)
    for axis in (i for i, repeat in enumerate(repeats) if repeat != 1):
        rows, row, times = prod(done[:axis]), prod(done[axis:]), repeats[axis]
        seen = yield from reshaped(n, x, (rows, row))
        multiples = int32((1, times))
        x = yield from compute(n, TILE, seen, multiples=multiples, shape=(rows, row * times))
        done[axis] *= times
    yield from reshape(n, x, y)


def select(n: Node, condition: Value, a: Value, b: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = `a` where `condition` is true, else `b`; all three are broadcast to `y`."""
    parts = yield from each(_side(n, part, y.shape) for part in (condition, a, b))
    yield apply(SELECT, *parts, out=y)


_FILLABLE = (DType.FLOAT, DType.FLOAT16, DType.INT32)


def _side(n: Node, x: Value, shape: Sequence[int]) -> Computed:
    """Return `x` broadcast to `shape`; a single number takes no memory in the model if it can."""
    if x.constant is None or x.size != 1 or x.dtype not in _FILLABLE or len(shape) > MAX_RANK:
        return (yield from expanded(n, x, shape))
    if x.quantization is not None:
        return (yield from expanded(n, x, shape))
    return (yield from full(n, x.constant.array.item(), shape, x.dtype))
