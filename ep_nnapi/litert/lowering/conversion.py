"""Conversions between types."""

from __future__ import annotations

from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.litert.scope import is_signed
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, Q8, Q8C, Q8S, Q8Y
from ep_nnapi.ort_devices.row import row
from ep_nnapi.ort_devices.scope import require


def dequantize(op: FlatOp) -> None:
    """Real numbers of quantized ones. Source: NDK ANEURALNETWORKS_DEQUANTIZE."""
    op.run("DEQUANTIZE", ["input"], "Dequantize")


def quantize(op: FlatOp) -> None:
    """Quantized numbers of real ones. Source: NDK ANEURALNETWORKS_QUANTIZE."""
    signed = is_signed(op.operand("output").type)
    outputs = [op.out(signed=signed)]
    op.graph.operator("QUANTIZE", [op.tensor("input")], outputs, ("Quantize", {}))


def cast(op: FlatOp) -> None:
    """Converts stored numbers; to 8 bits LiteRT wraps where NNAPI saturates.

    Source: NDK ANEURALNETWORKS_CAST.
    """
    source, result = op.operand("input").type, op.operand("output").type
    require(source is result or result in (F32, I32), f"a cast to {result.name} saturates")
    signed = is_signed(source)
    value = op.tensor("input", signed=signed)
    if source is result:
        op.finish(op.reshaped(value, op.shape("output")), signed=signed)
        return
    op.graph.operator("CAST", [value], [op.out()])


ROWS = (
    row(spec.DEQUANTIZE, dequantize, Q8, Q8S, Q8Y, Q8C),
    row(spec.QUANTIZE, quantize, F32),
    row(spec.CAST, cast, F32, I32, Q8, Q8S, BOOL8),
)
