"""Transposed convolution kernel: each input pixel adds its weighted filter to the output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.linear import Finish, as_factors, factors, finish
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.host.kernels.windows import NCHW, channels_last
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes import Scalar
from ep_nnapi.nnapi.shapes.window import WindowGeometry
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S

_BLOCK = 1 << 19
"""Bytes of products computed at once."""
_SHORT = 16
"""Up to this many products per output are accumulated in their own type, more in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """Packed weights [C, height * width * O], and the epilogue."""

    matrix: Array
    taps: tuple[int, int]
    finish: Finish


def pack(filter: Array, bias: Array, activation: int, types: Types) -> Filter:
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
    """Transposed 2-D convolution. Source: NDK ANEURALNETWORKS_TRANSPOSE_CONV_2D."""
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
    dtype = filter.matrix.dtype if overlapping <= _SHORT else np.float64
    sums = np.zeros(whole, dtype)
    bytes_a_row = width * filter.matrix.shape[1] * filter.matrix.itemsize
    rows = max(1, _BLOCK // max(1, bytes_a_row))
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


KERNELS = (stored(spec.TRANSPOSE_CONV_2D, transpose_conv_2d, F32, F16, Q8, Q8S, filter=pack),)
