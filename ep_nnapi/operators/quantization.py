"""QuantizeLinear, DequantizeLinear and the QLinear operators."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import (
    CAST,
    DEQUANTIZE,
    MUL,
    QUANTIZE,
)
from ep_nnapi.operators.lib.emit import compute
from ep_nnapi.operators.lib.node import Node, Op, op
from ep_nnapi.operators.lib.quantizing import require_8bit, require_scale

MICROSOFT_DOMAIN = "com.microsoft"


@op("QuantizeLinear", since=10)
def quantize(n: Node) -> Iterator[Call]:
    """Quantized with one constant scale and zero point; NNAPI rounds ties away from zero.

    Source: ONNX QuantizeLinear-10 to QuantizeLinear-25; NDK ANEURALNETWORKS_QUANTIZE.
    """
    x, y = n.input(0), n.output()
    _require_quantization(n, y)
    _require_one_scale(n, y)
    yield apply(QUANTIZE, x, out=y)


@op("DequantizeLinear", since=10)
def dequantize(n: Node) -> Iterator[Call]:
    """Dequantized with one constant scale, or one for each slice along `axis`.

    Source: ONNX DequantizeLinear-10 to DequantizeLinear-25; NDK ANEURALNETWORKS_DEQUANTIZE.
    """
    x, y = n.input(0), n.output()
    _require_quantization(n, x)
    if x.dtype is DType.INT32:
        yield from _integers(n, x, y)
        return
    if x.dtype is not DType.INT8 or any(x.quantization.zero_point if x.quantization else ()):
        _require_one_scale(n, x)
    yield apply(DEQUANTIZE, x, out=y)


def _left(n: Node) -> Iterator[Call]:
    """Raise Reject with the reason why a QLinear operator was not rewritten as a QDQ group."""
    n.require(
        n.integer("channels_last", 0) == 0,
        Reason.ATTRIBUTE,
        "channels_last is 1; ONNX's own operators have channels first",
    )
    for index, value in enumerate(n.node.inputs):
        if value is not None and (value.dtype is DType.FLOAT or value.rank == 0):
            n.constant(index)
    raise Reject(
        Reason.QUANTIZATION,
        f"{n.output().name} or an input has scales that differ, or two ways of being quantized; "
        "use one scale a tensor",
    )
    yield  # a generator, as every lowering


def _qlinear(op_type: str, domain: str = MICROSOFT_DOMAIN, since: int = 1) -> Op:
    plain = op_type.removeprefix("Q").removeprefix("Linear")
    doc = (
        f"{plain} of tensors with constant scales and zero points.\n\n"
        f"Source: {domain or 'ONNX'} {op_type}-{since}; the QDQ group of {plain} replaces it."
    )
    return Op(op_type, domain, since, _left, doc, plain)


TABLE = (
    *(_qlinear(name) for name in ("QLinearConv", "QGemm", "QLinearAdd", "QLinearMul")),
    *(_qlinear(name) for name in ("QLinearWhere", "QLinearConcat", "QLinearSoftmax")),
    *(_qlinear(name) for name in ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool")),
    _qlinear("QLinearGlobalAveragePool"),
    *(_qlinear(name, "", 10) for name in ("QLinearConv", "QLinearMatMul")),
    Op("QuantizeLinear", MICROSOFT_DOMAIN, 1, quantize.lower, quantize.doc),
    Op("DequantizeLinear", MICROSOFT_DOMAIN, 1, dequantize.lower, dequantize.doc),
)


def _integers(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit the dequantization of INT32: CAST, then MUL by the scale.

    Float32 keeps 24 bits of the 32, as in ONNX.
    """
    _require_one_scale(n, x)
    q = x.quantization
    centred = q is not None and not any(q.zero_point)
    n.require(centred, Reason.QUANTIZATION, f"{x.name} is INT32; its zero point must be 0")
    real = yield from compute(n, CAST, x, dtype=y.dtype)
    yield apply(MUL, real, n.scalar(q.scale[0] if q else 1.0, y), out=y)


def _require_quantization(n: Node, value: Value) -> None:
    """Raise Reject unless the value has constant quantization parameters and 8 bits, or INT32."""
    require_8bit(value)
    for index in range(1, len(n.node.inputs)):
        if n.has(index):
            n.constant(index)  # the scale or the zero point
    block = n.integer("block_size", 0)
    n.require(
        block == 0,
        Reason.QUANTIZATION,
        f"{value.name} has a scale for each block of {block}; quantize per channel or per tensor",
    )
    n.require(
        value.quantization is not None,
        Reason.QUANTIZATION,
        f"{value.name} has conflicting or no quantization parameters; use one scale per tensor",
    )
    require_scale(value)


def _require_one_scale(n: Node, value: Value) -> None:
    q = value.quantization
    n.require(
        q is not None and q.per_tensor,
        Reason.QUANTIZATION,
        f"{value.name} has per-channel scales; only INT8 weights with zero point 0 may have these",
    )
