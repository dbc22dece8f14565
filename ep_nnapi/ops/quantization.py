"""Real numbers quantized and dequantized."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.nnapi.call import Call
from ep_nnapi.nnapi.spec import CAST, DEQUANTIZE, MUL, QUANTIZE
from ep_nnapi.ops.node import Node, op
from ep_nnapi.ops.steps import compute
from ep_nnapi.rejection import Reason
from ep_nnapi.value import DType, Value


@op("QuantizeLinear", since=10, emits=(QUANTIZE,))
def quantize(n: Node) -> Iterator[Call]:
    """In steps of one constant scale from a constant zero point; NNAPI rounds ties away from zero.

    Source: ONNX QuantizeLinear-10 to QuantizeLinear-25; NDK ANEURALNETWORKS_QUANTIZE.
    """
    x, y = n.input(0), n.output()
    _require_quantization(n, y)
    _require_one_scale(n, y)
    yield QUANTIZE(x, out=y)


@op("DequantizeLinear", since=10, emits=(DEQUANTIZE, CAST, MUL))
def dequantize(n: Node) -> Iterator[Call]:
    """The real numbers of one constant scale, or of one for each slice along `axis`.

    Source: ONNX DequantizeLinear-10 to DequantizeLinear-25; NDK ANEURALNETWORKS_DEQUANTIZE.
    """
    x, y = n.input(0), n.output()
    _require_quantization(n, x)
    if x.dtype is DType.INT32:
        yield from _integers(n, x, y)
        return
    if x.dtype is not DType.INT8 or any(x.quantization.zero_point if x.quantization else ()):
        _require_one_scale(n, x)
    yield DEQUANTIZE(x, out=y)


def _integers(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Numbers of 32 bits, of which 24 count in float32, as ONNX has it too."""
    _require_one_scale(n, x)
    q = x.quantization
    centred = q is not None and not any(q.zero_point)
    n.require(centred, Reason.QUANTIZATION, f"{x.name} is INT32; its zero point must be 0")
    real = yield from compute(n, CAST, x, dtype=y.dtype)
    yield MUL(real, n.scalar(q.scale[0] if q else 1.0, y), out=y)


def _require_quantization(n: Node, value: Value) -> None:
    """Raises Reject unless the value has a known quantization."""
    for index in range(1, len(n.node.inputs)):
        if n.has(index):
            n.constant(index)  # the scale or the zero point
    n.require(
        value.quantization is not None,
        Reason.QUANTIZATION,
        f"{value.name} has scales by block, or is quantized in two ways; use one scale a tensor",
    )


def _require_one_scale(n: Node, value: Value) -> None:
    q = value.quantization
    n.require(
        q is not None and q.per_tensor,
        Reason.QUANTIZATION,
        f"{value.name} has a scale for each channel; only INT8 weights from zero point 0 may",
    )
