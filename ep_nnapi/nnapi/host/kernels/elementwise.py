"""Kernels of element-wise operations: activations, arithmetic, comparisons, conversions."""

from __future__ import annotations

from math import inf

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.host import codec
from ep_nnapi.nnapi.host.codec import decode
from ep_nnapi.nnapi.host.kernel import Types, elementwise, pointwise, stored
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8C, Q8S, Q8Y, Q16, Q16Y

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


def absolute(input: Array, *, out: Array) -> None:
    """Absolute value. Source: NDK ANEURALNETWORKS_ABS."""
    np.abs(input, out=out)


def elu(input: Array, alpha: float, *, out: Array) -> None:
    """ELU: x, or alpha * (exp(x) - 1) where negative. Source: NDK ANEURALNETWORKS_ELU."""
    np.minimum(input, 0, out=out)
    np.expm1(out, out=out)
    out *= out.dtype.type(alpha)
    np.copyto(out, input, where=input >= 0)


def exp(input: Array, *, out: Array) -> None:
    """Exponential function. Source: NDK ANEURALNETWORKS_EXP."""
    np.exp(input, out=out)


def floor(input: Array, *, out: Array) -> None:
    """Floor. Source: NDK ANEURALNETWORKS_FLOOR."""
    np.floor(input, out=out)


def hard_swish(input: Array, *, out: Array) -> None:
    """Hard swish: x * clip(x + 3, 0, 6) / 6. Source: NDK ANEURALNETWORKS_HARD_SWISH."""
    np.add(input, 3, out=out)
    clip(out, 0, 6, out)
    out *= out.dtype.type(1 / 6)
    out *= input


def log(input: Array, *, out: Array) -> None:
    """Natural logarithm. Source: NDK ANEURALNETWORKS_LOG."""
    np.log(input, out=out)


def logical_not(input: Array, *, out: Array) -> None:
    """Logical NOT. Source: NDK ANEURALNETWORKS_LOGICAL_NOT."""
    np.logical_not(input, out=out)


def logistic(input: Array, *, out: Array) -> None:
    """Logistic sigmoid: 1 / (1 + exp(-x)). Source: NDK ANEURALNETWORKS_LOGISTIC."""
    np.subtract(0, input, out=out)  # np.negative of numpy 2.4 misreads strided arrays
    np.exp(out, out=out)
    out += 1
    np.reciprocal(out, out=out)


def neg(input: Array, *, out: Array) -> None:
    """Negation. Source: NDK ANEURALNETWORKS_NEG."""
    np.negative(input, out=out)


def relu(input: Array, *, out: Array) -> None:
    """ReLU: max(0, x). Source: NDK ANEURALNETWORKS_RELU."""
    clip(input, 0, inf, out)


def relu1(input: Array, *, out: Array) -> None:
    """Clips to [-1, 1]. Source: NDK ANEURALNETWORKS_RELU1."""
    clip(input, -1, 1, out)


def relu6(input: Array, *, out: Array) -> None:
    """Clips to [0, 6]. Source: NDK ANEURALNETWORKS_RELU6."""
    clip(input, 0, 6, out)


def rsqrt(input: Array, *, out: Array) -> None:
    """Reciprocal square root. Source: NDK ANEURALNETWORKS_RSQRT."""
    np.sqrt(input, out=out)
    np.reciprocal(out, out=out)


def sin(input: Array, *, out: Array) -> None:
    """Sine. Source: NDK ANEURALNETWORKS_SIN."""
    np.sin(input, out=out)


def sqrt(input: Array, *, out: Array) -> None:
    """Square root. Source: NDK ANEURALNETWORKS_SQRT."""
    np.sqrt(input, out=out)


def tanh(input: Array, *, out: Array) -> None:
    """Hyperbolic tangent. Source: NDK ANEURALNETWORKS_TANH."""
    np.tanh(input, out=out)


def add(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Sum with fused activation. Source: NDK ANEURALNETWORKS_ADD."""
    np.add(input1, input2, out=out)
    activate(out, activation)


def sub(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Difference with fused activation. Source: NDK ANEURALNETWORKS_SUB."""
    np.subtract(input1, input2, out=out)
    activate(out, activation)


def mul(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Product with fused activation. Source: NDK ANEURALNETWORKS_MUL."""
    np.multiply(input1, input2, out=out)
    activate(out, activation)


def div(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Quotient with fused activation. Source: NDK ANEURALNETWORKS_DIV."""
    np.divide(input1, input2, out=out)
    activate(out, activation)


def div_integers(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Quotient rounded towards minus infinity. Source: NDK ANEURALNETWORKS_DIV."""
    np.floor_divide(input1, input2, out=out)
    activate(out, activation)


def power(base: Array, exponent: Array, *, out: Array) -> None:
    """Power. Source: NDK ANEURALNETWORKS_POW."""
    np.power(base, exponent, out=out)


def maximum(input1: Array, input2: Array, *, out: Array) -> None:
    """Element-wise maximum. Source: NDK ANEURALNETWORKS_MAXIMUM."""
    np.maximum(input1, input2, out=out)


def minimum(input1: Array, input2: Array, *, out: Array) -> None:
    """Element-wise minimum. Source: NDK ANEURALNETWORKS_MINIMUM."""
    np.minimum(input1, input2, out=out)


def prelu(input: Array, alpha: Array, *, out: Array) -> None:
    """Parametric ReLU: x, or alpha * x where negative. Source: NDK ANEURALNETWORKS_PRELU."""
    np.multiply(input, alpha, out=out)
    np.copyto(out, input, where=input >= 0)


def equal(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 == input2, per element. Source: NDK ANEURALNETWORKS_EQUAL."""
    np.equal(input1, input2, out=out)


def not_equal(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 != input2, per element. Source: NDK ANEURALNETWORKS_NOT_EQUAL."""
    np.not_equal(input1, input2, out=out)


def less(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 < input2, per element. Source: NDK ANEURALNETWORKS_LESS."""
    np.less(input1, input2, out=out)


def less_equal(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 <= input2, per element. Source: NDK ANEURALNETWORKS_LESS_EQUAL."""
    np.less_equal(input1, input2, out=out)


def greater(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 > input2, per element. Source: NDK ANEURALNETWORKS_GREATER."""
    np.greater(input1, input2, out=out)


def greater_equal(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 >= input2, per element. Source: NDK ANEURALNETWORKS_GREATER_EQUAL."""
    np.greater_equal(input1, input2, out=out)


def logical_and(input1: Array, input2: Array, *, out: Array) -> None:
    """Logical AND. Source: NDK ANEURALNETWORKS_LOGICAL_AND."""
    np.logical_and(input1, input2, out=out)


def logical_or(input1: Array, input2: Array, *, out: Array) -> None:
    """Logical OR. Source: NDK ANEURALNETWORKS_LOGICAL_OR."""
    np.logical_or(input1, input2, out=out)


def select(condition: Array, input1: Array, input2: Array, *, out: Array) -> None:
    """Selects input1 where true, else input2. Source: NDK ANEURALNETWORKS_SELECT."""
    np.copyto(out, input2)
    np.copyto(out, input1, where=condition)


def cast(input: Array, *, out: Array) -> None:
    """Casts the stored numbers, truncating fractions; unsigned 8-bit results saturate.

    Source: NDK ANEURALNETWORKS_CAST.
    """
    numbers = np.clip(input, 0, 255) if out.dtype == np.uint8 else input
    np.copyto(out, numbers, casting="unsafe")


def quantize(input: Array, *, types: Types, out: Array) -> None:
    """Quantizes: round(x / scale) + zero point, saturated. Source: NDK ANEURALNETWORKS_QUANTIZE."""
    codec.quantize(decode(input, types["input"]), types["output"], out)


def dequantize(input: Array, *, types: Types, out: Array) -> None:
    """Dequantizes: scale * (x - zero point). Source: NDK ANEURALNETWORKS_DEQUANTIZE."""
    np.copyto(out, decode(input, types["input"]), casting="same_kind")


_DATA = (F32, F16, Q8, Q8S)
KERNELS = (
    pointwise(spec.ABS, absolute, F32, F16),
    stored(spec.ABS, absolute, I32),
    pointwise(spec.ELU, elu, F32, F16),
    pointwise(spec.EXP, exp, F32, F16),
    pointwise(spec.FLOOR, floor, F32, F16),
    pointwise(spec.HARD_SWISH, hard_swish, *_DATA),
    pointwise(spec.LOG, log, F32, F16),
    stored(spec.LOGICAL_NOT, logical_not, BOOL8),
    pointwise(spec.LOGISTIC, logistic, *_DATA),
    pointwise(spec.NEG, neg, F32, F16),
    stored(spec.NEG, neg, I32),
    pointwise(spec.RELU, relu, *_DATA),
    pointwise(spec.RELU1, relu1, *_DATA),
    pointwise(spec.RELU6, relu6, *_DATA),
    pointwise(spec.RSQRT, rsqrt, *_DATA),
    pointwise(spec.SIN, sin, F32, F16),
    pointwise(spec.SQRT, sqrt, F32, F16),
    pointwise(spec.TANH, tanh, *_DATA),
    elementwise(spec.ADD, add, *_DATA),
    stored(spec.ADD, add, I32),
    elementwise(spec.SUB, sub, *_DATA),
    stored(spec.SUB, sub, I32),
    elementwise(spec.MUL, mul, *_DATA),
    stored(spec.MUL, mul, I32),
    elementwise(spec.DIV, div, F32, F16, Q8S),
    stored(spec.DIV, div_integers, I32),
    elementwise(spec.POW, power, F32, F16),
    elementwise(spec.MAXIMUM, maximum, *_DATA),
    stored(spec.MAXIMUM, maximum, I32),
    elementwise(spec.MINIMUM, minimum, *_DATA),
    stored(spec.MINIMUM, minimum, I32),
    elementwise(spec.PRELU, prelu, *_DATA),
    elementwise(spec.EQUAL, equal, *_DATA),
    stored(spec.EQUAL, equal, I32, BOOL8),
    elementwise(spec.NOT_EQUAL, not_equal, *_DATA),
    stored(spec.NOT_EQUAL, not_equal, I32, BOOL8),
    elementwise(spec.LESS, less, *_DATA),
    stored(spec.LESS, less, I32, BOOL8),
    elementwise(spec.LESS_EQUAL, less_equal, *_DATA),
    stored(spec.LESS_EQUAL, less_equal, I32, BOOL8),
    elementwise(spec.GREATER, greater, *_DATA),
    stored(spec.GREATER, greater, I32, BOOL8),
    elementwise(spec.GREATER_EQUAL, greater_equal, *_DATA),
    stored(spec.GREATER_EQUAL, greater_equal, I32, BOOL8),
    stored(spec.LOGICAL_AND, logical_and, BOOL8),
    stored(spec.LOGICAL_OR, logical_or, BOOL8),
    elementwise(spec.SELECT, select, *_DATA),
    stored(spec.SELECT, select, I32),
    stored(spec.CAST, cast, BOOL8, F32, F16, I32, Q8, Q8S, Q8Y, Q16, Q16Y),
    stored(spec.QUANTIZE, quantize, F32, F16),
    stored(spec.DEQUANTIZE, dequantize, Q8, Q8S, Q8Y, Q8C),
)
