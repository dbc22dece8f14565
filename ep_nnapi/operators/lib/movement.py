"""Lowering steps that move elements: broadcast, slice, split, transpose, at any rank."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Sequence
from itertools import groupby
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value, operand_shape
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import identical, is_one, is_symbolic
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.operators.lib.node import Computed, Node, each, int32


def runs(keys: Sequence[Hashable]) -> list[list[int]]:
    """Return the positions of `keys`, grouped by runs of equal keys.

    >>> runs("aab")
    [[0, 1], [2]]
    """
    return [[i for i, _ in group] for _, group in groupby(enumerate(keys), lambda pair: pair[1])]


def sizes_around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Return (product of sizes before `axis`, size of `axis`, product of sizes after it).

    >>> sizes_around((2, 3, 4, 5), 1)
    (2, 3, 20)
    """
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def merge_broadcast_axes(
    shapes: Sequence[Sequence[int]], out: Sequence[int]
) -> tuple[list[list[int]], list[int]]:
    """Return `shapes` and `out` with adjacent axes merged where all shapes broadcast alike.

    >>> merge_broadcast_axes([(2, 3, 4, 5, 6), (3, 1, 1, 1)], (2, 3, 4, 5, 6))
    ([[2, 3, 120], [1, 3, 1]], [2, 3, 120])
    """
    wide = [(1,) * (len(out) - len(s)) + tuple(s) for s in shapes]
    kept = [i for i, size in enumerate(out) if not is_one(size)]
    alike = [tuple(_repeats(s[i], out[i]) for s in wide) for i in kept]
    groups = [[kept[i] for i in g] for g in runs(alike)]
    folded = [[prod(s[i] for i in g) for g in groups] or [1] for s in wide]
    return folded, [prod(out[i] for i in g) for g in groups] or [1]


def _repeats(size: int, out: int) -> bool:
    return not identical((size,), (out,)) and size == 1


def broadcast(n: Node, row: OperationSpec, operands: Sequence[Value], y: Value) -> Iterator[Call]:
    """Emit `y` = `row` of operands that broadcast; beyond rank 4, adjacent axes are merged."""
    if max(v.rank for v in (*operands, y)) <= MAX_RANK:
        yield apply(row, *operands, out=y)
        return
    shapes, out = merge_broadcast_axes([v.shape for v in operands], y.shape)
    if len(out) > MAX_RANK:
        shapes, out = [[y.size]] * len(operands), [y.size]
        operands = yield from each(expanded(n, v, y.shape) for v in operands)
    parts = yield from each(n.reshaped(*pair) for pair in zip(operands, shapes, strict=True))
    yield from n.compute_as(y, out, row, *parts)


def expanded(n: Node, x: Value, shape: Sequence[int]) -> Computed:
    """Return `x` broadcast to `shape`, with its elements repeated; a constant is folded."""
    shape = tuple(shape)
    if identical(operand_shape(x.shape), operand_shape(shape)):
        return x
    if x.constant is not None and not is_symbolic(shape):
        sizes = (1,) * (len(shape) - x.rank) + x.shape
        wide = x.constant.map(shape, lambda a: np.broadcast_to(a.reshape(sizes), shape))
        return replace(x, dims=shape, constant=wide)
    out = n.temp(x, shape)
    yield from expand(n, x, out)
    return out


def expand(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = `x` broadcast to the shape of `y`, with its elements repeated."""
    sizes, shape = (1,) * (y.rank - x.rank) + x.shape, y.shape
    if identical(operand_shape(x.shape), operand_shape(shape)):
        yield from n.reshape(x, y)
    elif x.dtype is DType.BOOL and y.rank <= MAX_RANK and not is_symbolic(shape):
        missing = tuple(b if a == 1 else 1 for a, b in zip(sizes, shape, strict=True))
        holds = Constant(missing, DType.BOOL, lambda: np.ones(missing, np.bool_))
        yield apply(spec.LOGICAL_AND, x, holds, out=y)
    else:
        yield from n.of_any_type(x, y, lambda a, b: _repeated(n, a, sizes, b))


def _repeated(n: Node, x: Value, sizes: Sequence[int], y: Value) -> Iterator[Call]:
    before, after = list(sizes), list(y.shape)
    if y.rank > MAX_RANK:
        (before,), after = merge_broadcast_axes([sizes], y.shape)
    repeats = [b if is_one(a) or a != b else 1 for a, b in zip(before, after, strict=True)]
    yield from tile(n, x, before, repeats, y)


def tile(
    n: Node, x: Value, sizes: Sequence[int], repeats: Sequence[int], y: Value
) -> Iterator[Call]:
    """Emit `y` = `x`, reshaped to `sizes`, repeated `repeats[i]` times along each axis i.

    Beyond rank 4 there is one TILE for each repeated axis.
    """
    if len(sizes) <= MAX_RANK:
        seen = yield from n.reshaped(x, sizes)
        shape = [s * r for s, r in zip(sizes, repeats, strict=True)]
        yield from n.compute_as(y, shape, spec.TILE, seen, multiples=int32(repeats))
        return
    done = list(sizes)
    for axis in (i for i, repeat in enumerate(repeats) if repeat != 1):
        rows, row, times = prod(done[:axis]), prod(done[axis:]), repeats[axis]
        seen = yield from n.reshaped(x, (rows, row))
        multiples = int32((1, times))
        x = yield from n.compute(spec.TILE, seen, multiples=multiples, shape=(rows, row * times))
        done[axis] *= times
    yield from n.reshape(x, y)


def select(n: Node, condition: Value, a: Value, b: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = `a` where `condition` is true, else `b`; all three are broadcast to `y`."""
    parts = yield from each(_side(n, part, y.shape) for part in (condition, a, b))
    yield apply(spec.SELECT, *parts, out=y)


_FILLABLE = (DType.FLOAT, DType.FLOAT16, DType.INT32)


def _side(n: Node, x: Value, shape: Sequence[int]) -> Computed:
    """Return `x` broadcast to `shape`; a single number takes no memory in the model if it can."""
    if x.constant is None or x.size != 1 or x.dtype not in _FILLABLE or len(shape) > MAX_RANK:
        return (yield from expanded(n, x, shape))
    if x.quantization is not None:
        return (yield from expanded(n, x, shape))
    return (yield from n.full(x.constant.array.item(), shape, x.dtype))


Spans = Sequence[Span]


def along(shape: Sequence[int], axis: int, taken: Span) -> list[Span]:
    """Return spans that take `taken` along an axis, and all of the others."""
    return [taken if i == axis else Span.whole(size) for i, size in enumerate(shape)]


def slice_spans(n: Node, x: Value, spans: Spans, y: Value) -> Iterator[Call]:
    """Emit `y` = the slice of `x` given by one span for each axis; any type and rank."""
    yield from n.of_any_type(x, y, lambda a, b: _slice(n, a, spans, b))


def _slice(n: Node, x: Value, spans: Spans, y: Value) -> Iterator[Call]:
    if all(s.takes_all(size) for s, size in zip(spans, x.shape, strict=True)):
        yield from n.reshape(x, y)
        return
    if x.rank <= MAX_RANK:
        yield from _slice_call(n, x, spans, y)
        return
    sizes, folded = _merge_whole_axes(x.shape, spans)
    while len(sizes) > MAX_RANK:  # slice the last sliced axis alone, so that it can be merged
        at = max(i for i, r in enumerate(folded) if not r.takes_all(sizes[i]))
        seen = (prod(sizes[:at]), sizes[at], prod(sizes[at + 1 :]))
        x = yield from _slice_reshaped(
            n, x, seen, [Span.whole(seen[0]), folded[at], Span.whole(seen[2])]
        )
        sizes[at] = folded[at].size
        sizes, folded = _merge_whole_axes(
            sizes, [*folded[:at], Span.whole(sizes[at]), *folded[at + 1 :]]
        )
    x = yield from _slice_reshaped(n, x, sizes, folded)
    yield from n.reshape(x, y)


def _merge_whole_axes(shape: Sequence[int], spans: Spans) -> tuple[list[int], list[Span]]:
    """Sizes and spans with adjacent axes merged that are taken whole."""
    cut = [not s.takes_all(size) for s, size in zip(spans, shape, strict=True)]
    groups = runs([i if c else -1 for i, c in enumerate(cut)])
    sizes = [prod(shape[i] for i in g) for g in groups]
    merged = zip(groups, sizes, strict=True)
    return sizes, [spans[g[0]] if cut[g[0]] else Span.whole(size) for g, size in merged]


def _slice_reshaped(n: Node, x: Value, sizes: Sequence[int], spans: Spans) -> Computed:
    seen = yield from n.reshaped(x, sizes)
    out = n.temp(x, [s.size for s in spans])
    yield from _slice_call(n, seen, spans, out)
    return out


def _slice_call(n: Node, x: Value, spans: Spans, y: Value) -> Iterator[Call]:
    """Emit SLICE where every step is 1 and the level has it, else STRIDED_SLICE.

    STRIDED_SLICE does not take INT32: GATHER replaces it there.
    """
    if all(s.step == 1 for s in spans):
        begin, size = int32([s.start for s in spans]), int32([s.size for s in spans])
        call = apply(spec.SLICE, x, begin=begin, size=size, out=y)
        if n.supports(call) or x.dtype is DType.INT32:
            yield call
            return
    if x.dtype is DType.INT32:
        yield from _slice_gathered(n, x, spans, y)
    else:
        yield strided_slice(x, spans, y)


def strided_slice(x: Value, spans: Spans, y: Value, shrink_axis_mask: int = 0) -> Call:
    """Return the call for `y` = STRIDED_SLICE of `x`, one span for each axis."""
    return apply(
        spec.STRIDED_SLICE,
        x,
        begin=int32([s.start for s in spans]),
        end=int32([_end(s, size) for s, size in zip(spans, x.shape, strict=True)]),
        strides=int32([s.step for s in spans]),
        begin_mask=0,
        end_mask=0,
        shrink_axis_mask=shrink_axis_mask,
        out=y,
    )


def reversed_along(n: Node, x: Value, axis: int) -> Computed:
    """Return `x` of rank 1 to 4 reversed along `axis`, at a lower feature level than REVERSE's.

    It is by GATHER, or by STRIDED_SLICE where the size is a symbol; that takes no INT32.
    """
    size = x.shape[axis]
    if is_one(size):
        return x
    if is_symbolic((size,)) and x.dtype is not DType.INT32:
        out = n.temp(x)
        yield strided_slice(x, along(x.shape, axis, Span(size - 1, -1, -1)), out)
        return out
    order = int32(range(size)[::-1])
    return (yield from n.compute(spec.GATHER, x, axis=axis, indices=order, shape=x.shape))


def _end(span: Span, size: int) -> int:
    """The `end` operand of STRIDED_SLICE.

    A stop before element 0 (negative step) is -(size + 1), as NNAPI counts negative ends from the
    end of the axis.
    """
    return span.stop if span.stop >= 0 else -(size + 1)


def _slice_gathered(n: Node, x: Value, spans: Spans, y: Value) -> Iterator[Call]:
    """Emit a GATHER along each sliced axis in turn."""
    shape = list(x.shape)
    axes = [i for i, s in enumerate(spans) if s != Span.whole(shape[i])]
    for axis in axes:
        shape[axis] = spans[axis].size
        out = y if axis == axes[-1] else n.temp(x, shape)
        yield apply(spec.GATHER, x, axis=axis, indices=int32(spans[axis].indexes), out=out)
        x = out


def sliced(n: Node, x: Value, spans: Spans, shape: Sequence[int]) -> Computed:
    """Return the slice of `x`, reshaped to `shape`; a constant is sliced lazily, when read."""
    if x.constant is not None:
        cut = tuple(slice(s.start, s.stop) for s in spans)
        to = tuple(shape)
        return replace(x, dims=to, constant=x.constant.map(to, lambda a: a[cut].reshape(to)))
    part = n.temp(x, [s.size for s in spans])
    yield from slice_spans(n, x, spans, part)
    return (yield from n.reshaped(part, shape))


def equal_parts(n: Node, x: Value, axis: int, count: int) -> Generator[Call, None, list[Value]]:
    """Return `x` of rank 1 to 4 split into `count` equal parts along `axis`."""
    if count == 1:
        return [x]
    shape = list(x.shape)
    shape[axis] //= count
    found = [n.temp(x, shape) for _ in range(count)]
    call = apply(spec.SPLIT, x, axis=axis, num_splits=count, out=found)
    if n.supports(call):
        yield call
        return found
    for i, part in enumerate(found):
        taken = Span(i * shape[axis], (i + 1) * shape[axis])
        yield from slice_spans(n, x, along(x.shape, axis, taken), part)
    return found


def transpose(n: Node, x: Value, perm: Sequence[int], y: Value) -> Iterator[Call]:
    """Emit `y` = `x` transposed: axis i of `y` is axis perm[i] of `x`.

    Beyond rank 4, axes that stay adjacent are merged. If more than 4 remain, blocks of axes are
    swapped one after the other, with at most one TRANSPOSE for each axis.
    """
    if x.dtype is DType.INT32:
        yield from _transpose_gathered(n, x, perm, y)
        return
    if 0 < x.rank <= MAX_RANK:
        yield apply(spec.TRANSPOSE, x, perm=int32(perm), out=y)
        return
    sizes, order = merged(x.shape, perm)
    if len(sizes) <= MAX_RANK:
        if order != sorted(order):
            x = yield from _permuted(n, x, sizes, order)
    else:
        for seen in _swaps(sizes, order):
            x = yield from _permuted(n, x, seen, (0, 2, 1, 3))
    yield from n.reshape(x, y)


def transposed(n: Node, x: Value, perm: Sequence[int]) -> Computed:
    """Return `x` transposed; `x` itself where its axes stay in order."""
    if list(perm) == sorted(perm):
        return x
    out = n.temp(x, [x.shape[p] for p in perm])
    yield from transpose(n, x, perm, out)
    return out


def _permuted(n: Node, x: Value, sizes: Sequence[int], perm: Sequence[int]) -> Computed:
    """Return `x`, reshaped to `sizes`, with its axes permuted."""
    seen = yield from n.reshaped(x, sizes)
    out = n.temp(x, [sizes[p] for p in perm])
    yield apply(spec.TRANSPOSE, seen, perm=int32(perm), out=out)
    return out


def _transpose_gathered(n: Node, x: Value, perm: Sequence[int], y: Value) -> Iterator[Call]:
    """Emit the transpose as a GATHER on the flat tensor, as TRANSPOSE does not take INT32."""
    flat = yield from n.reshaped(x, (x.size,))
    places = yield from _transposed_places(n, x.shape, tuple(perm))
    out = n.temp(x, (x.size,))
    yield apply(spec.GATHER, flat, axis=0, indices=places, out=out)
    yield from n.reshape(out, y)


def _transposed_places(n: Node, shape: Sequence[int], perm: Sequence[int]) -> Computed:
    """Return, for each element of the transposed tensor, its position in the flat one."""
    count = prod(shape)
    if not is_symbolic(shape):

        def moved() -> np.ndarray:
            return np.arange(count, dtype=np.int32).reshape(shape).transpose(perm).reshape(-1)

        return n.value("places", Constant((count,), DType.INT32, moved))
    strides = [prod(shape[p + 1 :]) for p in perm]
    total = yield from positions_along(n, (shape[perm[0]],), 0, strides[0])
    for p, stride in zip(perm[1:], strides[1:], strict=True):  # of any rank by tables of two axes
        column = yield from n.reshaped(total, (total.size, 1))
        row = yield from positions_along(n, (shape[p],), 0, stride)
        table = yield from n.compute(spec.ADD, column, row)
        total = yield from n.reshaped(table, (table.size,))
    return total


def merged(shape: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return shape and permutation without axes of size 1, with axes merged that stay adjacent.

    Symbols count as longer, of which an axis may have size 1 all the same.

    >>> merged((2, 1, 3, 4, 5), (3, 4, 0, 1, 2))
    ([6, 20], [1, 0])
    """
    groups: list[list[int]] = []
    for axis in (p for p in perm if not is_one(shape[p])):
        if groups and _next(shape, groups[-1][-1]) == axis:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    source = sorted(groups)
    return [prod(shape[i] for i in g) for g in source], [source.index(g) for g in groups]


def _next(shape: Sequence[int], axis: int) -> int:
    """Return the next axis after `axis` that is not of size 1."""
    after = axis + 1
    while after < len(shape) and is_one(shape[after]):
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


MAX_POSITIONS = 1 << 15
"""Largest number in a range whose length is a symbol: the table of all has 128 KB."""


def positions(n: Node, count: int, start: int = 0) -> Computed:
    """Return the INT32 numbers from `start` on; cut out of a table where the sizes are symbols."""
    if not is_symbolic((count, start)):
        return n.value("positions", int32(range(start, start + count)))
    n.require(
        start >= 0 and start + count <= MAX_POSITIONS,
        Reason.SIZE,
        f"{n.output().name} has numbers up to {start + count}; at most {MAX_POSITIONS}",
    )
    every = Constant((MAX_POSITIONS,), DType.INT32, lambda: np.arange(MAX_POSITIONS, dtype="i4"))
    table = n.value("positions", every)
    begin, size = int32((start,)), int32((count,))
    return (yield from n.compute(spec.SLICE, table, begin=begin, size=size, shape=(count,)))


def positions_along(n: Node, shape: Sequence[int], axis: int, stride: int) -> Computed:
    """Return `stride` times the positions along an axis, as INT32; other axes have size 1."""
    sizes = [size if i == axis else 1 for i, size in enumerate(shape)]
    own = yield from n.reshaped((yield from positions(n, shape[axis])), sizes)
    return (yield from n.compute(spec.MUL, own, n.scalar(stride, own)))
