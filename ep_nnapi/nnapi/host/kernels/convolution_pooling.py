"""Pooling kernels."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import KernelFunction, real
from ep_nnapi.nnapi.host.kernels.elementwise import activate
from ep_nnapi.nnapi.host.kernels.windows import NCHW, SlidingWindow, channels_last
from ep_nnapi.nnapi.shapes.convolution import WindowGeometry
from ep_nnapi.nnapi.shapes.operands import Scalar
from ep_nnapi.nnapi.spec import DATA, F16, F32


def _pool(
    ufunc: np.ufunc,
    fill: float,
    input: Array,
    taps: tuple[int, int],
    out: Array,
    window: WindowGeometry,
) -> tuple[Array, SlidingWindow]:
    """Reduces windows to [N, H, W, C], rows first, then columns; padding has the value `fill`."""
    images, results = channels_last(input, out, window.nchw)
    sliding = SlidingWindow.of(window, taps, images, results)
    for image, result in zip(images, results, strict=True):
        seen = sliding.rows(image, (0, sliding.extent[0]), out.dtype, np.copyto, fill)
        high = _reduce(ufunc, seen, sliding, 0)
        np.copyto(result, _reduce(ufunc, high, sliding, 1), casting="same_kind")
    return results, sliding


def _reduce(ufunc: np.ufunc, seen: Array, sliding: SlidingWindow, axis: int) -> Array:
    """Reduces the windows along one axis of [H, W, C]."""
    positions, stride, taps = sliding.extent[axis], sliding.stride[axis], sliding.taps[axis]
    before: tuple[slice, ...] = (slice(None),) * axis
    dtype = np.float64 if ufunc is np.add and taps > _SHORT else seen.dtype
    if positions == 1:
        found: Array = ufunc.reduce(seen[(*before, slice(taps))], axis, dtype, keepdims=True)
        return found
    last = (positions - 1) * stride + 1
    each = [seen[(*before, slice(tap, tap + last, stride))] for tap in range(taps)]
    if taps == 1:
        return each[0]
    total = np.asarray(ufunc(each[0], each[1], dtype=dtype))
    for tap in each[2:]:
        ufunc(total, tap, out=total)
    return total


def _pooling(
    ufunc: np.ufunc, fill: float = 0, *, mean: bool = False, root: bool = False
) -> KernelFunction:
    """Pools; a `mean` excludes padding; `root`: of the squares, whose root is taken."""

    def compute(
        input: Array,
        filter_height: int,
        filter_width: int,
        activation: int,
        *,
        out: Array,
        **scalars: Scalar,
    ) -> None:
        window, taps = WindowGeometry.of(**scalars), (filter_height, filter_width)
        given = np.square(input) if root else input
        results, sliding = _pool(ufunc, fill, given, taps, out, window)
        if mean:
            _divide(results, sliding.counts())
        if root:
            np.sqrt(results, out=results)
        activate(results, activation)
        if window.nchw:
            np.copyto(out, results.transpose(NCHW))

    return compute


def _divide(sums: Array, counts: Array) -> None:
    """Divides sums by window sizes in place; usually all windows have the same size."""
    most = counts.max(initial=1)
    sums *= np.float32(1 / most) if counts.min(initial=most) == most else 1 / counts


_SHORT = 16
"""Taps along one axis up to which sums are accumulated in float32."""
KERNELS = (
    real(spec.MAX_POOL_2D, _pooling(np.maximum, -np.inf), *DATA),
    real(spec.AVERAGE_POOL_2D, _pooling(np.add, mean=True), *DATA),
    real(spec.L2_POOL_2D, _pooling(np.add, mean=True, root=True), F32, F16),
)
