"""Convolution kernels, computed as matrix products (im2col)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.linear import Finish, as_factors, factors, finish, read
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.host.kernels.windows import NCHW, SlidingWindow, channels_last
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes import Scalar
from ep_nnapi.nnapi.shapes.window import WindowGeometry
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S

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


def pack(filter: Array, bias: Array, activation: int, types: Types) -> Filter:
    """Packs the filter [O, kH, kW, C] of a convolution without groups."""
    return pack_groups(filter, bias, activation, 1, types)


def pack_groups(
    filter: Array, bias: Array, activation: int, num_groups: int, types: Types
) -> Filter:
    """Packs the filter [O, kH, kW, C] of a grouped convolution."""
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
    *,
    types: Types,
    out: Array,
    **scalars: Scalar,
) -> None:
    """2-D convolution. Source: NDK ANEURALNETWORKS_CONV_2D."""
    window = WindowGeometry.of(**scalars)
    images, results = channels_last(input, out, window.nchw)
    _convolve(images, filter, window, types["input"], results)
    if window.nchw:
        np.copyto(out, results.transpose(NCHW))


def grouped_conv_2d(
    input: Array,
    filter: Filter,
    bias: Array,
    activation: int,
    num_groups: int,
    *,
    types: Types,
    out: Array,
    **scalars: Scalar,
) -> None:
    """Grouped 2-D convolution. Source: NDK ANEURALNETWORKS_GROUPED_CONV_2D."""
    conv_2d(input, filter, bias, activation, types=types, out=out, **scalars)


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


_DATA = (F32, F16, Q8, Q8S)
KERNELS = (
    stored(spec.CONV_2D, conv_2d, *_DATA, filter=pack),
    stored(spec.GROUPED_CONV_2D, grouped_conv_2d, *_DATA, filter=pack_groups),
)
