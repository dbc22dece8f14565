"""Slices, gathers and lookups."""

from __future__ import annotations

import numpy as np

from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import require


def slice_(op: FlatOp) -> None:
    """Copies a block. Source: NDK ANEURALNETWORKS_SLICE."""
    op.same_quantization("input")
    op.run("SLICE", ["input", "begin", "size"], "Slice")


def strided_slice(op: FlatOp) -> None:
    """Copies a block with strides. Source: NDK ANEURALNETWORKS_STRIDED_SLICE."""
    op.same_quantization("input")
    masks = {
        "beginMask": op.number("begin_mask"),
        "endMask": op.number("end_mask"),
        "shrinkAxisMask": op.number("shrink_axis_mask"),
    }
    every = (1 << op.rank("input")) - 1
    require(masks["shrinkAxisMask"] & every != every, "it removes every axis")
    op.run("STRIDED_SLICE", ["input", "begin", "end", "strides"], "StridedSlice", **masks)


def gather(op: FlatOp) -> None:
    """Gathers slices along an axis by index. Source: NDK ANEURALNETWORKS_GATHER."""
    op.same_quantization("input")
    _check_indexes(op, "indices", op.shape("input")[op.axis("axis", op.rank("input"))])
    axis = op.axis("axis", op.rank("input"))
    signed = op.signed("input")
    inputs = [op.tensor("input", signed=signed), op.tensor("indices")]
    op.graph.operator("GATHER", inputs, [op.out(signed=signed)], ("Gather", {"axis": axis}))


def embedding_lookup(op: FlatOp) -> None:
    """Rows of `values` by index. Source: NDK ANEURALNETWORKS_EMBEDDING_LOOKUP."""
    op.same_quantization("values")
    _check_indexes(op, "lookups", op.shape("values")[0])
    signed = op.signed("values")
    inputs = [op.tensor("values", signed=signed), op.tensor("lookups")]
    op.graph.operator("GATHER", inputs, [op.out(signed=signed)], ("Gather", {"axis": 0}))


def _check_indexes(op: FlatOp, name: str, size: int) -> None:
    """Raises Inexpressible for constant indexes out of range."""
    if op.scope.constant(op.index(name)):
        numbers = op.constant(name)
        require(bool(np.all((numbers >= 0) & (numbers < size))), "an index is out of range")


_NUMBERS = (F32, I32, Q8, Q8S)
ROWS = (
    row(spec.SLICE, slice_, *_NUMBERS),
    row(spec.STRIDED_SLICE, strided_slice, F32, Q8, Q8S),
    row(spec.GATHER, gather, *_NUMBERS),
    row(spec.EMBEDDING_LOOKUP, embedding_lookup, *_NUMBERS),
)
