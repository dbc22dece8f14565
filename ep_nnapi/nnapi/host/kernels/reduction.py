"""Reduction kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import KernelFunction, real, rows_of, stored
from ep_nnapi.nnapi.host.kernels.sums import total
from ep_nnapi.nnapi.shapes.operands import axes_of
from ep_nnapi.nnapi.spec import BOOL8, DATA, F16, F32, NUMBERS


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
    """Arithmetic mean."""
    count = input.size / max(1, out.size)
    np.divide(_sum(input, axes).reshape(out.shape), count, out=out, casting="same_kind")


def reduce_sum(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
    """Sum."""
    np.copyto(out, _sum(input, axes).reshape(out.shape), casting="same_kind")


def reduce_prod(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
    """Product."""
    product = np.empty(out.shape)
    _reduce(np.multiply, input, axes, product)
    np.copyto(out, product, casting="same_kind")
    if np.isnan(out).any():  # a product with a zero is zero, also if infinity is a factor
        zero = np.empty(out.shape, np.bool_)
        _reduce(np.logical_or, input == 0, axes, zero)
        out[zero] = 0


def _reduction(ufunc: np.ufunc, empty: int | None = None) -> KernelFunction:
    """A kernel of numpy's reduction.

    empty   of no elements the result is the least (0) or the greatest (1) number; None: `ufunc` has
            an identity
    """

    def compute(input: Array, axes: Array, keep_dims: bool, *, out: Array) -> None:
        _reduce(ufunc, input, axes, out, None if empty is None else _limits(out.dtype)[empty])

    return compute


def _arg(function: Callable[..., Array]) -> KernelFunction:
    """A kernel of the index of the extreme element, the first of equal ones."""

    def compute(input: Array, axis: int, *, out: Array) -> None:
        out[...] = function(input, axis=axis).reshape(out.shape)

    return compute


KERNELS = (
    real(spec.MEAN, mean, *DATA),
    *rows_of(real, (F32, F16), reduce_sum, reduce_prod),
    stored(spec.REDUCE_MAX, _reduction(np.maximum, 0), *DATA),
    stored(spec.REDUCE_MIN, _reduction(np.minimum, 1), *DATA),
    stored(spec.REDUCE_ALL, _reduction(np.logical_and), BOOL8),
    stored(spec.REDUCE_ANY, _reduction(np.logical_or), BOOL8),
    stored(spec.ARGMAX, _arg(np.argmax), *NUMBERS),
    stored(spec.ARGMIN, _arg(np.argmin), *NUMBERS),
)
