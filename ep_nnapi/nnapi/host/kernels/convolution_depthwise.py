"""Depthwise convolution kernel, computed as a sum over the taps of the window."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import log

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.linear import Finish, factors, finish, read
from ep_nnapi.nnapi.host.kernels.windows import NCHW, SlidingWindow, channels_last
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes import Scalar
from ep_nnapi.nnapi.shapes.window import WindowGeometry
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S

_BLOCK = 1 << 20
"""Bytes of input and output, in the computation type, processed at once."""
_INNER_LENGTH = 1024
"""Elements for which an inner multiplication loop is fastest."""
_SHORT = 128
"""Up to this many taps are accumulated in float32, more in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
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


def pack(filter: Array, bias: Array, activation: int, types: Types) -> Filter:
    """Packs the filter [1, kH, kW, O] of a depthwise convolution."""
    weights = factors(filter, types["filter"], bias, types["input"], axis=3)
    after = finish(bias, types["filter"], activation, types, weights.dtype)
    return Filter(weights[0], after)


def depthwise_conv_2d(
    input: Array,
    filter: Filter,
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

    Source: NDK ANEURALNETWORKS_DEPTHWISE_CONV_2D.
    """
    window = WindowGeometry.of(**scalars)
    images, results = channels_last(input, out, window.nchw)
    taps = filter.weights.shape[:2]
    sliding = SlidingWindow.of(window, (taps[0], taps[1]), images, results)
    for image, result in zip(images, results, strict=True):
        _convolve(image, filter, sliding, types["input"], result)
    if window.nchw:
        np.copyto(out, results.transpose(NCHW))


def _convolve(
    image: Array, filter: Filter, sliding: SlidingWindow, source: Operand, out: Array
) -> None:
    dtype, multiplier = filter.weights.dtype, out.shape[2] // image.shape[2]
    columns = _columns_at_once(sliding, out.shape[2]) if multiplier == 1 else 1
    weights = filter.repeated(columns)
    load = partial(read, operand=source)
    elements_a_row = out[0].size + image[: sliding.stride[0]].size
    for start, end in sliding.blocks(_BLOCK // max(1, elements_a_row * dtype.itemsize)):
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
    long = weights.shape[0] * weights.shape[1] > _SHORT
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


KERNELS = (stored(spec.DEPTHWISE_CONV_2D, depthwise_conv_2d, F32, F16, Q8, Q8S, filter=pack),)
