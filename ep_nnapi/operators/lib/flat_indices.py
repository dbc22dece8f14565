"""Conversion of ONNX indexes to positions in a flattened tensor.

Constant indexes are converted at compile time, others by NNAPI operations at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.spec import ADD, MUL
from ep_nnapi.operators.lib.emit import Computed, compute, indices, reshaped
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.operators.lib.slicing import slice_ranges


def constant_indices(n: Node, index: Value, size: int) -> list[int]:
    """Return the constant indexes of input 1 as non-negative; raise Reject if out of range."""
    array = n.array(1).reshape(-1)
    n.require(
        bool(np.all((array >= -size) & (array < size))),
        Reason.CONSTANT,
        f"{index.name} has an index outside a dimension of {size}",
    )
    return [int(i) % size for i in array]


def element_positions(n: Node, x: Value, index: Value, axis: int) -> Computed:
    """Return, for each element of `index` (as in GatherElements), its position in flat `x`.

    Raises Reject if `index` has another rank than `x`, or is larger beside `axis`.
    """
    fits = index.rank == x.rank and all(
        size <= most or i == axis
        for i, (size, most) in enumerate(zip(index.shape, x.shape, strict=True))
    )
    n.require(
        fits,
        Reason.SHAPE,
        f"{index.name} of {list(index.shape)} does not fit {x.name} of {list(x.shape)}",
    )
    strides = [prod(x.shape[i + 1 :]) for i in range(x.rank)]
    step, shape = strides[axis], index.shape
    own = np.indices(shape)
    own[axis] = 0
    offsets = np.tensordot(strides, own, 1).astype(np.int32)
    if index.constant is not None:
        at = np.array(constant_indices(n, index, x.shape[axis])).reshape(shape)
        return n.value("places", Constant.of((at * step + offsets).astype(np.int32)))
    found = yield from indices(n, index, x.shape[axis])
    scaled = yield from compute(n, MUL, found, n.scalar(step, found))
    return (yield from compute(n, ADD, scaled, Constant.of(offsets)))


def row_positions(n: Node, index: Value, sizes: Sequence[int], offsets: Array) -> Computed:
    """Return the flat position of each row of indexes into dimensions `sizes`, plus `offsets`."""
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if index.constant is not None:
        given = index.constant.array.reshape(-1, len(sizes))
        within = bool(np.all((given >= -np.array(sizes)) & (given < sizes)))
        n.require(within, Reason.CONSTANT, f"{index.name} has an index outside {list(sizes)}")
        found = (given % sizes) @ strides + offsets
        return n.value("places", Constant.of(found.astype(np.int32)))
    rows = yield from reshaped(n, replace(index, dtype=DType.INT32), (len(offsets), len(sizes)))
    total = n.value("offsets", Constant.of(offsets.reshape(-1, 1)))
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        column = n.temp(rows, (len(offsets), 1))
        yield from slice_ranges(n, rows, [range(len(offsets)), range(i, i + 1)], column)
        inside = yield from indices(n, column, size)
        scaled = yield from compute(n, MUL, inside, n.scalar(stride, inside))
        total = yield from compute(n, ADD, scaled, total)
    return total
