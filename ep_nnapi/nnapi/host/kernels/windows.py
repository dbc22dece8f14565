"""SlidingWindow windows over padded images, in blocks of rows that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.shapes.convolution import WindowGeometry

Read = Callable[[Array, Array], None]
"""Copies part of an image into an array of another type; called like numpy.copyto."""

NCHW = (0, 3, 1, 2)
NHWC = (0, 2, 3, 1)


def channels_last(input: Array, out: Array, nchw: bool) -> tuple[Array, Array]:
    """Returns input and output as [N, H, W, C]; for NCHW, the caller copies the output back."""
    if not nchw:
        return input, out
    n, c, h, w = out.shape
    return np.ascontiguousarray(input.transpose(NHWC)), np.empty((n, h, w, c), out.dtype)


@frozen
class SlidingWindow:
    """A window of `taps` over images [N, H, W, C] with `extent` positions along each axis.

    pads   padding before the image, along height and width
    """

    taps: tuple[int, int]
    extent: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int]
    image: tuple[int, int]

    @staticmethod
    def of(
        window: WindowGeometry, taps: tuple[int, int], image: Array, out: Array
    ) -> SlidingWindow:
        """Returns the sliding window of an operation from `image` to `out`."""
        return _sliding(window, taps, image.shape[1:3], out.shape[1:3])

    @property
    def pointwise(self) -> bool:
        """True if each output depends only on the input pixel at its own position."""
        return self.taps == (1, 1) and self.extent == self.image and self.stride == (1, 1)

    def input_extent(self, axis: int, positions: int) -> int:
        """Returns the extent of input that `positions` adjacent windows cover."""
        return (positions - 1) * self.stride[axis] + (self.taps[axis] - 1) * self.dilation[axis] + 1

    def blocks(self, rows: int) -> Iterator[tuple[int, int]]:
        """Yields first and past-the-last output row of blocks of at most `rows`."""
        total = self.extent[0]
        for start in range(0, total, max(1, rows)):
            yield start, min(total, start + max(1, rows))

    def rows(
        self,
        image: Array,
        block: tuple[int, int],
        dtype: np.dtype[Any],
        read: Read,
        fill: float = 0,
    ) -> Array:
        """Returns the part of `image` [H, W, C] read by output rows `block`, padded with `fill`.

        It is the image itself if nothing must be padded or converted.
        """
        start, end = block
        top = start * self.stride[0] - self.pads[0]
        height, width = self.input_extent(0, end - start), self.input_extent(1, self.extent[1])
        left = self.pads[1]
        inside = top >= 0 and top + height <= self.image[0] and left == 0
        if inside and width <= self.image[1] and image.dtype == dtype:
            return image[top : top + height, :width]
        seen = np.empty((height, width, image.shape[2]), dtype)
        first, last = max(0, top), min(self.image[0], top + height)
        right = left + max(0, min(self.image[1], width - left))
        seen[: first - top] = fill
        seen[max(0, last - top) :] = fill
        seen[:, :left] = fill
        seen[:, right:] = fill
        if last > first and right > left:
            read(seen[first - top : last - top, left:right], image[first:last, : right - left])
        return seen

    def windows(self, seen: Array, columns: int = 1) -> Array:
        """Returns a strided view of `rows` as [rows, columns, taps high, taps wide, C].

        columns   adjacent windows merged into the channels of one; needs stride 1
        """
        high, wide, channel = seen.strides
        rows = (seen.shape[0] - self.input_extent(0, 1)) // self.stride[0] + 1
        return as_strided(
            seen,
            (rows, self.extent[1] // columns, *self.taps, seen.shape[2] * columns),
            (
                high * self.stride[0],
                wide * self.stride[1] * columns,
                high * self.dilation[0],
                wide * self.dilation[1],
                channel,
            ),
            writeable=False,
        )

    def counts(self) -> Array:
        """Returns the number of image elements in each window, [rows, columns, 1], in float32."""
        return _counts(self)


@lru_cache(maxsize=1024)
def _counts(sliding: SlidingWindow) -> Array:
    rows, columns = (_seen(sliding, axis) for axis in (0, 1))
    counts: Array = rows[:, np.newaxis, np.newaxis] * columns[:, np.newaxis]
    return counts


def _seen(sliding: SlidingWindow, axis: int) -> Array:
    starts = np.arange(sliding.extent[axis]) * sliding.stride[axis] - sliding.pads[axis]
    taps, step = sliding.taps[axis], sliding.dilation[axis]
    # index of the first tap inside the image, and of the first one past it
    first, end = (np.clip(-((starts - at) // step), 0, taps) for at in (0, sliding.image[axis]))
    seen: Array = (end - first).astype(np.float32)
    return seen


@lru_cache(maxsize=1024)
def _sliding(
    window: WindowGeometry, taps: tuple[int, int], image: tuple[int, int], out: tuple[int, int]
) -> SlidingWindow:
    height, width = window.height, window.width
    return SlidingWindow(
        taps,
        out,
        (height.stride, width.stride),
        (height.dilation, width.dilation),
        (height.pads(image[0], taps[0])[0], width.pads(image[1], taps[1])[0]),
        image,
    )
