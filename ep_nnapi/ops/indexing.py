"""Elements that indexes name.

Indexes are within the dimension, as ONNX demands, so that INT64 ones fit INT32; what they count
from the end is counted from the front, at once for constants, at run time for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ep_nnapi.nnapi.call import Call
from ep_nnapi.nnapi.spec import ADD, CONCATENATION, GATHER, MUL, SLICE, STRIDED_SLICE
from ep_nnapi.ops.crop import crop
from ep_nnapi.ops.fold import around
from ep_nnapi.ops.node import Node, int32, op
from ep_nnapi.ops.steps import (
    Steps,
    compute,
    each,
    indices,
    of_any_type,
    place,
    recast,
    reshaped,
    settle,
)
from ep_nnapi.rejection import Reason
from ep_nnapi.value import MAX_RANK, Array, Constant, DType, Value


@op("Gather", since=1, emits=(GATHER, SLICE, STRIDED_SLICE))
def gather(n: Node) -> Iterator[Call]:
    """Slices of the data along `axis`, in the shape of the indexes.

    Source: ONNX Gather-1, -11, -13; NDK ANEURALNETWORKS_GATHER.
    """
    x, index, y, axis = n.input(0), n.input(1), n.output(), n.axis(default=0)
    if x.dtype is DType.INT64:  # a table of numbers, if it is constant
        x, y = recast(n, x, DType.INT32), replace(y, dtype=DType.INT32)
    if index.constant is not None and index.rank == 0:
        (at,) = _known(n, index, x.shape[axis])
        yield from of_any_type(n, x, y, lambda a, b: _one(n, a, axis, at, b))
    else:
        yield from of_any_type(n, x, y, lambda a, b: _gather(n, a, axis, index, b))


def _known(n: Node, index: Value, size: int) -> list[int]:
    """Constant indexes, counted from the front."""
    array = n.array(1).reshape(-1)
    n.require(
        bool(np.all((array >= -size) & (array < size))),
        Reason.CONSTANT,
        f"{index.name} has an index outside a dimension of {size}",
    )
    return [int(i) % size for i in array]


def _one(n: Node, x: Value, axis: int, at: int, y: Value) -> Iterator[Call]:
    """One slice, its axis gone: STRIDED_SLICE takes both off."""
    bounds = [(at, at + 1) if i == axis else (0, size) for i, size in enumerate(x.shape)]
    if 1 < x.rank <= MAX_RANK and x.dtype is not DType.INT32:
        yield STRIDED_SLICE(
            x,
            begin=int32([b for b, _ in bounds]),
            end=int32([e for _, e in bounds]),
            strides=int32([1] * x.rank),
            begin_mask=0,
            end_mask=0,
            shrink_axis_mask=1 << axis,
            out=y,
        )
        return
    part = (
        place(n, y, [e - b for b, e in bounds])
        if x.rank == 1
        else n.temp(x, [e - b for b, e in bounds])
    )
    yield from crop(n, x, [range(b, e) for b, e in bounds], part)
    yield from settle(n, part, y)


def _gather(n: Node, x: Value, axis: int, index: Value, y: Value) -> Iterator[Call]:
    """Beyond rank 4 the axes around `axis` are merged, and the indexes are one row."""
    found = yield from indices(n, index, x.shape[axis])
    if max(x.rank, y.rank) <= MAX_RANK and index.rank > 0:
        yield GATHER(x, axis=axis, indices=found, out=y)
        return
    before, size, after = around(x.shape, axis)
    seen = yield from reshaped(n, x, (before, size, after))
    row = yield from reshaped(n, found, (index.size,))
    made = place(n, y, (before, index.size, after))
    yield GATHER(seen, axis=1, indices=row, out=made)
    yield from settle(n, made, y)


@op("GatherElements", since=11, emits=(GATHER,))
def gather_elements(n: Node) -> Iterator[Call]:
    """One element for each index, which replaces the element's own place along `axis`.

    Source: ONNX GatherElements-11, -13; NDK ANEURALNETWORKS_GATHER.
    """
    x, index, axis = n.input(0), n.input(1), n.axis(default=0)
    places = yield from _element_places(n, x, index, axis)
    yield from of_any_type(n, x, n.output(), lambda a, b: _flat(n, a, 1, places, b))


def _element_places(n: Node, x: Value, index: Value, axis: int) -> Steps:
    """Where each index points in the flat `x`."""
    strides = [prod(x.shape[i + 1 :]) for i in range(x.rank)]
    step, shape = strides[axis], index.shape
    own = np.indices(shape)
    own[axis] = 0
    offsets = np.tensordot(strides, own, 1).astype(np.int32)
    if index.constant is not None:
        known = np.array(_known(n, index, x.shape[axis])).reshape(shape)
        return n.value("places", Constant.of((known * step + offsets).astype(np.int32)))
    found = yield from indices(n, index, x.shape[axis])
    scaled = yield from compute(n, MUL, found, n.scalar(step, found))
    return (yield from compute(n, ADD, scaled, Constant.of(offsets)))


def _flat(n: Node, x: Value, row: int, places: Value, y: Value) -> Iterator[Call]:
    """Rows of `row` elements of the flat `x`, in the places given."""
    rest = (row,) if row > 1 else ()
    seen = yield from reshaped(n, x, (x.size // row, *rest))
    if places.rank + len(rest) > MAX_RANK:
        places = yield from reshaped(n, places, (places.size,))
    made = place(n, y, (*places.shape, *rest))
    yield GATHER(seen, axis=0, indices=places, out=made)
    yield from settle(n, made, y)


@op("GatherND", since=11, emits=(GATHER,))
def gather_nd(n: Node) -> Iterator[Call]:
    """Slices that rows of indexes name, after `batch_dims` common dimensions.

    Source: ONNX GatherND-11, -12, -13; NDK ANEURALNETWORKS_GATHER.
    """
    x, index, y, batch = n.input(0), n.input(1), n.output(), n.integer("batch_dims", 0)
    width = index.shape[-1]
    sizes = x.shape[batch : batch + width]
    offsets = np.repeat(
        np.arange(prod(x.shape[:batch])) * prod(sizes),
        prod(index.shape[:-1]) // prod(x.shape[:batch]),
    )
    places = yield from _row_places(n, index, sizes, offsets.astype(np.int32))
    row = prod(x.shape[batch + width :])
    yield from of_any_type(n, x, y, lambda a, b: _flat(n, a, row, places, b))


def _row_places(n: Node, index: Value, sizes: Sequence[int], offsets: Array) -> Steps:
    """What each row of indexes into dimensions of `sizes` names, plus its offset."""
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if index.constant is not None:
        known = index.constant.array.reshape(-1, len(sizes))
        within = bool(np.all((known >= -np.array(sizes)) & (known < sizes)))
        n.require(within, Reason.CONSTANT, f"{index.name} has an index outside {list(sizes)}")
        found = (known % sizes) @ strides + offsets
        return n.value("places", Constant.of(found.astype(np.int32)))
    rows = yield from reshaped(n, replace(index, dtype=DType.INT32), (len(offsets), len(sizes)))
    total = n.value("offsets", Constant.of(offsets.reshape(-1, 1)))
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        column = n.temp(rows, (len(offsets), 1))
        yield from crop(n, rows, [range(len(offsets)), range(i, i + 1)], column)
        inside = yield from indices(n, column, size)
        scaled = yield from compute(n, MUL, inside, n.scalar(stride, inside))
        total = yield from compute(n, ADD, scaled, total)
    return total


@op("ScatterElements", since=11, emits=(GATHER,))
def scatter_elements(n: Node) -> Iterator[Call]:
    """The data with elements replaced where constant indexes say: gathered from data and updates.

    Source: ONNX ScatterElements-11 to -18; NDK ANEURALNETWORKS_GATHER.
    """
    x, axis = n.input(0), n.axis(default=0)
    n.constant(1)
    places = yield from _element_places(n, x, n.input(1), axis)
    yield from _scattered(n, places, 1)


@op("ScatterND", since=11, emits=(GATHER,))
def scatter_nd(n: Node) -> Iterator[Call]:
    """The data with slices replaced where constant rows of indexes say.

    Source: ONNX ScatterND-11 to -18; NDK ANEURALNETWORKS_GATHER.
    """
    x, index = n.input(0), n.input(1)
    n.constant(1)
    width = index.shape[-1]
    none = np.zeros(prod(index.shape[:-1]), np.int32)
    places = yield from _row_places(n, index, x.shape[:width], none)
    yield from _scattered(n, places, prod(x.shape[width:]))


def _scattered(n: Node, places: Value, row: int) -> Iterator[Call]:
    """Rows of the data, those at `places` from the updates (input 2): of several the last."""
    x, updates, y = n.input(0), n.input(2), n.output()
    reduction = n.text("reduction", "none")
    n.require(
        reduction == "none", Reason.ATTRIBUTE, f"reduction is {reduction!r}; NNAPI scatters nothing"
    )
    sources = np.arange(x.size // row, dtype=np.int32)
    if places.constant is not None:
        sources[places.constant.array.reshape(-1)] = np.arange(places.size) + len(sources)
    parts = yield from each(reshaped(n, part, (part.size // row, row)) for part in (x, updates))
    both = n.temp(x, (len(sources) + places.size, row))
    yield CONCATENATION(inputs=parts, axis=0, out=both)
    made = place(n, y, (len(sources), row))
    yield GATHER(both, axis=0, indices=Constant.of(sources), out=made)
    yield from settle(n, made, y)
