"""Conversion of element types: Cast, quantization with constant scales and at run time.

NNAPI's scales are constants. DynamicQuantizeLinear, MatMulInteger and ConvInteger, whose scales are
set at run time, are computed with integers stored as floats, which are exact below 2^24.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ep_nnapi.graph.graph import MICROSOFT_DOMAIN
from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.operators.lib.activation import clip
from ep_nnapi.operators.lib.convolution import convolve
from ep_nnapi.operators.lib.matmul import product
from ep_nnapi.operators.lib.node import Computed, Node, Operator, narrow, op
from ep_nnapi.operators.lib.quantizing import (
    EIGHT_BIT,
    dequantized,
    dequantized_in_blocks,
    require_8bit,
    require_bytes,
    require_scale,
)
from ep_nnapi.operators.lib.reduction import reduce

_FLOATS = (DType.FLOAT, DType.FLOAT16)
_BYTES = (DType.UINT8, DType.INT8)
_AS_IT_IS = Quantization((1.0,), (0,))
"""Quantization parameters with which the stored number is the real number."""


def lower(n: Node) -> Iterator[Call]:
    """Emit the first input cast to the element type of the output.

    Raises Reject(DTYPE) if INT64 numbers may not fit INT32.
    """
    x, y = n.input(0), n.output()
    detail = f"{x.name} or {y.name} is quantized; a cast is of plain numbers"
    n.require(x.quantization is None and y.quantization is None, Reason.QUANTIZATION, detail)
    if x.dtype is y.dtype:
        yield from n.reshape(x, y)
    elif x.dtype is DType.BOOL:
        yield from n.number_into(x, narrow(y))
    elif x.dtype in _BYTES:
        yield from _from_bytes(n, x, y)
    else:
        _require_range(n, x, y)
        yield from _cast(n, narrow(x), narrow(y))


def _require_range(n: Node, x: Value, y: Value) -> None:
    """Raise Reject(DTYPE) for casts from or to INT64 whose numbers may not fit INT32.

    NNAPI stores INT64 as INT32. Allowed are casts from INT32 to INT64 and from INT64 to INT32.
    """
    known = x.dtype is DType.INT32 if y.dtype is DType.INT64 else y.dtype is DType.INT32
    wide = next((v for v in (x, y) if v.dtype is DType.INT64), None)
    if wide is not None and not known:
        detail = f"{wide.name} is INT64, whose numbers may exceed INT32; use INT32"
        raise Reject(Reason.DTYPE, detail)


def _cast(n: Node, x: Value, y: Value) -> Iterator[Call]:
    if y.dtype is DType.BOOL:
        yield apply(spec.NOT_EQUAL, x, n.scalar(0, x), out=y)
    else:
        yield apply(spec.CAST, x, out=y)


def _from_bytes(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit the cast of an 8-bit integer as a DEQUANTIZE with scale 1 and zero point 0."""
    seen = replace(x, quantization=_AS_IT_IS)
    if y.dtype in _FLOATS:
        yield apply(spec.DEQUANTIZE, seen, out=y)
        return
    number = yield from n.compute(spec.DEQUANTIZE, seen, dtype=DType.FLOAT)
    yield from _cast(n, number, narrow(y))


CASTS = (
    Operator("Cast", "", 6, lower, "The same numbers as another type; fractions are cut off."),
    Operator("CastLike", "", 15, lower, "The same numbers as the second input's type."),
)


@op("QuantizeLinear", since=10)
def quantize(n: Node) -> Iterator[Call]:
    """Quantized with one constant scale and zero point; NNAPI rounds ties away from zero.

    16 bits that are dequantized again are rounded as real numbers, ties upwards.
    """
    x, y = n.input(0), n.output()
    if y.dtype in _FLOATS:
        yield from _rounded(n, n.node.parts[0].outputs[0])
        return
    _require_quantization(n, y)
    _require_one_scale(n, y)
    yield apply(spec.QUANTIZE, x, out=y)


def _rounded(n: Node, stored: Value | None) -> Iterator[Call]:
    """Emit the outputs: all x as what quantizes and dequantizes it makes of it, in float32."""
    x, q = n.input(0), stored.quantization if stored is not None else None
    if stored is None or q is None:
        raise Reject(Reason.QUANTIZATION, f"{x.name} has no quantization parameters")
    require_scale(stored)
    _require_one_scale(n, stored)
    detail = f"{stored.name} is quantized to {stored.dtype.name}, which takes float32 to compute"
    n.require(x.dtype is DType.FLOAT and not n.target.relaxed, Reason.DTYPE, detail)
    (scale,), (zero,), limits = q.scale, q.zero_point, np.iinfo(stored.dtype.numpy)
    ends = (n.scalar(end - zero, x) for end in (limits.min, limits.max))
    share = yield from n.compute(spec.DIV, x, n.scalar(scale, x))
    half = yield from n.compute(spec.ADD, share, n.scalar(0.5, x))
    whole, inside = (yield from n.compute(spec.FLOOR, half)), n.temp(x)
    yield from clip(n, whole, (next(ends), next(ends)), inside)
    first, *others = n.outputs
    yield apply(spec.MUL, inside, n.scalar(scale, x), out=first)
    for other in others:
        yield from n.reshape(first, other)


@op("DequantizeLinear", since=10)
def dequantize(n: Node) -> Iterator[Call]:
    """Dequantized with one constant scale, or one for each slice along `axis`.

    Constants may have one for each block, up to `max_dequantized_bytes`, and numbers of 4 bits.
    """
    x, y = n.input(0), n.output()
    real = dequantized_in_blocks(n.node, y.dtype)
    if real is not None:
        require_bytes(real, n.target.max_dequantized_bytes)
        yield from n.reshape(real, y)
        return
    _require_quantization(n, x)
    if x.dtype is DType.INT32:
        yield from _integers(n, x, y)
        return
    if x.dtype is not DType.INT8 or any(x.quantization.zero_point if x.quantization else ()):
        _require_one_scale(n, x)
    yield apply(spec.DEQUANTIZE, x, out=y)


def _left(n: Node) -> Iterator[Call]:
    """Raise Reject with the reason why a QLinear operator was not rewritten as a QDQ group."""
    detail = "channels_last is 1; ONNX's own operators have channels first"
    n.require(n.integer("channels_last", 0) == 0, Reason.ATTRIBUTE, detail)
    for index, value in enumerate(n.node.inputs):
        if value is not None and (value.dtype is DType.FLOAT or value.rank == 0):
            n.constant(index)
    raise Reject(
        Reason.QUANTIZATION,
        f"{n.output().name} or an input has scales that differ, or two ways of being quantized; "
        "use one scale a tensor",
    )
    yield  # a generator, as every lowering


def _qlinear(op_type: str, domain: str = MICROSOFT_DOMAIN, since: int = 1) -> Operator:
    plain = op_type.removeprefix("Q").removeprefix("Linear")
    doc = f"{plain} of tensors with constant scales, as the QDQ group of {plain} that replaces it."
    return Operator(op_type, domain, since, _left, doc, plain)


QUANTIZED = (
    *(_qlinear(name) for name in ("QLinearConv", "QGemm", "QLinearAdd", "QLinearMul")),
    *(_qlinear(name) for name in ("QLinearWhere", "QLinearConcat", "QLinearSoftmax")),
    *(_qlinear(name) for name in ("QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool")),
    _qlinear("QLinearGlobalAveragePool"),
    *(_qlinear(name, "", 10) for name in ("QLinearConv", "QLinearMatMul")),
    Operator("QuantizeLinear", MICROSOFT_DOMAIN, 1, quantize.lower, quantize.doc),
    Operator("DequantizeLinear", MICROSOFT_DOMAIN, 1, dequantize.lower, dequantize.doc),
)


def _integers(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit the dequantization of INT32: CAST, then MUL by the scale.

    Float32 keeps 24 bits of the 32, as in ONNX.
    """
    _require_one_scale(n, x)
    q = x.quantization
    centred = q is not None and not any(q.zero_point)
    n.require(centred, Reason.QUANTIZATION, f"{x.name} is INT32; its zero point must be 0")
    real = yield from n.compute(spec.CAST, x, dtype=y.dtype)
    yield apply(spec.MUL, real, n.scalar(q.scale[0] if q else 1.0, y), out=y)


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
    detail = f"{value.name} has conflicting or no quantization parameters; use one scale per tensor"
    n.require(value.quantization is not None, Reason.QUANTIZATION, detail)
    require_scale(value)


def _require_one_scale(n: Node, value: Value) -> None:
    q = value.quantization
    n.require(
        q is not None and q.per_tensor,
        Reason.QUANTIZATION,
        f"{value.name} has per-channel scales; only INT8 weights with zero point 0 may have these",
    )


_STEPS = 255
"""Quantization steps between the least and the greatest 8-bit number."""


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize(n: Node) -> Iterator[Call]:
    """To 8 bits over the range that the numbers and 0 have; ties may round to the other side."""
    x, (y, scale, zero_point) = n.input(0), n.outputs
    zero = n.scalar(0, x)
    low, high = n.temp(x, (1,)), n.temp(x, (1,))
    yield from reduce(n, spec.REDUCE_MIN, x, range(x.rank), low, keep=False)
    yield from reduce(n, spec.REDUCE_MAX, x, range(x.rank), high, keep=False)
    least = yield from n.compute(spec.MINIMUM, low, zero)
    greatest = yield from n.compute(spec.MAXIMUM, high, zero)
    size = yield from n.compute(spec.SUB, greatest, least)
    step = yield from n.compute(spec.DIV, size, n.scalar(_STEPS, x))
    empty = yield from n.compute(spec.EQUAL, size, zero, dtype=DType.BOOL)
    yield apply(spec.SELECT, empty, n.scalar(1, x), step, out=scale)
    opposite = yield from n.compute(spec.SUB, zero, least, shape=(1,))
    below = yield from n.compute(spec.DIV, opposite, scale)
    yield apply(spec.QUANTIZE, below, out=zero_point)
    whole = yield from n.compute(spec.DEQUANTIZE, zero_point, dtype=x.dtype)
    steps = yield from n.compute(spec.DIV, x, scale)
    moved = yield from n.compute(spec.ADD, steps, whole, shape=x.shape)
    yield apply(spec.QUANTIZE, moved, out=y)


@op("MatMulInteger", since=10, keeps=True)
def matmul_integer(n: Node) -> Iterator[Call]:
    """Products of matrices of 8 bits, each less its zero point: INT32."""
    a, b, y = n.input(0), n.input(1), n.output()
    detail = f"{a.name} or {b.name} is a vector; use a matrix with one row or column"
    n.require(min(a.rank, b.rank) > 1, Reason.RANK, detail)
    lhs = yield from _centred(n, a, 2, axis=a.rank - 2)
    rhs = yield from _centred(n, b, 3, axis=b.rank - 1)
    total = n.temp(y, dtype=DType.FLOAT)
    yield from product(n, lhs, rhs, total)
    yield apply(spec.CAST, total, out=y)


@op("ConvInteger", since=10, keeps=True)
def conv_integer(n: Node) -> Iterator[Call]:
    """A convolution of 8 bits, image and filter less their zero points: INT32."""
    x, w, y = n.input(0), n.input(1), n.output()
    image = yield from _centred(n, x, 2, axis=None)
    taps = yield from _centred(n, w, 3, axis=0)
    total = n.temp(y, dtype=DType.FLOAT)
    inner = replace(n.node, inputs=(image, taps), outputs=(total,))
    yield from convolve(replace(n, node=inner), total)
    yield apply(spec.CAST, total, out=y)


def _centred(n: Node, x: Value, index: int, axis: int | None) -> Computed:
    """Return the stored numbers of `x` minus the zero point in input `index`, as floats.

    axis   the axis of `x` that a vector of zero points is along; None: one zero point only
    """
    n.require(
        x.dtype in EIGHT_BIT and x.quantization is not None,
        Reason.QUANTIZATION,
        f"{x.name} is read both as stored integers and as dequantized numbers; use one of the two",
    )
    numbers = yield from _as_floats(n, x, later=True)  # host-cpu takes the operator, with bytes
    if not n.has(index):
        return numbers
    zero = n.input(index)
    shape = _zero_point_shape(x, zero, axis)
    less = yield from n.reshaped((yield from _as_floats(n, zero)), shape)
    if numbers.constant is None or less.constant is None:
        return (yield from n.compute(spec.SUB, numbers, less, shape=x.shape))
    minus = less.constant.array.astype(np.float32)
    centred = numbers.constant.map(x.shape, lambda a: a - minus)
    return replace(numbers, name=f"{x.name} centred", constant=centred)


def _zero_point_shape(x: Value, zero: Value, axis: int | None) -> tuple[int, ...]:
    """Return the shape in which the zero points of `x` broadcast to it; reject other sizes."""
    if zero.size == 1:
        return (1,)
    allowed = "one number"
    if axis is not None:
        if zero.shape == (x.shape[axis],):
            return (*zero.shape, *[1] * (x.rank - 1 - axis))
        pairs = zip(zero.shape, x.shape, strict=False)
        if zero.rank == x.rank and all(size in (1, to) for size, to in pairs):
            return zero.shape
        allowed += f" or {x.shape[axis]}"
    raise Reject(Reason.SHAPE, f"{zero.name} is {list(zero.shape)}; {x.name} takes {allowed}")


def _as_floats(n: Node, x: Value, *, later: bool = False) -> Computed:
    if x.constant is not None:
        return dequantized(x, later=later)
    return (yield from n.compute(spec.DEQUANTIZE, x, dtype=DType.FLOAT))
