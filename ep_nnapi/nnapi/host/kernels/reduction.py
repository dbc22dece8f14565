"""Reduction kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import real, stored
from ep_nnapi.nnapi.host.kernels.sums import total
from ep_nnapi.nnapi.shapes.operands import axes_of
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8S


def _reduce(
    ufunc: np.ufunc, input: Array, axes: Array, out: Array, initial: float | None = None
) -> None:
    """Reduces with `ufunc` into `out`, in which reduced axes have size 1 or are removed.

    initial   the result for no elements, if `ufunc` has no identity
    """
    along = axes_of(tuple(int(a) for a in axes.reshape(-1)), input.ndim)
    kept = tuple(1 if i in along else size for i, size in enumerate(input.shape))
    target = out.reshape(kept)
    if input.size == 0 and initial is not None:
        target.fill(initial)
    else:
        ufunc.reduce(input, axis=along, keepdims=True, out=target)


def _sum(input: Array, axes: Array) -> Array:
    return total(input, axes_of(tuple(int(a) for a in axes.reshape(-1)), input.ndim))


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Returns the least and the greatest finite number."""
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return float(info.min), float(info.max)


def mean(input: Array, axes: Array, keep_dims: int, *, out: Array) -> None:
    """Arithmetic mean. Source: NDK ANEURALNETWORKS_MEAN."""
    count = input.size / max(1, out.size)
    np.divide(_sum(input, axes).reshape(out.shape), count, out=out, casting="same_kind")


def reduce_sum(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
    """Sum. Source: NDK ANEURALNETWORKS_REDUCE_SUM."""
    np.copyto(out, _sum(input, axes).reshape(out.shape), casting="same_kind")


def reduce_prod(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
    """Product. Source: NDK ANEURALNETWORKS_REDUCE_PROD."""
    product = np.empty(out.shape)
    _reduce(np.multiply, input, axes, product)
    np.copyto(out, product, casting="same_kind")
    if np.isnan(out).any():  # a product with a zero is zero, also if infinity is a factor
        zero = np.empty(out.shape, np.bool_)
        _reduce(np.logical_or, input == 0, axes, zero)
        out[zero] = 0


def reduce_max(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
    """Maximum. Source: NDK ANEURALNETWORKS_REDUCE_MAX."""
    _reduce(np.maximum, input, axes, out, _limits(out.dtype)[0])


def reduce_min(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
    """Minimum. Source: NDK ANEURALNETWORKS_REDUCE_MIN."""
    _reduce(np.minimum, input, axes, out, _limits(out.dtype)[1])


def reduce_all(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
    """Logical AND of the elements. Source: NDK ANEURALNETWORKS_REDUCE_ALL."""
    _reduce(np.logical_and, input, axes, out)


def reduce_any(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
    """Logical OR of the elements. Source: NDK ANEURALNETWORKS_REDUCE_ANY."""
    _reduce(np.logical_or, input, axes, out)


def arg_max(input: Array, axis: int, *, out: Array) -> None:
    """Index of the maximum, the first of equal ones. Source: NDK ANEURALNETWORKS_ARGMAX."""
    out[...] = np.argmax(input, axis=axis).reshape(out.shape)


def arg_min(input: Array, axis: int, *, out: Array) -> None:
    """Index of the minimum, the first of equal ones. Source: NDK ANEURALNETWORKS_ARGMIN."""
    out[...] = np.argmin(input, axis=axis).reshape(out.shape)


_NUMBERS = (F32, F16, I32, Q8, Q8S)
KERNELS = (
    real(spec.MEAN, mean, F32, F16, Q8, Q8S),
    real(spec.REDUCE_SUM, reduce_sum, F32, F16),
    real(spec.REDUCE_PROD, reduce_prod, F32, F16),
    stored(spec.REDUCE_MAX, reduce_max, F32, F16, Q8, Q8S),
    stored(spec.REDUCE_MIN, reduce_min, F32, F16, Q8, Q8S),
    stored(spec.REDUCE_ALL, reduce_all, BOOL8),
    stored(spec.REDUCE_ANY, reduce_any, BOOL8),
    stored(spec.ARGMAX, arg_max, *_NUMBERS),
    stored(spec.ARGMIN, arg_min, *_NUMBERS),
)
