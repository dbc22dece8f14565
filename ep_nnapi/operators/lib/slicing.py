"""Lowering steps that slice a tensor by a range along each axis, or split it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from math import prod

from ep_nnapi.graph.value import MAX_RANK, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import GATHER, SLICE, SPLIT, STRIDED_SLICE
from ep_nnapi.operators.lib.emit import Computed, of_any_type, reshape, reshaped
from ep_nnapi.operators.lib.merge_axes import runs
from ep_nnapi.operators.lib.node import Node, int32

Ranges = Sequence[range]


def slice_ranges(n: Node, x: Value, ranges: Ranges, y: Value) -> Iterator[Call]:
    """Emit `y` = the slice of `x` given by one range for each axis; any type and rank."""
    yield from of_any_type(n, x, y, lambda a, b: _slice(n, a, ranges, b))


def _slice(n: Node, x: Value, ranges: Ranges, y: Value) -> Iterator[Call]:
    if all(r == range(size) for r, size in zip(ranges, x.shape, strict=True)):
        yield from reshape(n, x, y)
        return
    if x.rank <= MAX_RANK:
        yield from _slice_call(n, x, x.shape, ranges, y)
        return
    sizes, folded = _merge_whole_axes(x.shape, ranges)
    while len(sizes) > MAX_RANK:  # slice the last sliced axis alone, so that it can be merged
        at = max(i for i, r in enumerate(folded) if r != range(sizes[i]))
        seen = (prod(sizes[:at]), sizes[at], prod(sizes[at + 1 :]))
        x = yield from _slice_reshaped(n, x, seen, [range(seen[0]), folded[at], range(seen[2])])
        sizes[at] = len(folded[at])
        sizes, folded = _merge_whole_axes(
            sizes, [*folded[:at], range(sizes[at]), *folded[at + 1 :]]
        )
    x = yield from _slice_reshaped(n, x, sizes, folded)
    yield from reshape(n, x, y)


def _merge_whole_axes(shape: Sequence[int], ranges: Ranges) -> tuple[list[int], list[range]]:
    """Sizes and ranges with adjacent axes merged that are taken whole."""
    cut = [r != range(size) for r, size in zip(ranges, shape, strict=True)]
    groups = runs([i if c else -1 for i, c in enumerate(cut)])
    sizes = [prod(shape[i] for i in g) for g in groups]
    ranges = [ranges[g[0]] if cut[g[0]] else range(s) for g, s in zip(groups, sizes, strict=True)]
    return sizes, ranges


def _slice_reshaped(n: Node, x: Value, sizes: Sequence[int], ranges: Ranges) -> Computed:
    seen = yield from reshaped(n, x, sizes)
    out = n.temp(x, [len(r) for r in ranges])
    yield from _slice_call(n, seen, sizes, ranges, out)
    return out


def _slice_call(
    n: Node, x: Value, sizes: Sequence[int], ranges: Ranges, y: Value
) -> Iterator[Call]:
    """Emit SLICE where every step is 1 and the level has it, else STRIDED_SLICE.

    STRIDED_SLICE does not take INT32: GATHER replaces it there.
    """
    begin = int32([r.start for r in ranges])
    if all(r.step == 1 for r in ranges):
        call = apply(SLICE, x, begin=begin, size=int32([len(r) for r in ranges]), out=y)
        if n.supports(call) or x.dtype is DType.INT32:
            yield call
            return
    if x.dtype is DType.INT32:
        yield from _gathered(n, x, sizes, ranges, y)
        return
    yield apply(
        STRIDED_SLICE,
        x,
        begin=begin,
        end=int32([_end(r, size) for r, size in zip(ranges, sizes, strict=True)]),
        strides=int32([r.step for r in ranges]),
        begin_mask=0,
        end_mask=0,
        shrink_axis_mask=0,
        out=y,
    )


def _end(ranges: range, size: int) -> int:
    """The `end` operand of STRIDED_SLICE.

    A stop before element 0 (negative step) is -(size + 1), as NNAPI counts negative ends from the
    end of the axis.
    """
    return ranges.stop if ranges.stop >= 0 else -(size + 1)


def _gathered(n: Node, x: Value, sizes: Sequence[int], ranges: Ranges, y: Value) -> Iterator[Call]:
    """Emit a GATHER along each sliced axis in turn."""
    shape = list(sizes)
    axes = [i for i, r in enumerate(ranges) if r != range(sizes[i])]
    for axis in axes:
        shape[axis] = len(ranges[axis])
        out = y if axis == axes[-1] else n.temp(x, shape)
        yield apply(GATHER, x, axis=axis, indices=int32(ranges[axis]), out=out)
        x = out


def sliced(n: Node, x: Value, ranges: Ranges, shape: Sequence[int]) -> Computed:
    """Return the slice of `x`, reshaped to `shape`; a constant is sliced lazily, when read."""
    if x.constant is not None:
        cut = tuple(slice(r.start, r.stop) for r in ranges)
        to = tuple(shape)
        return replace(x, dims=to, constant=x.constant.map(to, lambda a: a[cut].reshape(to)))
    part = n.temp(x, [len(r) for r in ranges])
    yield from slice_ranges(n, x, ranges, part)
    return (yield from reshaped(n, part, shape))


def equal_parts(n: Node, x: Value, axis: int, count: int) -> Generator[Call, None, list[Value]]:
    """Return `x` of rank 1 to 4 split into `count` equal parts along `axis`."""
    if count == 1:
        return [x]
    shape = list(x.shape)
    shape[axis] //= count
    found = [n.temp(x, shape) for _ in range(count)]
    call = apply(SPLIT, x, axis=axis, num_splits=count, out=found)
    if n.supports(call):
        yield call
        return found
    for i, part in enumerate(found):
        ranges = [range(size) for size in x.shape]
        ranges[axis] = range(i * shape[axis], (i + 1) * shape[axis])
        yield from slice_ranges(n, x, ranges, part)
    return found
