"""Normalization and softmax kernels."""

from __future__ import annotations

from math import prod

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import real, rows_of
from ep_nnapi.nnapi.host.kernels.sums import total, total_of_squares
from ep_nnapi.nnapi.shapes.operands import require
from ep_nnapi.nnapi.spec import DATA, F16, F32


def softmax(input: Array, beta: float, axis: int = -1, *, out: Array) -> None:
    """Softmax of beta * x along `axis`."""
    require(beta > 0, f"beta {beta:g} is not positive")
    np.subtract(input, input.max(axis=axis, keepdims=True, initial=-np.inf), out=out)
    out *= out.dtype.type(beta)
    np.exp(out, out=out)
    out /= total(out, (axis,)).astype(out.dtype)


def log_softmax(input: Array, beta: float, axis: int, *, out: Array) -> None:
    """Logarithm of `softmax`."""
    np.subtract(input, input.max(axis=axis, keepdims=True, initial=-np.inf), out=out)
    out *= out.dtype.type(beta)
    out -= np.log(total(np.exp(out), (axis,))).astype(out.dtype)


def l2_normalization(input: Array, axis: int = -1, *, out: Array) -> None:
    """Divides by the L2 norm along `axis`."""
    length = np.sqrt(total_of_squares(input, (axis,)))
    np.multiply(input, (1 / np.maximum(length, _LEAST_LENGTH)).astype(np.float32), out=out)


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
    """Computes x * (bias + alpha * (sum of squares within `radius`)) ** -beta."""
    source, result = np.moveaxis(input, axis, 0), np.moveaxis(out, axis, 0)
    sums = _window_sums(np.square(source), min(radius, max(0, len(source) - 1)))
    sums *= np.float32(alpha)
    sums += np.float32(bias)
    np.multiply(source, np.power(sums, np.float32(-beta), out=sums), out=result)


def _window_sums(squares: Array, radius: int) -> Array:
    """Returns sums over windows of `radius` neighbours on each side, along the first axis.

    Wide sums are differences of float64 prefix sums, unless an input is infinite.
    """
    if radius > _NARROW and np.isfinite(squares).all():
        starts = np.concatenate([np.zeros_like(squares[:1], np.float64), squares])
        np.cumsum(starts, axis=0, out=starts)
        at = np.arange(len(squares))
        last = np.minimum(at + radius + 1, len(squares))
        found: Array = (starts[last] - starts[np.maximum(at - radius, 0)]).astype(squares.dtype)
        return found
    sums = squares.copy(order="K")
    for shift in range(1, radius + 1):
        sums[shift:] += squares[:-shift]
        sums[:-shift] += squares[shift:]
    return sums


def instance_normalization(
    input: Array,
    gamma: float,
    beta: float,
    epsilon: float,
    layout: bool,
    *,
    out: Array,
) -> None:
    """Normalizes each channel of each image to mean `beta` and standard deviation `gamma`."""
    variance, rest = subtract_mean(input, (2, 3) if layout else (1, 2), out)
    scale = gamma / np.sqrt(variance + epsilon)
    out *= scale.astype(np.float32)
    out += (beta - rest * scale).astype(np.float32)


def subtract_mean(input: Array, axes: tuple[int, ...], out: Array) -> tuple[Array, Array]:
    """Stores the input less its mean along `axes`; returns the variance and the mean of `out`.

    The mean of `out` is not exactly zero: the subtracted mean is rounded to float32. It matters if
    the standard deviation is small.
    """
    count = max(1, prod(input.shape[axis] for axis in axes))
    mean = total(input, axes) / count
    rounded = mean.astype(np.float32)
    np.subtract(input, rounded, out=out)
    rest = mean - rounded
    variance: Array = np.maximum(total_of_squares(out, axes) / count - np.square(rest), 0)
    return variance, rest


_LEAST_LENGTH = 1e-6
"""Least L2 norm to divide by, as on Android."""
_NARROW = 8
"""Greatest radius for which sums are computed directly."""
KERNELS = (
    *rows_of(real, DATA, softmax, l2_normalization),
    *rows_of(real, (F32, F16), log_softmax, local_response_normalization, instance_normalization),
)
