"""Gather, GatherElements, GatherND and ReverseSequence.

Indexes are within the dimension, as ONNX demands, so INT64 ones fit INT32. Negative ones are made
non-negative, at compile time if constant, at run time otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.spec import GATHER, STRIDED_SLICE
from ep_nnapi.operators.lib.emit import (
    indices,
    of_any_type,
    output_or_temp,
    recast,
    reshaped,
    write_output,
)
from ep_nnapi.operators.lib.flat_indices import constant_indices, element_positions, row_positions
from ep_nnapi.operators.lib.merge_axes import sizes_around
from ep_nnapi.operators.lib.node import Node, int32, op
from ep_nnapi.operators.lib.slicing import slice_ranges


@op("Gather", since=1)
def gather(n: Node) -> Iterator[Call]:
    """Slices of the data along `axis`, in the shape of the indexes.

    Source: ONNX Gather-1, -11, -13; NDK ANEURALNETWORKS_GATHER.
    """
    x, index, y, axis = n.input(0), n.input(1), n.output(), n.axis(default=0)
    if x.dtype is DType.INT64:  # constant INT64 data is cast to INT32
        x, y = recast(n, x, DType.INT32), replace(y, dtype=DType.INT32)
    if index.constant is not None and index.rank == 0:
        (at,) = constant_indices(n, index, x.shape[axis])
        yield from of_any_type(n, x, y, lambda a, b: _one(n, a, axis, at, b))
    else:
        yield from of_any_type(n, x, y, lambda a, b: _gather(n, a, axis, index, b))


def _one(n: Node, x: Value, axis: int, at: int, y: Value) -> Iterator[Call]:
    """Emit one slice with its axis removed, both by one STRIDED_SLICE."""
    bounds = [(at, at + 1) if i == axis else (0, size) for i, size in enumerate(x.shape)]
    if 1 < x.rank <= MAX_RANK and x.dtype is not DType.INT32:
        yield apply(
            STRIDED_SLICE,
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
        output_or_temp(n, y, [e - b for b, e in bounds])
        if x.rank == 1
        else n.temp(x, [e - b for b, e in bounds])
    )
    yield from slice_ranges(n, x, [range(b, e) for b, e in bounds], part)
    yield from write_output(n, part, y)


def _gather(n: Node, x: Value, axis: int, index: Value, y: Value) -> Iterator[Call]:
    """Emit GATHER; beyond rank 4, axes before and after `axis` are merged and indexes flattened."""
    found = yield from indices(n, index, x.shape[axis])
    if max(x.rank, y.rank) <= MAX_RANK and index.rank > 0:
        yield apply(GATHER, x, axis=axis, indices=found, out=y)
        return
    before, size, after = sizes_around(x.shape, axis)
    seen = yield from reshaped(n, x, (before, size, after))
    row = yield from reshaped(n, found, (index.size,))
    result = output_or_temp(n, y, (before, index.size, after))
    yield apply(GATHER, seen, axis=1, indices=row, out=result)
    yield from write_output(n, result, y)


@op("GatherElements", since=11)
def gather_elements(n: Node) -> Iterator[Call]:
    """One element for each index, at the index's own position except along `axis`.

    Source: ONNX GatherElements-11, -13; NDK ANEURALNETWORKS_GATHER.
    """
    x, index, axis = n.input(0), n.input(1), n.axis(default=0)
    places = yield from element_positions(n, x, index, axis)
    yield from of_any_type(n, x, n.output(), lambda a, b: _flat(n, a, 1, places, b))


def _flat(n: Node, x: Value, row: int, places: Value, y: Value) -> Iterator[Call]:
    """Emit the rows of `row` elements at positions `places` of the flattened `x`."""
    rest = (row,) if row > 1 else ()
    seen = yield from reshaped(n, x, (x.size // row, *rest))
    if places.rank + len(rest) > MAX_RANK:
        places = yield from reshaped(n, places, (places.size,))
    result = output_or_temp(n, y, (*places.shape, *rest))
    yield apply(GATHER, seen, axis=0, indices=places, out=result)
    yield from write_output(n, result, y)


@op("GatherND", since=11)
def gather_nd(n: Node) -> Iterator[Call]:
    """Slices selected by rows of indexes, after `batch_dims` common dimensions.

    Source: ONNX GatherND-11, -12, -13; NDK ANEURALNETWORKS_GATHER.
    """
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
    offsets = np.repeat(
        np.arange(prod(x.shape[:batch])) * prod(sizes),
        prod(index.shape[:-1]) // prod(x.shape[:batch]),
    )
    places = yield from row_positions(n, index, sizes, offsets.astype(np.int32))
    row = prod(x.shape[batch + width :])
    yield from of_any_type(n, x, y, lambda a, b: _flat(n, a, row, places, b))


@op("ReverseSequence", since=10)
def reverse_sequence(n: Node) -> Iterator[Call]:
    """Reverses the first `sequence_lens` (constant) elements along `time_axis` of each batch item.

    Source: ONNX ReverseSequence-10; NDK ANEURALNETWORKS_GATHER.
    """
    x, lengths = n.input(0), n.integers_at(1)
    by_time = n.integer("time_axis", 0) == 0
    steps, batch = x.shape[:2] if by_time else x.shape[1::-1]
    n.require(
        len(lengths) == batch,
        Reason.SHAPE,
        f"{n.input(1).name} has {len(lengths)} lengths for a batch of {batch}",
    )
    within = all(0 <= length <= steps for length in lengths)
    n.require(within, Reason.CONSTANT, f"{n.input(1).name} has a length outside 0 to {steps}")
    time = np.arange(steps)[:, np.newaxis]
    ends = np.array(lengths)
    turned = np.where(time < ends, ends - 1 - time, time)  # [steps, batch]
    across = np.arange(batch)
    places = turned * batch + across if by_time else (across * steps + turned).T
    row = n.value("places", Constant.of(places.reshape(-1).astype(np.int32)))
    rest = prod(x.shape[2:])
    yield from of_any_type(n, x, n.output(), lambda a, b: _flat(n, a, rest, row, b))
