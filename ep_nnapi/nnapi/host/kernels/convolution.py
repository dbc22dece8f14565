"""Convolution kernels: matrix products (im2col), sums over taps, scattered products."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import log, prod

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.matmul import Finish, as_factors, factors, finish, read
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.host.kernels.windows import NCHW, SlidingWindow, channels_last
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes.convolution import WindowGeometry
from ep_nnapi.nnapi.shapes.operands import Scalar
from ep_nnapi.nnapi.spec import DATA

_BLOCK = 1 << 21
"""Bytes of unrolled windows computed at once, small enough to stay in the cache."""

_PART = 1 << 19
"""Bytes computed at once of a pointwise product that needs a type conversion."""
_SHORT = 12
"""Windows whose rows have fewer elements are copied tap by tap, which is faster."""


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """Packed weights [groups, channels out, height * width * channels in], and the epilogue."""

    matrix: Array
    taps: tuple[int, int]
    finish: Finish


def pack(filter: Array, bias: Array, activation: int, types: Types, num_groups: int = 1) -> Filter:
    """Packs the filter [O, kH, kW, C] of a convolution."""
    weights = factors(filter, types["filter"], bias, types["input"], axis=0)
    height, width = filter.shape[1:3]
    matrix = weights.reshape(num_groups, filter.shape[0] // num_groups, -1)
    after = finish(bias, types["filter"], activation, types, weights.dtype)
    return Filter(matrix, (height, width), after)


def conv_2d(
    input: Array,
    filter: Filter,
    bias: Array,
    activation: int,
    num_groups: int = 1,
    *,
    types: Types,
    out: Array,
    **scalars: Scalar,
) -> None:
    """2-D convolution."""
    window = WindowGeometry.of(**scalars)
    images, results = channels_last(input, out, window.nchw)
    _convolve(images, filter, window, types["input"], results)
    if window.nchw:
        np.copyto(out, results.transpose(NCHW))


def _convolve(
    images: Array, filter: Filter, window: WindowGeometry, source: Operand, out: Array
) -> None:
    sliding = SlidingWindow.of(window, filter.taps, images, out)
    groups, dtype = filter.matrix.shape[0], filter.matrix.dtype
    if sliding.pointwise and groups == 1:
        _product(images.reshape(-1, images.shape[3]), filter, source, out.reshape(-1, out.shape[3]))
        return
    bytes_a_row = out.shape[2] * prod(filter.taps) * images.shape[3] * dtype.itemsize
    rows = _BLOCK // max(1, bytes_a_row)

    load = partial(read, operand=source)
    for image, result in zip(images, out, strict=True):
        for start, end in sliding.blocks(rows):
            seen = sliding.rows(image, (start, end), dtype, load)
            columns = _columns(sliding.windows(seen), groups)
            part = result[start:end].reshape(-1, out.shape[3])
            _multiply(columns, filter, part)


def _columns(windows: Array, groups: int) -> Array:
    """Unrolls [rows, columns, kH, kW, C] to [groups, rows * columns, kH * kW * C / groups]."""
    rows, columns, high, wide, channels = windows.shape
    if groups == 1 and wide * channels < _SHORT:  # one copy per tap, not per window
        taps = np.ascontiguousarray(windows.transpose(2, 3, 4, 0, 1))
        return taps.reshape(1, high * wide * channels, rows * columns).swapaxes(1, 2)
    if groups == 1:
        return windows.reshape(1, rows * columns, high * wide * channels)
    depth = channels // groups
    split = windows.reshape(rows, columns, high, wide, groups, depth)
    unrolled = np.ascontiguousarray(split.transpose(4, 0, 1, 2, 3, 5))
    return unrolled.reshape(groups, rows * columns, high * wide * depth)


def _product(inputs: Array, filter: Filter, source: Operand, out: Array) -> None:
    """Computes a convolution with 1x1 windows: rows [M, C] to rows [M, O]."""
    bytes_a_row = (inputs.shape[1] + out.shape[1]) * filter.matrix.itemsize
    direct = inputs.dtype == out.dtype == filter.matrix.dtype
    rows = len(out) if direct else max(64, _PART // max(1, bytes_a_row))
    for start in range(0, len(out), max(1, rows)):
        part = as_factors(inputs[start : start + rows], source, filter.matrix.dtype)
        _multiply(part[np.newaxis], filter, out[start : start + rows])


def _multiply(columns: Array, filter: Filter, out: Array) -> None:
    """Multiplies unrolled windows [groups, M, K] by the filter; stores results in `out` [M, O]."""
    sums = filter.finish.receiver(out)
    if len(columns) == 1:
        multiply(columns[0], filter.matrix[0].T, sums)
    else:
        split = sums.reshape(sums.shape[0], len(columns), -1).transpose(1, 0, 2)
        multiply(columns, filter.matrix.transpose(0, 2, 1), split)
    filter.finish(sums, out)


_TAPS_BLOCK = 1 << 20
"""Bytes of input and output, in the computation type, processed at once."""
_INNER_LENGTH = 1024
"""Elements for which an inner multiplication loop is fastest."""
_MANY_TAPS = 128
"""Up to this many taps are accumulated in float32, more in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class DepthwiseFilter:
    """Packed weights [height, width, channels out], and the epilogue."""

    weights: Array
    finish: Finish
    _repeated: dict[int, Array] = field(default_factory=dict)

    def repeated(self, columns: int) -> Array:
        """Returns the weights tiled for adjacent positions: [height, width, columns * channels]."""
        found = self._repeated.get(columns)
        if found is None:
            found = self._repeated[columns] = np.tile(self.weights, columns)
        return found


def pack_depthwise(filter: Array, bias: Array, activation: int, types: Types) -> DepthwiseFilter:
    """Packs the filter [1, kH, kW, O] of a depthwise convolution."""
    weights = factors(filter, types["filter"], bias, types["input"], axis=3)
    after = finish(bias, types["filter"], activation, types, weights.dtype)
    return DepthwiseFilter(weights[0], after)


def depthwise_conv_2d(
    input: Array,
    filter: DepthwiseFilter,
    bias: Array,
    depth_multiplier: int,
    activation: int,
    *,
    types: Types,
    out: Array,
    **scalars: Scalar,
) -> None:
    """Depthwise 2-D convolution: channel c yields `depth_multiplier` outputs.

    They are the output channels from c * depth_multiplier on.
    """
    window = WindowGeometry.of(**scalars)
    images, results = channels_last(input, out, window.nchw)
    taps = filter.weights.shape[:2]
    sliding = SlidingWindow.of(window, (taps[0], taps[1]), images, results)
    for image, result in zip(images, results, strict=True):
        _convolve_depthwise(image, filter, sliding, types["input"], result)
    if window.nchw:
        np.copyto(out, results.transpose(NCHW))


def _convolve_depthwise(
    image: Array, filter: DepthwiseFilter, sliding: SlidingWindow, source: Operand, out: Array
) -> None:
    dtype, multiplier = filter.weights.dtype, out.shape[2] // image.shape[2]
    columns = _columns_at_once(sliding, out.shape[2]) if multiplier == 1 else 1
    weights = filter.repeated(columns)
    load = partial(read, operand=source)
    elements_a_row = out[0].size + image[: sliding.stride[0]].size
    for start, end in sliding.blocks(_TAPS_BLOCK // max(1, elements_a_row * dtype.itemsize)):
        windows = sliding.windows(sliding.rows(image, (start, end), dtype, load), columns)
        part = out[start:end]
        sums = filter.finish.receiver(part)
        if multiplier == 1:
            target = sums.reshape(*windows.shape[:2], -1)
            _accumulate("rwijc,ijc->rwc", windows, weights, target)
        else:
            each = weights.reshape(*sliding.taps, image.shape[2], multiplier)
            target = sums.reshape(*sums.shape[:2], image.shape[2], multiplier)
            _accumulate("rwijc,ijcm->rwcm", windows, each, target)
        filter.finish(sums, part)


def _accumulate(subscripts: str, windows: Array, weights: Array, out: Array) -> None:
    """Accumulates products over all taps; in float64 if there are many taps."""
    long = weights.shape[0] * weights.shape[1] > _MANY_TAPS
    dtype = np.float64 if long else out.dtype
    np.einsum(subscripts, windows, weights, out=out, dtype=dtype, casting="same_kind")


@lru_cache(maxsize=1024)
def _columns_at_once(sliding: SlidingWindow, channels: int) -> int:
    """Returns the number of adjacent positions to compute in one inner loop.

    It divides the row. The loop length is nearest to the fastest: long enough to hide the loop's
    overhead, short enough for the weights of all taps to stay in the L1 cache.
    """
    if sliding.stride[1] != 1:
        return 1
    divisors = [n for n in range(1, sliding.extent[1] + 1) if sliding.extent[1] % n == 0]
    return min(divisors, key=lambda n: abs(log(n * channels / _INNER_LENGTH)))


_PRODUCTS = 1 << 19
"""Bytes of products computed at once."""
_FEW = 16
"""Up to this many products per output are accumulated in their own type, more in float64."""


def pack_transposed(filter: Array, bias: Array, activation: int, types: Types) -> Filter:
    """Packs the filter [O, kH, kW, C] of a transposed convolution."""
    weights = factors(filter, types["filter"], bias, types["input"], axis=0)
    matrix = weights.transpose(3, 1, 2, 0).reshape(filter.shape[3], -1)
    after = finish(bias, types["filter"], activation, types, weights.dtype)
    return Filter(np.ascontiguousarray(matrix), (filter.shape[1], filter.shape[2]), after)


def transpose_conv_2d(
    input: Array,
    filter: Filter,
    bias: Array,
    activation: int,
    output_shape: Array | None = None,
    *,
    types: Types,
    out: Array,
    **scalars: Scalar,
) -> None:
    """Transposed 2-D convolution."""
    window = WindowGeometry.of(**scalars)
    images, results = channels_last(input, out, window.nchw)
    for image, result in zip(images, results, strict=True):
        sums = _scatter_products(image, filter, window, types["input"])
        top = window.height.pads(result.shape[0], filter.taps[0])[0]
        left = window.width.pads(result.shape[1], filter.taps[1])[0]
        inside = sums[top : top + result.shape[0], left : left + result.shape[1]]
        part = np.zeros(result.shape, filter.matrix.dtype)
        part[: inside.shape[0], : inside.shape[1]] = inside
        filter.finish(part, result)
    if window.nchw:
        np.copyto(out, results.transpose(NCHW))


def _scatter_products(
    image: Array, filter: Filter, window: WindowGeometry, source: Operand
) -> Array:
    """Returns the sums of one image [H, W, C], before cropping the padding."""
    (height, width, _), (high, wide) = image.shape, filter.taps
    down, across = window.height.stride, window.width.stride
    depth = filter.matrix.shape[1] // (high * wide)
    whole = ((height - 1) * down + high, (width - 1) * across + wide, depth)
    overlapping = -(-high // down) * -(-wide // across)
    dtype = filter.matrix.dtype if overlapping <= _FEW else np.float64
    sums = np.zeros(whole, dtype)
    bytes_a_row = width * filter.matrix.shape[1] * filter.matrix.itemsize
    rows = max(1, _PRODUCTS // max(1, bytes_a_row))
    for start in range(0, height, rows):
        block = as_factors(image[start : start + rows], source, filter.matrix.dtype)
        products = np.empty((block.shape[0] * width, filter.matrix.shape[1]), filter.matrix.dtype)
        multiply(block.reshape(-1, block.shape[2]), filter.matrix, products)
        weighted = products.reshape(*block.shape[:2], high, wide, depth)
        for i in range(high):
            first = start * down + i
            for j in range(wide):
                last = first + (len(block) - 1) * down + 1
                target = sums[first:last:down, j : j + (width - 1) * across + 1 : across]
                target += weighted[:, :, i, j]
    return sums


KERNELS = (
    stored(spec.CONV_2D, conv_2d, *DATA, filter=pack),
    stored(spec.GROUPED_CONV_2D, conv_2d, *DATA, filter=pack),
    stored(spec.DEPTHWISE_CONV_2D, depthwise_conv_2d, *DATA, filter=pack_depthwise),
    stored(spec.TRANSPOSE_CONV_2D, transpose_conv_2d, *DATA, filter=pack_transposed),
)
