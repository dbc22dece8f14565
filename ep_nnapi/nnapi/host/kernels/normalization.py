"""Normalizations along an axis."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import real
from ep_nnapi.nnapi.shapes.operands import require
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.value import Array


def softmax(input: Array, beta: float, axis: int = -1, *, out: Array) -> None:
    """exp(beta * x) divided by its sum along `axis`. Source: NDK ANEURALNETWORKS_SOFTMAX."""
    require(beta > 0, f"beta {beta:g} is not positive")
    np.subtract(input, input.max(axis=axis, keepdims=True, initial=-np.inf), out=out)
    out *= out.dtype.type(beta)
    np.exp(out, out=out)
    out /= out.sum(axis=axis, keepdims=True)


def log_softmax(input: Array, beta: float, axis: int, *, out: Array) -> None:
    """The logarithm of `softmax`. Source: NDK ANEURALNETWORKS_LOG_SOFTMAX."""
    np.subtract(input, input.max(axis=axis, keepdims=True, initial=-np.inf), out=out)
    out *= out.dtype.type(beta)
    out -= np.log(np.exp(out).sum(axis=axis, keepdims=True))


def l2_normalization(input: Array, axis: int = -1, *, out: Array) -> None:
    """X divided by its length along `axis`. Source: NDK ANEURALNETWORKS_L2_NORMALIZATION."""
    rows = np.moveaxis(input, axis, -1)
    length = np.sqrt(np.einsum("...i,...i->...", rows, rows))
    divisor = np.expand_dims(np.maximum(length, np.float32(_LEAST_LENGTH)), axis)
    np.multiply(input, 1 / divisor, out=out)


def local_response_normalization(
    input: Array,
    radius: int,
    bias: float,
    alpha: float,
    beta: float,
    axis: int = -1,
    *,
    out: Array,
) -> None:
    """X * (bias + alpha * (squares summed as far as `radius`)) ** -beta.

    Source: NDK ANEURALNETWORKS_LOCAL_RESPONSE_NORMALIZATION.
    """
    source, result = np.moveaxis(input, axis, 0), np.moveaxis(out, axis, 0)
    squares = np.square(source)
    sums = squares.copy(order="K")
    for shift in range(1, min(radius, len(squares) - 1) + 1):
        sums[shift:] += squares[:-shift]
        sums[:-shift] += squares[shift:]
    sums *= np.float32(alpha)
    sums += np.float32(bias)
    np.multiply(source, np.power(sums, np.float32(-beta), out=sums), out=result)


def instance_normalization(
    input: Array,
    gamma: float,
    beta: float,
    epsilon: float,
    layout: bool,
    *,
    out: Array,
) -> None:
    """Each image's channel to mean `beta` and deviation `gamma`.

    Source: NDK ANEURALNETWORKS_INSTANCE_NORMALIZATION.
    """
    axes, images = ((2, 3), "nchw,nchw->nc") if layout else ((1, 2), "nhwc,nhwc->nc")
    np.subtract(input, input.mean(axis=axes, keepdims=True), out=out)
    variance = np.einsum(images, out, out) / np.float32(input.shape[axes[0]] * input.shape[axes[1]])
    out *= np.expand_dims(np.float32(gamma) / np.sqrt(variance + np.float32(epsilon)), axes)
    out += np.float32(beta)


_LEAST_LENGTH = 1e-6
"""Shorter vectors are divided by this, as Android does."""
KERNELS = (
    real(spec.SOFTMAX, softmax, F32, F16, Q8, Q8S),
    real(spec.LOG_SOFTMAX, log_softmax, F32, F16),
    real(spec.L2_NORMALIZATION, l2_normalization, F32, F16, Q8, Q8S),
    real(spec.LOCAL_RESPONSE_NORMALIZATION, local_response_normalization, F32, F16),
    real(spec.INSTANCE_NORMALIZATION, instance_normalization, F32, F16),
)
