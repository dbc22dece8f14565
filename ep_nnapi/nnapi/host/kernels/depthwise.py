"""The convolution of every channel on its own, as a sum over the taps of the window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.host.kernels.linear import Finish, factors, finish, read
from ep_nnapi.nnapi.host.kernels.windows import NCHW, Sliding, channels_last
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes import Scalar
from ep_nnapi.nnapi.shapes.window import Window
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from ep_nnapi.value import Array

_BLOCK = 1 << 18
"""Bytes of output made at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """Weights [height, width, channels out], and what follows the sum."""

    weights: Array
    finish: Finish


def pack(filter: Array, bias: Array, activation: int, types: Types) -> Filter:
    """The filter [1, kH, kW, O] of a depthwise convolution."""
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
    """Channel c makes channels c * depth_multiplier and following.

    Source: NDK ANEURALNETWORKS_DEPTHWISE_CONV_2D.
    """
    window = Window.of(scalars)
    images, results = channels_last(input, out, window.nchw)
    taps = filter.weights.shape[:2]
    sliding = Sliding.of(window, (taps[0], taps[1]), images, results)
    for image, result in zip(images, results, strict=True):
        _convolve(image, filter, sliding, types["input"], result)
    if window.nchw:
        np.copyto(out, results.transpose(NCHW))


def _convolve(image: Array, filter: Filter, sliding: Sliding, source: Operand, out: Array) -> None:
    dtype = filter.weights.dtype
    multiplier = out.shape[2] // image.shape[2]

    def load(part: Array, into: Array) -> None:
        read(part, source, into)

    for start, end in sliding.blocks(_BLOCK // max(1, out[0].size * dtype.itemsize)):
        windows = sliding.windows(sliding.rows(image, (start, end), dtype, load))
        sums = filter.finish.receiver(out[start:end])
        split = sums.reshape(*sums.shape[:2], image.shape[2], multiplier)
        product = np.empty_like(split)
        for n, weights in enumerate(filter.weights.reshape(-1, image.shape[2], multiplier)):
            tap = windows[:, :, n // sliding.taps[1], n % sliding.taps[1], :, np.newaxis]
            if n == 0:
                np.multiply(tap, weights, out=split)
            else:
                np.multiply(tap, weights, out=product)
                split += product
        filter.finish(sums, out[start:end])


KERNELS = (stored(spec.DEPTHWISE_CONV_2D, depthwise_conv_2d, F32, F16, Q8, Q8S, filter=pack),)
