"""Quantized values in the form that NNAPI operations take.

Conversion between UINT8 and INT8, dequantized constants, biases, and checks of scales.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Recipe, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.operators.lib.node import zeros

EIGHT_BIT = (DType.UINT8, DType.INT8)
_SIGN = 0x80
"""The bit in which the INT8 and UINT8 encodings of the same real number differ."""
_MIN_SCALE = float(np.finfo(np.float32).tiny)
"""The least normal float32; dividing by a smaller scale may overflow to infinity."""
_SCALE_TOLERANCE = 1e-6
"""Relative tolerance of a bias's scale. Source: Android's check of quantized products."""


def is_8bit(value: Value) -> bool:
    """True if the value is quantized to 8 bits per tensor."""
    q = value.quantization
    return q is not None and q.per_tensor and value.dtype in EIGHT_BIT


def as_type(value: Value, dtype: DType) -> Value:
    """Return an 8-bit value as `dtype`, UINT8 or INT8: the same real numbers, sign bit flipped."""
    q = value.quantization
    if value.dtype is dtype or q is None or value.dtype not in EIGHT_BIT or dtype not in EIGHT_BIT:
        return value
    by = _SIGN if dtype is DType.UINT8 else -_SIGN
    moved = replace(q, zero_point=tuple(z + by for z in q.zero_point))
    constant = value.constant and _flipped(value.constant, dtype)
    return replace(value, dtype=dtype, quantization=moved, constant=constant)


def _flipped(old: Constant, dtype: DType) -> Constant:
    sign, to = np.uint8(_SIGN), dtype.numpy
    flipped = old.map(old.shape, lambda a: (a.astype(np.uint8, copy=False) ^ sign).view(to))
    return replace(flipped, dtype=dtype)


def dequantized(value: Value, dtype: DType = DType.FLOAT, *, later: bool = False) -> Value:
    """Return a quantized constant dequantized to `dtype`, computed when read.

    later   True if models, too, compute it only when it is read: most devices do not need it
    """
    q, stored = value.quantization, value.constant
    if q is None or stored is None:
        return value
    to = dtype.numpy
    recipe = Recipe((stored,), lambda arrays: _dequantized(arrays[0], q, to))
    numbers = Constant.made(stored.shape, dtype, recipe)
    if not later:
        numbers = Constant(stored.shape, dtype, numbers.load)
    return Value(f"{value.name} dequantized", dtype, value.dims, constant=numbers)


_EXACT_BYTES = 2
"""Bytes of integers that float32 has exactly, and their differences."""


def _dequantized(stored: Array, q: Quantization, to: np.dtype[np.generic]) -> Array:
    shape: list[int] = [1] * stored.ndim
    if q.axis is not None:
        shape[q.axis] = -1
    scale = np.array(q.scale, np.float32).reshape(shape)
    zero = np.array(q.zero_point, np.int64).reshape(shape)
    if stored.itemsize <= _EXACT_BYTES:
        numbers = stored.astype(np.float32)
        numbers -= zero.astype(np.float32)
    else:
        numbers = (stored.astype(np.int64) - zero).astype(np.float32)
    numbers *= scale
    return numbers.astype(to, copy=False)


def dequantized_in_blocks(node: GraphNode, dtype: DType) -> Value | None:
    """Return what a DequantizeLinear with a scale for each block makes of constants, when read.

    None for other nodes, and where an input is not constant or not a type of numpy.
    """
    given = [v for v in node.inputs if v is not None]
    block, axis = (node.attributes.get(k, to) for k, to in (("block_size", 0), ("axis", 1)))
    parts = [v.constant for v in given if v.constant is not None and v.dtype.readable]
    if not isinstance(block, int) or not isinstance(axis, int) or block < 1:
        return None
    x, scales = given[0], given[1].dims or ()
    wide = len(scales) == x.rank and -x.rank <= axis < x.rank
    if len(parts) < len(given) or not wide or scales[axis] != -(-x.shape[axis] // block):
        return None

    def spread(numbers: Array) -> Array:
        return np.repeat(numbers, block, axis).take(range(x.shape[axis]), axis)

    def real(arrays: Sequence[Array]) -> Array:
        numbers = arrays[0].astype(np.float32)
        for zero in arrays[2:]:
            numbers -= spread(zero.astype(np.float32))
        numbers *= spread(arrays[1].astype(np.float32))
        return numbers.astype(dtype.numpy)

    made = Constant.made(x.shape, dtype, Recipe(tuple(parts), real))
    return Value(f"{x.name} dequantized", dtype, x.dims, constant=made)


def require_bytes(weights: Value, most: int) -> None:
    """Raise Reject(SIZE) for weights of more bytes, dequantized, than `max_dequantized_bytes`."""
    used = weights.size * weights.dtype.numpy.itemsize
    if used > most:
        detail = f"{weights.name} has {used} bytes; max_dequantized_bytes allows {most}"
        raise Reject(Reason.SIZE, detail)


def requantized(x: Value, y: Value) -> Call:
    """Return the call that requantizes `x` to `y`, of the same 8-bit type: ADD of zero.

    It rounds only once.
    """
    q = x.quantization
    zero_point = q.zero_point[0] if q is not None else 0
    stored = Constant.of(np.array([zero_point], x.dtype.numpy))
    return apply(spec.ADD, x, Value("zero", x.dtype, (1,), q, stored), out=y)


def require_storable(values: Iterable[Value]) -> None:
    """Raise Reject for a quantized tensor that NNAPI cannot represent.

    Constants are not checked, as they may be dequantized.
    """
    for value in values:
        q = value.quantization
        if q is None or value.constant is not None:
            continue
        require_8bit(value)
        require_scale(value)
        if not q.per_tensor:
            raise Reject(
                Reason.QUANTIZATION,
                f"{value.name} has per-channel scales, which only constant weights may have; "
                "quantize activations with one scale",
            )


def require_8bit(value: Value) -> None:
    """Raise Reject(DTYPE) unless the value is stored as 8 bits, or as INT32 like a bias."""
    if value.dtype not in (*EIGHT_BIT, DType.INT32):
        raise Reject(
            Reason.DTYPE,
            f"{value.name} is quantized to {value.dtype.name}; NNAPI computes with 8 bits: "
            "quantize to UINT8 or INT8",
        )


def require_scale(value: Value) -> None:
    """Raise Reject(QUANTIZATION) unless every scale is finite, positive and normal.

    Kernels divide by scales.
    """
    scales = value.quantization.scale if value.quantization is not None else ()
    strange = [s for s in scales if not _MIN_SCALE <= s < math.inf]
    if strange:
        why = "; mask with a finite number, not an infinite one" if strange[0] == math.inf else ""
        raise Reject(
            Reason.QUANTIZATION,
            f"{value.name} has the scale {strange[0]:g}; "
            f"NNAPI's are positive and normal, at least {_MIN_SCALE:.2g}{why}",
        )


def exact_constant(number: float, like: Value) -> Value:
    """Return one number as an 8-bit constant of `like`'s type, without rounding.

    Its scale is |number|; a negative number is stored as its zero point minus one.
    """
    negative = int(number < 0)
    q = Quantization((float(np.float32(abs(number))) or 1.0,), (negative,))
    stored = np.array([int(number > 0)], like.dtype.numpy)
    return Value(f"quantized {number:g}", like.dtype, (1,), q, Constant.of(stored))


def bias(x: Value, weights: Value, given: Value | None, units: int) -> Value:
    """Return the bias [units] for products of `x` and `weights`; zeros if none is `given`.

    If quantized, it is INT32 with scale = scale of `x` * scale of `weights`, or 0 if these are per
    channel. A float bias, or one with another scale, is requantized to that, an error of at most
    half a step. The weights of a transposed convolution have the scales of one group, which are
    repeated for each group. Raises Reject, also for a bias of another shape.
    Source: NDK ANEURALNETWORKS_CONV_2D, ANEURALNETWORKS_FULLY_CONNECTED, operand bias.
    """
    if given is not None and given.shape != (units,):
        detail = f"{given.name} is {list(given.shape)}; the bias of {weights.name} is [{units}]"
        raise Reject(Reason.SHAPE, detail)
    q, w = x.quantization, weights.quantization
    if q is None or w is None:
        return given or Value("no bias", x.dtype, (units,), constant=zeros(units, x.dtype))
    wanted = np.array(w.scale, np.float32) * np.float32(q.scale[0])
    wanted = np.tile(wanted, units // len(wanted)) if len(wanted) > 1 else wanted
    own = Quantization((float(wanted[0]) if w.per_tensor else 0.0,), (0,))
    if given is None:
        return Value("no bias", DType.INT32, (units,), own, zeros(units, DType.INT32))
    stated = given.quantization
    if stated is not None and _fits(stated, wanted):
        return replace(given, quantization=own)
    if given.constant is None:
        raise Reject(
            Reason.QUANTIZATION,
            f"{given.name} is not constant; NNAPI takes a bias in steps of {wanted[0]:g}, "
            f"the product of the scales of {x.name} and {weights.name}",
        )
    real = dequantized(given).constant or given.constant
    steps = np.rint(real.array.astype(np.float64) / wanted.astype(np.float64))
    if np.any(np.abs(steps) > np.iinfo(np.int32).max):
        raise Reject(
            Reason.QUANTIZATION,
            f"{given.name} has more than 2^31 steps of {wanted.min():g}, the product of the "
            f"scales of {x.name} and {weights.name}; use greater scales",
        )
    stored = Constant.of(steps.astype(np.int32))
    return Value(f"{given.name} of {x.name}", DType.INT32, given.dims, own, stored)


def _fits(stated: Quantization, wanted: Array) -> bool:
    return not any(stated.zero_point) and bool(
        np.all(np.abs(np.array(stated.scale) - wanted) <= _SCALE_TOLERANCE * wanted)
    )


def nearest_constant(number: float, like: Value) -> Value:
    """Return the constant with the 8-bit quantization of `like` nearest to `number`."""
    q = like.quantization
    if q is None:
        raise Reject(Reason.QUANTIZATION, f"{like.name} is not quantized")
    limits = np.iinfo(like.dtype.numpy)
    stored = np.rint(np.float32(number) / np.float32(q.scale[0])) + q.zero_point[0]
    array = np.array([np.clip(stored, limits.min, limits.max)]).astype(like.dtype.numpy)
    return Value(f"bound {number:g}", like.dtype, (1,), q, Constant.of(array))


def value_range(value: Value) -> tuple[float, float]:
    """Return the least and the greatest real number that an 8-bit value can represent."""
    q = value.quantization
    if q is None:
        raise Reject(Reason.QUANTIZATION, f"{value.name} is not quantized")
    limits = np.iinfo(value.dtype.numpy)
    least, greatest = ((int(s) - q.zero_point[0]) * q.scale[0] for s in (limits.min, limits.max))
    return least, greatest
