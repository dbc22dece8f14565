"""Kernels of element-wise operations: activations, arithmetic, comparisons, conversions."""

from __future__ import annotations

from math import inf

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.host import codec
from ep_nnapi.nnapi.host.codec import decode
from ep_nnapi.nnapi.host.kernel import KernelFunction, Types, elementwise, pointwise, stored
from ep_nnapi.nnapi.shapes.operands import ShapeError
from ep_nnapi.nnapi.spec import BOOL8, DATA, F16, F32, I32, Q8, Q8C, Q8S, Q8Y, Q16, Q16Y

RANGES: dict[int, tuple[float, float]] = {
    FuseCode.NONE: (-inf, inf),
    FuseCode.RELU: (0.0, inf),
    FuseCode.RELU1: (-1.0, 1.0),
    FuseCode.RELU6: (0.0, 6.0),
}
"""Least and greatest result of each activation. Source: NDK FuseCode."""


def activation_range(activation: int) -> tuple[float, float]:
    """Returns the least and greatest result of an activation; ShapeError for an unknown one."""
    if activation not in RANGES:
        raise ShapeError(f"activation {activation} is none of 0 to 3")
    return RANGES[activation]


def activate(out: Array, activation: int) -> None:
    """Applies the activation in place."""
    if activation != FuseCode.NONE:
        clip(out, *activation_range(activation), out)


def clip(input: Array, low: float, high: float, out: Array) -> None:
    """Clips to a range that may be infinite.

    Uses the clip method, which is fastest: numpy's maximum with one number takes twice as long.
    """
    if input.dtype.kind == "i":
        info = np.iinfo(input.dtype)
        low, high = int(max(info.min, low)), int(min(info.max, high))
    input.clip(low, high, out=out)


def _unary(*ufuncs: np.ufunc) -> KernelFunction:
    """A kernel of numpy's functions of `input`, one after the other."""

    def compute(input: Array, *, out: Array) -> None:
        ufuncs[0](input, out=out)
        for ufunc in ufuncs[1:]:
            ufunc(out, out=out)

    return compute


def _clipped(activation: int) -> KernelFunction:
    """A kernel that limits `input` to the range of a fused activation."""

    def compute(input: Array, *, out: Array) -> None:
        clip(input, *activation_range(activation), out)

    return compute


def _binary(ufunc: np.ufunc) -> KernelFunction:
    """A kernel of numpy's function of `input1` and `input2`."""

    def compute(input1: Array, input2: Array, *, out: Array) -> None:
        ufunc(input1, input2, out=out)

    return compute


def _arithmetic(ufunc: np.ufunc) -> KernelFunction:
    """The same with a fused activation."""

    def compute(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
        ufunc(input1, input2, out=out)
        activate(out, activation)

    return compute


def elu(input: Array, alpha: float, *, out: Array) -> None:
    """ELU: x, or alpha * (exp(x) - 1) where negative."""
    np.minimum(input, 0, out=out)
    np.expm1(out, out=out)
    out *= out.dtype.type(alpha)
    np.copyto(out, input, where=input >= 0)


def hard_swish(input: Array, *, out: Array) -> None:
    """Hard swish: x * clip(x + 3, 0, 6) / 6."""
    np.add(input, 3, out=out)
    clip(out, 0, 6, out)
    out *= out.dtype.type(1 / 6)
    out *= input


def logistic(input: Array, *, out: Array) -> None:
    """Logistic sigmoid: 1 / (1 + exp(-x))."""
    np.subtract(0, input, out=out)  # np.negative of numpy 2.4 misreads strided arrays
    np.exp(out, out=out)
    out += 1
    np.reciprocal(out, out=out)


def power(base: Array, exponent: Array, *, out: Array) -> None:
    """Power. Source: NDK ANEURALNETWORKS_POW."""
    np.power(base, exponent, out=out)


def prelu(input: Array, alpha: Array, *, out: Array) -> None:
    """Parametric ReLU: x, or alpha * x where negative."""
    np.multiply(input, alpha, out=out)
    np.copyto(out, input, where=input >= 0)


def select(condition: Array, input1: Array, input2: Array, *, out: Array) -> None:
    """Selects input1 where true, else input2."""
    np.copyto(out, input2)
    np.copyto(out, input1, where=condition)


def cast(input: Array, *, out: Array) -> None:
    """Casts the stored numbers, truncating fractions; unsigned 8-bit results saturate."""
    numbers = np.clip(input, 0, 255) if out.dtype == np.uint8 else input
    np.copyto(out, numbers, casting="unsafe")


def quantize(input: Array, *, types: Types, out: Array) -> None:
    """Quantizes: round(x / scale) + zero point, saturated."""
    codec.quantize(decode(input, types["input"]), types["output"], out)


def dequantize(input: Array, *, types: Types, out: Array) -> None:
    """Dequantizes: scale * (x - zero point)."""
    np.copyto(out, decode(input, types["input"]), casting="same_kind")


tanh = _unary(np.tanh)
_FLOATS = (F32, F16)
_FUNCTIONS = {
    spec.ABS: np.abs,
    spec.EXP: np.exp,
    spec.FLOOR: np.floor,
    spec.LOG: np.log,
    spec.NEG: np.negative,
    spec.SIN: np.sin,
    spec.SQRT: np.sqrt,
}
_CLIPS = {spec.RELU: FuseCode.RELU, spec.RELU1: FuseCode.RELU1, spec.RELU6: FuseCode.RELU6}
_ARITHMETIC = {spec.ADD: np.add, spec.SUB: np.subtract, spec.MUL: np.multiply}
_EXTREMES = {spec.MAXIMUM: np.maximum, spec.MINIMUM: np.minimum}
_COMPARISONS = {
    spec.EQUAL: np.equal,
    spec.NOT_EQUAL: np.not_equal,
    spec.LESS: np.less,
    spec.LESS_EQUAL: np.less_equal,
    spec.GREATER: np.greater,
    spec.GREATER_EQUAL: np.greater_equal,
}
KERNELS = (
    *(pointwise(each, _unary(ufunc), *_FLOATS) for each, ufunc in _FUNCTIONS.items()),
    *(stored(each, _unary(_FUNCTIONS[each]), I32) for each in (spec.ABS, spec.NEG)),
    *(pointwise(each, _clipped(code), *DATA) for each, code in _CLIPS.items()),
    pointwise(spec.ELU, elu, *_FLOATS),
    pointwise(spec.HARD_SWISH, hard_swish, *DATA),
    stored(spec.LOGICAL_NOT, _unary(np.logical_not), BOOL8),
    pointwise(spec.LOGISTIC, logistic, *DATA),
    pointwise(spec.RSQRT, _unary(np.sqrt, np.reciprocal), *DATA),
    pointwise(spec.TANH, tanh, *DATA),
    *(elementwise(each, _arithmetic(ufunc), *DATA) for each, ufunc in _ARITHMETIC.items()),
    *(stored(each, _arithmetic(ufunc), I32) for each, ufunc in _ARITHMETIC.items()),
    elementwise(spec.DIV, _arithmetic(np.divide), F32, F16, Q8S),
    stored(spec.DIV, _arithmetic(np.floor_divide), I32),  # towards minus infinity
    elementwise(spec.POW, power, *_FLOATS),
    *(elementwise(each, _binary(ufunc), *DATA) for each, ufunc in _EXTREMES.items()),
    *(stored(each, _binary(ufunc), I32) for each, ufunc in _EXTREMES.items()),
    elementwise(spec.PRELU, prelu, *DATA),
    *(elementwise(each, _binary(ufunc), *DATA) for each, ufunc in _COMPARISONS.items()),
    *(stored(each, _binary(ufunc), I32, BOOL8) for each, ufunc in _COMPARISONS.items()),
    stored(spec.LOGICAL_AND, _binary(np.logical_and), BOOL8),
    stored(spec.LOGICAL_OR, _binary(np.logical_or), BOOL8),
    elementwise(spec.SELECT, select, *DATA),
    stored(spec.SELECT, select, I32),
    stored(spec.CAST, cast, BOOL8, F32, F16, I32, Q8, Q8S, Q8Y, Q16, Q16Y),
    stored(spec.QUANTIZE, quantize, *_FLOATS),
    stored(spec.DEQUANTIZE, dequantize, Q8, Q8S, Q8Y, Q8C),
)
