"""Slices, gathers, lookups and top-k."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.slicing import ranges
from ep_nnapi.nnapi.spec import F16, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import is_coded, require

_BEFORE_ALL = -(2**31)
"""End of an ONNX slice that runs backwards to the first element."""


def slice_(op: Op) -> None:
    """Copies a block, of a known size but anywhere. Source: NDK ANEURALNETWORKS_SLICE."""
    begin = op.node("Cast", op.stored("begin"), to=TensorProto.INT64)
    ends = op.node("Add", begin, op.sizes(op.shape("output")))
    found = op.node("Slice", op.stored("input"), begin, ends)
    op.keep(op.reshape(found, op.shape("output")))  # fails if it was clamped


def strided_slice(op: Op) -> None:
    """Copies a block with strides. Source: NDK ANEURALNETWORKS_STRIDED_SLICE."""
    shape = op.shape("input")
    bounds = (op.ints("begin"), op.ints("end"), op.ints("strides"))
    taken = ranges(shape, bounds, op.number("begin_mask"), op.number("end_mask"))
    ends = [r.stop if r.stop >= 0 else _BEFORE_ALL for r in taken]
    value = op.node(
        "Slice",
        op.stored("input"),
        op.sizes([r.start for r in taken]),
        op.sizes(ends),
        op.sizes(range(len(shape))),
        op.sizes([r.step for r in taken]),
    )
    op.keep(op.reshape(value, op.shape("output")))


def gather(op: Op) -> None:
    """Gathers slices along an axis by index. Source: NDK ANEURALNETWORKS_GATHER."""
    axis = op.axis("axis", len(op.shape("input")))
    _gather(op, "input", "indices", axis)


def embedding_lookup(op: Op) -> None:
    """Rows of `values` by index. Source: NDK ANEURALNETWORKS_EMBEDDING_LOOKUP."""
    _gather(op, "values", "lookups", 0)


def _gather(op: Op, values: str, indices: str, axis: int) -> None:
    """Gathers; an index below zero becomes one beyond the end, which ONNX Runtime refuses too."""
    size = op.shape(values)[axis]
    at = op.stored(indices)
    if op.scope.constant(op.index(indices)):
        numbers = op.constant(indices)
        require(bool(np.all((numbers >= 0) & (numbers < size))), "an index is out of range")
    else:
        negative = op.node("Less", at, op.array(0, np.int32))
        at = op.node("Where", negative, op.array(size, np.int32), at)
    op.keep(op.node("Gather", op.stored(values), at, axis=axis))


def topk_v2(op: Op) -> None:
    """The k greatest elements, descending, and their indexes; the last of equal ones first.

    ONNX puts the first of equal ones first, so the rows are reversed.
    Source: NDK ANEURALNETWORKS_TOPK_V2.
    """
    shape = op.shape("input")
    size, last = shape[-1], len(shape) - 1
    value, coded = op.stored("input"), is_coded(op.operand("input"))
    if coded:
        value = op.node("Cast", value, to=TensorProto.INT32)
    order = op.array(np.arange(size)[::-1], np.int64)
    reversed_rows = op.node("Gather", value, order, axis=last)
    values, places = op.scope.graph.many(
        "TopK", 2, reversed_rows, op.sizes([op.number("k")]), axis=last
    )
    if coded:
        values = op.node("Cast", values, to=TensorProto.UINT8)
    op.keep(values, output="values")
    indexes = op.node("Sub", op.array(size - 1, np.int64), places)
    op.keep(op.node("Cast", indexes, to=TensorProto.INT32), output="indices")


_NUMBERS = (F32, F16, I32, Q8, Q8S)
ROWS = (
    row(spec.SLICE, slice_, *_NUMBERS),
    row(spec.STRIDED_SLICE, strided_slice, F32, F16, Q8, Q8S),
    row(spec.GATHER, gather, *_NUMBERS),
    row(spec.EMBEDDING_LOOKUP, embedding_lookup, *_NUMBERS),
    row(spec.TOPK_V2, topk_v2, *_NUMBERS),
)
