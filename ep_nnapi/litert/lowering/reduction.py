"""Reductions along axes, and the indexes of the largest elements."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ep_nnapi.litert.operation import DATA, FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.operands import axes_of
from ep_nnapi.nnapi.spec import BOOL8, F32, I32
from ep_nnapi.ort_devices.operation import row


def _reduction(operator: str, op: FlatOp) -> None:
    """Reductions; the output has its declared shape, also if no axis remains."""
    op.same_quantization("input")
    axes = axes_of(op.ints("axes"), op.rank("input"))
    keep = op.scalar("keep_dims") > 0
    if not keep and len(axes) == op.rank("input"):
        signed = op.signed("input")
        ones = replace(op.described(signed=signed), shape=(1,) * op.rank("input"))
        inputs = [op.tensor("input", signed=signed), op.graph.ints(axes)]
        whole = op.computed(operator, inputs, ones, keepDims=True)
        op.finish(op.graph.reshaped(whole, op.shape("output")), signed=signed)
        return
    op.run(operator, ["input", op.graph.ints(axes)], keepDims=keep)


def _arg(operator: str, op: FlatOp) -> None:
    """Index of the extreme element, the first of equal ones."""
    shape, axis = op.shape("input"), op.axis("axis", op.rank("input"))
    value = op.tensor("input", signed=op.signed("input"))
    if len(shape) == 1:
        value, axis = op.graph.reshaped(value, (1, *shape)), 1
    op.run(operator, [value, op.graph.ints([axis])], outputType=_INT32)


_INT32 = 2
"""Type of indexes. Source: LiteRT's schema, TensorType."""
ROWS = (
    row(spec.MEAN, partial(_reduction, "MEAN"), *DATA),
    row(spec.REDUCE_SUM, partial(_reduction, "SUM"), F32),
    row(spec.REDUCE_PROD, partial(_reduction, "REDUCE_PROD"), F32),
    row(spec.REDUCE_MAX, partial(_reduction, "REDUCE_MAX"), *DATA),
    row(spec.REDUCE_MIN, partial(_reduction, "REDUCE_MIN"), *DATA),
    row(spec.REDUCE_ALL, partial(_reduction, "REDUCE_ALL"), BOOL8),
    row(spec.REDUCE_ANY, partial(_reduction, "REDUCE_ANY"), BOOL8),
    row(spec.ARGMAX, partial(_arg, "ARG_MAX"), *DATA, I32),
    row(spec.ARGMIN, partial(_arg, "ARG_MIN"), *DATA, I32),
)
