"""Gather, GatherElements, GatherND, ReverseSequence, ScatterElements and ScatterND.

Indexes are within the dimension, as ONNX demands, so INT64 ones fit INT32. Negative ones are made
non-negative, at compile time if constant, at run time otherwise. NNAPI has no scatter: the result
is gathered from the concatenation of the data and the updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import identical, is_symbolic, objects, plain
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.operators.lib.movement import (
    along,
    broadcast,
    positions_along,
    sizes_around,
    slice_spans,
    strided_slice,
)
from ep_nnapi.operators.lib.node import Computed, Node, each, op, wrapped


@op("Gather", since=1, moves=True)
def gather(n: Node) -> Iterator[Call]:
    """Slices of the data along `axis`, in the shape of the indexes."""
    x, index, y, axis = n.input(0), n.input(1), n.output(), n.axis(default=0)
    if x.dtype is DType.INT64:  # constant INT64 data is cast to INT32
        x, y = n.recast(x, DType.INT32), replace(y, dtype=DType.INT32)
    if index.constant is not None and index.rank == 0:
        (at,) = constant_indices(n, index, x.shape[axis])
        yield from n.of_any_type(x, y, lambda a, b: _one(n, a, axis, at, b))
    else:
        yield from n.of_any_type(x, y, lambda a, b: _gather(n, a, axis, index, b))


def _one(n: Node, x: Value, axis: int, at: int, y: Value) -> Iterator[Call]:
    """Emit one slice with its axis removed, both by one STRIDED_SLICE."""
    spans = along(x.shape, axis, Span(at, at + 1))
    if 1 < x.rank <= MAX_RANK and x.dtype is not DType.INT32:
        yield strided_slice(x, spans, y, shrink_axis_mask=1 << axis)
        return
    shape = [span.size for span in spans]
    part = n.output_or_temp(y, shape) if x.rank == 1 else n.temp(x, shape)
    yield from slice_spans(n, x, spans, part)
    yield from n.write_output(part, y)


def _gather(n: Node, x: Value, axis: int, index: Value, y: Value) -> Iterator[Call]:
    """Emit GATHER; beyond rank 4, axes before and after `axis` are merged and indexes flattened."""
    found = yield from n.indices(index, x.shape[axis])
    if max(x.rank, y.rank) <= MAX_RANK and index.rank > 0:
        yield apply(spec.GATHER, x, axis=axis, indices=found, out=y)
        return
    before, size, after = sizes_around(x.shape, axis)
    seen = yield from n.reshaped(x, (before, size, after))
    row = yield from n.reshaped(found, (index.size,))
    shape = (before, index.size, after)
    yield from n.compute_as(y, shape, spec.GATHER, seen, axis=1, indices=row)


@op("GatherElements", since=11)
def gather_elements(n: Node) -> Iterator[Call]:
    """One element for each index, at the index's own position except along `axis`."""
    x, index, axis = n.input(0), n.input(1), n.axis(default=0)
    places = yield from element_positions(n, x, index, axis)
    yield from n.of_any_type(x, n.output(), lambda a, b: _flat(n, a, 1, places, b))


def _flat(n: Node, x: Value, row: int, places: Value, y: Value) -> Iterator[Call]:
    """Emit the rows of `row` elements at positions `places` of the flattened `x`."""
    rest = (row,) if row > 1 else ()
    seen = yield from n.reshaped(x, (x.size // row, *rest))
    if places.rank + len(rest) > MAX_RANK:
        places = yield from n.reshaped(places, (places.size,))
    shape = (*places.shape, *rest)
    yield from n.compute_as(y, shape, spec.GATHER, seen, axis=0, indices=places)


@op("GatherND", since=11)
def gather_nd(n: Node) -> Iterator[Call]:
    """Slices selected by rows of indexes, after `batch_dims` common dimensions."""
    x, index, y, batch = n.input(0), n.input(1), n.output(), n.integer("batch_dims", 0)
    n.require(index.rank > 0, Reason.RANK, f"{index.name} is a scalar")
    width = index.shape[-1]
    fits = 0 < width <= x.rank - batch and 0 <= batch < index.rank
    n.require(
        fits and x.shape[:batch] == index.shape[:batch],
        Reason.SHAPE,
        f"{index.name} of shape {list(index.shape)} does not index {x.name} of shape "
        f"{list(x.shape)} after {batch} common dimensions",
    )
    sizes = x.shape[batch : batch + width]
    offsets = None
    if batch:
        firsts = np.arange(prod(x.shape[:batch])) * prod(sizes)
        rows = prod(index.shape[:-1]) // prod(x.shape[:batch])
        offsets = np.repeat(firsts, rows).astype(np.int32)
    places = yield from row_positions(n, index, sizes, offsets)
    row = prod(x.shape[batch + width :])
    yield from n.of_any_type(x, y, lambda a, b: _flat(n, a, row, places, b))


@op("ReverseSequence", since=10)
def reverse_sequence(n: Node) -> Iterator[Call]:
    """Each batch item with its first `sequence_lens` (constant) elements reversed in time."""
    x, lengths = n.input(0), n.integers_at(1)
    by_time = n.integer("time_axis", 0) == 0
    steps, batch = x.shape[:2] if by_time else x.shape[1::-1]
    detail = f"{n.input(1).name} has {len(lengths)} lengths for a batch of {batch}"
    n.require(len(lengths) == batch, Reason.SHAPE, detail)
    within = all(0 <= length <= steps for length in lengths)
    n.require(within, Reason.CONSTANT, f"{n.input(1).name} has a length outside 0 to {steps}")
    time = np.arange(steps)[:, np.newaxis]
    ends = np.array(lengths)
    turned = np.where(time < ends, ends - 1 - time, time)  # [steps, batch]
    across = np.arange(batch)
    places = turned * batch + across if by_time else (across * steps + turned).T
    row = n.value("places", Constant.of(places.reshape(-1).astype(np.int32)))
    rest = prod(x.shape[2:])
    yield from n.of_any_type(x, n.output(), lambda a, b: _flat(n, a, rest, row, b))


@op("ScatterElements", since=11)
def scatter_elements(n: Node) -> Iterator[Call]:
    """The data with elements replaced where constant indexes say, gathered from both.

    A slice that is replaced whole is put between what is before and behind it.
    """
    x, index, axis = n.input(0), n.input(1), n.axis(default=0)
    fits = index.rank == x.rank and all(i <= s for i, s in zip(index.shape, x.shape, strict=True))
    n.require(
        fits, Reason.SHAPE, f"{index.name} has shape {list(index.shape)}, {x.name} {list(x.shape)}"
    )
    _require_updates(n, index.shape)
    slice_sizes = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    at = _single(index) if identical(index.shape, slice_sizes) else None
    if at is not None:
        yield from _with_slice(n, axis, at)
        return
    n.constant(1)
    # what is gathered from both is a constant, so that it holds for one size
    x, index = (replace(v, dims=plain(v.shape)) for v in (x, index))
    places = yield from element_positions(n, x, index, axis)
    yield from _scattered(n, places, 1)


def _single(index: Value) -> int | None:
    """Return what every element is, if that is known."""
    if index.constant is None or is_symbolic(index.constant.numbers):
        return index.single
    found = np.unique(index.constant.array)
    return int(found[0]) if found.size == 1 else None


def _with_slice(n: Node, axis: int, at: int) -> Iterator[Call]:
    """Emit the data with the slice at index `at` replaced by the updates (input 2)."""
    _require_plain_scatter(n)
    x, y, size = n.input(0), n.output(), n.input(0).shape[axis]
    n.require(-size <= at < size, Reason.CONSTANT, f"index {at} is outside a dimension of {size}")
    at = at if at >= 0 else at + size
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    seen = yield from n.reshaped(x, (outer, size, inner))
    new = yield from n.reshaped(n.input(2), (outer, 1, inner))
    parts = []
    for start, end in ((0, at), (at + 1, size)):
        if not identical((start,), (end,)):
            parts.append(n.temp(x, (outer, end - start, inner)))
            yield from slice_spans(n, seen, along(seen.shape, 1, Span(start, end)), parts[-1])
    parts.insert(0 if at == 0 else 1, new)
    yield from n.compute_as(y, seen.shape, spec.CONCATENATION, inputs=parts, axis=1)


SCATTER = replace(scatter_elements, op_type="Scatter", since=9)


@op("ScatterND", since=11)
def scatter_nd(n: Node) -> Iterator[Call]:
    """The data with slices replaced where constant rows of indexes say."""
    x, index = n.input(0), n.input(1)
    n.constant(1)
    n.require(index.rank > 0, Reason.RANK, f"{index.name} is a scalar")
    width = index.shape[-1]
    fits = 0 < width <= x.rank
    n.require(fits, Reason.SHAPE, f"{index.name} has {width} indexes for rank {x.rank}")
    _require_updates(n, (*index.shape[:-1], *x.shape[width:]))
    none = np.zeros(prod(index.shape[:-1]), np.int32)
    places = yield from row_positions(n, index, x.shape[:width], none)
    yield from _scattered(n, places, prod(x.shape[width:]))


def _require_updates(n: Node, shape: tuple[int, ...]) -> None:
    """Raise Reject(SHAPE) unless the updates (input 2) have the shape that the indexes demand."""
    updates = n.input(2)
    detail = f"{updates.name} has shape {list(updates.shape)}; the indexes demand {list(shape)}"
    n.require(updates.shape == shape, Reason.SHAPE, detail)


def _scattered(n: Node, places: Value, row: int) -> Iterator[Call]:
    """Emit the data with its rows at `places` replaced by updates (input 2).

    Where several updates have the same place, the last one is used.
    """
    _require_plain_scatter(n)
    x, updates, y = n.input(0), n.input(2), n.output()
    sources = np.arange(x.size // row, dtype=np.int32)
    if places.constant is not None:
        sources[places.constant.array.reshape(-1)] = np.arange(places.size) + len(sources)
    parts = yield from each(n.reshaped(part, (part.size // row, row)) for part in (x, updates))
    both = n.temp(x, (len(sources) + places.size, row))
    yield apply(spec.CONCATENATION, inputs=parts, axis=0, out=both)
    shape, places = (len(sources), row), n.value("sources", Constant.of(sources))
    yield from n.compute_as(y, shape, spec.GATHER, both, axis=0, indices=places)


def _require_plain_scatter(n: Node) -> None:
    reduction = n.text("reduction", "none")
    n.require(
        reduction == "none", Reason.ATTRIBUTE, f"reduction is {reduction!r}; NNAPI scatters nothing"
    )


def constant_indices(n: Node, index: Value, size: int) -> list[int]:
    """Return the constant indexes of input 1 as non-negative; raise Reject if out of range."""
    return list(wrapped(n, index, n.constant(1), size).integers)


def element_positions(n: Node, x: Value, index: Value, axis: int) -> Computed:
    """Return, for each element of `index` (as in GatherElements), its position in flat `x`.

    Raises Reject if `index` has another rank than `x`, or is larger beside `axis`.
    """
    fits = index.rank == x.rank and all(
        size <= most or i == axis
        for i, (size, most) in enumerate(zip(index.shape, x.shape, strict=True))
    )
    detail = f"{index.name} of {list(index.shape)} does not fit {x.name} of {list(x.shape)}"
    n.require(fits, Reason.SHAPE, detail)
    strides = [prod(x.shape[i + 1 :]) for i in range(x.rank)]
    step, shape = strides[axis], index.shape
    if is_symbolic((*shape, *strides)):
        return (yield from _symbolic_positions(n, x, index, axis, strides))
    own = np.indices(shape)
    own[axis] = 0
    offsets = np.tensordot(strides, own, 1).astype(np.int32)
    if index.constant is not None:
        at = np.array(constant_indices(n, index, x.shape[axis])).reshape(shape)
        return n.value("places", Constant.of((at * step + offsets).astype(np.int32)))
    found = yield from n.indices(index, x.shape[axis])
    scaled = yield from n.compute(spec.MUL, found, n.scalar(step, found))
    return (yield from n.compute(spec.ADD, scaled, Constant.of(offsets)))


def _symbolic_positions(
    n: Node, x: Value, index: Value, axis: int, strides: Sequence[int]
) -> Computed:
    """Return the same where sizes are symbols: the sum of a range along each axis."""
    found = yield from n.indices(index, x.shape[axis])
    total = yield from n.compute(spec.MUL, found, n.scalar(strides[axis], found))
    for i, (size, stride) in enumerate(zip(index.shape, strides, strict=True)):
        if i != axis and not identical((size,), (1,)):
            offsets = yield from positions_along(n, index.shape, i, stride)
            summed = n.temp(total)
            yield from broadcast(n, spec.ADD, (total, offsets), summed)
            total = summed
    return total


def row_positions(
    n: Node, index: Value, sizes: Sequence[int], offsets: Array | None = None
) -> Computed:
    """Return the flat position of each row of indexes into dimensions `sizes`, plus `offsets`."""
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if index.constant is not None and index.constant.numbers:
        pairs = list(zip(index.constant.numbers, cycle(sizes), strict=False))
        fits = all(-size <= i < size for i, size in pairs)
        n.require(fits, Reason.CONSTANT, f"{index.name} has an index outside {list(sizes)}")
        numbers = objects(i + size if i < 0 else i for i, size in pairs)
        places = (numbers.reshape(-1, len(sizes)) * objects(strides)).sum(axis=1)
        places += 0 if offsets is None else offsets
        return n.value("places", Constant.of_sizes(places.tolist(), places.shape, DType.INT32))
    if index.constant is not None:
        given = index.constant.array.reshape(-1, len(sizes))
        within = bool(np.all((given >= -np.array(sizes)) & (given < sizes)))
        n.require(within, Reason.CONSTANT, f"{index.name} has an index outside {list(sizes)}")
        found = (given % sizes) @ strides + (0 if offsets is None else offsets)
        return n.value("places", Constant.of(found.astype(np.int32)))
    count = prod(index.shape[:-1])
    rows = yield from n.reshaped(replace(index, dtype=DType.INT32), (count, len(sizes)))
    total = offsets if offsets is None else n.value("offsets", Constant.of(offsets.reshape(-1, 1)))
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        column = n.temp(rows, (count, 1))
        yield from slice_spans(n, rows, along(rows.shape, 1, Span(i, i + 1)), column)
        inside = yield from n.indices(column, size)
        scaled = yield from n.compute(spec.MUL, inside, n.scalar(stride, inside))
        total = scaled if total is None else (yield from n.compute(spec.ADD, scaled, total))
    return rows if total is None else total
