"""Kernels of element-wise unary operations."""

from __future__ import annotations

from math import inf

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import pointwise, stored
from ep_nnapi.nnapi.host.kernels.fused_activation import clip
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8S


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
)
