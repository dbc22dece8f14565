"""Conversions of element types, and tensors that depend on no elements."""

from __future__ import annotations

import numpy as np
from onnx import helper

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8C, Q8S, Q8Y, Q16, Q16Y
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import row

_REALS = (F32, F16)


def cast(op: Op) -> None:
    """Casts the stored numbers, truncating fractions; unsigned 8-bit results saturate.

    Source: NDK ANEURALNETWORKS_CAST.
    """
    before, after = op.operand("input").type, op.operand("output").type
    layout = op.layout("input")
    value = op.stored("input", layout)
    if before == after or (before in _REALS and after in _REALS):
        op.keep(value, layout)
        return
    if after is Q8 and before is not BOOL8:
        ends = (op.array(end, np.int32 if before is I32 else np.float32) for end in (0, 255))
        value = op.node("Clip", value, *ends)
    dtype = np.dtype(np.float32) if after in _REALS else after.numpy
    op.keep(op.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(dtype)), layout)


def quantize(op: Op) -> None:
    """Quantizes; ties are rounded to even, not away from zero.

    Source: NDK ANEURALNETWORKS_QUANTIZE.
    """
    layout = op.layout("input")
    op.deliver(op.real("input", layout), layout)


def dequantize(op: Op) -> None:
    """Dequantizes. Source: NDK ANEURALNETWORKS_DEQUANTIZE."""
    layout = op.layout("input")
    op.keep(op.real("input", layout), layout)


def dequantize_symmetric(op: Op) -> None:
    """Dequantizes numbers without zero point, with one scale or one per channel."""
    operand = op.operand("input")
    channels = operand.channels
    scales = channels.scales if channels else operand.scale
    axis = {"axis": channels.dim} if channels else {}
    value = op.node("DequantizeLinear", op.stored("input"), op.array(scales), **axis)
    op.keep(value)


def fill(op: Op) -> None:
    """A tensor of one value. Source: NDK ANEURALNETWORKS_FILL."""
    op.keep(op.node("Expand", op.real("value"), op.sizes(op.shape("output"))))


def rank(op: Op) -> None:
    """Number of dimensions. Source: NDK ANEURALNETWORKS_RANK."""
    count = op.array(len(op.shape("input")), np.int32)
    op.scope.define(op.index("output"), count, (), real=False)


ROWS = (
    row(spec.CAST, cast, BOOL8, F32, F16, I32, Q8, Q8S, Q8Y, Q16, Q16Y),
    row(spec.QUANTIZE, quantize, F32, F16),
    row(spec.DEQUANTIZE, dequantize, Q8, Q8S),
    row(spec.DEQUANTIZE, dequantize_symmetric, Q8Y, Q8C),
    row(spec.FILL, fill, F32, F16, I32),
    row(spec.RANK, rank),
)
