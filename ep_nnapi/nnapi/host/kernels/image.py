"""Kernels of image resizing, and of blocks of pixels moved to or from channels or batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, real, rows_of, stored
from ep_nnapi.nnapi.host.kernels.windows import NCHW, NHWC, channels_last
from ep_nnapi.nnapi.shapes.image import INTERLEAVED
from ep_nnapi.nnapi.shapes.operands import Scalar
from ep_nnapi.nnapi.spec import DATA

_BLOCK = 1 << 17
"""Bytes of output computed at once."""


def resize_bilinear(input: Array, *, out: Array, **scalars: Scalar) -> None:
    """Bilinear interpolation."""
    images, results = channels_last(input, out, bool(scalars.get("layout", False)))
    rows = _Interpolation.of(images.shape[1], results.shape[1], scalars)
    columns = _Interpolation.of(images.shape[2], results.shape[2], scalars)
    step = max(1, _BLOCK // max(1, results[0, 0].nbytes if results.size else 1))
    for image, result in zip(images, results, strict=True):
        for start in range(0, len(result), step):
            block = slice(start, start + step)
            columns.of_axis(rows.of_axis(image, 0, block), 1, slice(None), result[block])
    if results is not out:
        np.copyto(out, results.transpose(NCHW))


@dataclass(frozen=True, slots=True, eq=False)
class _Interpolation:
    """For each output pixel its two input neighbours along an axis, and the second one's weight."""

    first: Array
    second: Array
    weight: Array

    @staticmethod
    def of(size: int, wanted: int, scalars: dict[str, Scalar]) -> _Interpolation:
        """Returns the neighbours of `wanted` output pixels among `size` input pixels."""
        at = np.clip(_positions(size, wanted, scalars, dtype=np.float64), 0, size - 1)
        first = np.floor(at).astype(np.intp)
        second = np.minimum(first + 1, size - 1)
        weight = np.where(first == second, 0.5, at - first).astype(np.float32)
        return _Interpolation(first, second, weight)

    def of_axis(self, image: Array, axis: int, wanted: slice, out: Array | None = None) -> Array:
        """Interpolates [H, W, C] along one axis; `wanted` selects the output pixels.

        Each neighbour has its share, as on Android: a difference of infinite ones would be NaN.
        """
        weight = self.weight[wanted].reshape((-1,) + (1,) * (2 - axis))
        found: Array = np.take(image, self.first[wanted], axis)
        other = np.take(image, self.second[wanted], axis)
        found *= 1 - weight
        other *= weight
        target = found if out is None else out
        np.add(found, other, out=target)
        return target


def resize_nearest_neighbor(input: Array, *, out: Array, **scalars: Scalar) -> None:
    """Nearest-neighbour interpolation."""
    first = 2 if scalars.get("layout", False) else 1
    rows = nearest(input.shape[first], out.shape[first], scalars)
    columns = nearest(input.shape[first + 1], out.shape[first + 1], scalars)
    np.take(np.take(input, rows, first), columns, first + 1, out=out, mode="clip")


def nearest(size: int, wanted: int, scalars: dict[str, Scalar]) -> Array:
    """Return the input pixel of each of `wanted` output pixels along an axis of `size`."""
    at = _positions(size, wanted, scalars, center=0)
    aligned = bool(scalars.get("align_corners", False))
    whole = np.floor(at + np.float32(0.5)) if aligned else np.floor(at)
    return np.clip(whole, 0, size - 1).astype(np.intp)


def _positions(
    size: int,
    wanted: int,
    scalars: dict[str, Scalar],
    center: float = 0.5,
    dtype: type[np.floating[Any]] = np.float32,
) -> Array:
    """Returns the input coordinates of `wanted` output pixels among `size` input pixels.

    center   offset of the sampling point in an input pixel, with half_pixel_centers
    dtype    float32 as on Android; float64 where the result need not select the same pixel
    """
    places: Array = np.arange(wanted, dtype=dtype)
    if scalars.get("align_corners", False) and wanted > 1:
        places *= dtype(size - 1) / dtype(wanted - 1)
        return places
    half = bool(scalars.get("half_pixel_centers", False))
    places += dtype(0.5 if half else 0)
    places *= dtype(size) / dtype(wanted)
    places -= dtype(center if half else 0)
    return places


def _image(tensor: Array, nchw: bool) -> Array:
    """Returns a view of the tensor as [N, H, W, C]."""
    return tensor.transpose(NHWC) if nchw else tensor


def depth_to_space(input: Array, block_size: int, layout: bool = False, *, out: Array) -> None:
    """Moves channels into blocks of pixels."""
    deep, wide = _image(input, layout), _image(out, layout)
    n, h, w, _ = deep.shape
    target = wide.reshape(n, h, block_size, w, block_size, wide.shape[3]).transpose(INTERLEAVED)
    np.copyto(target, deep.reshape(target.shape))


def space_to_depth(input: Array, block_size: int, layout: bool = False, *, out: Array) -> None:
    """Moves blocks of pixels into channels."""
    wide, deep = _image(input, layout), _image(out, layout)
    n, h, w, _ = deep.shape
    source = wide.reshape(n, h, block_size, w, block_size, wide.shape[3]).transpose(INTERLEAVED)
    np.copyto(deep.reshape(source.shape), source)


def batch_to_space_nd(
    input: Array, block_sizes: Array, layout: bool = False, *, out: Array
) -> None:
    """Moves batches into blocks of pixels."""
    _rearrange(_image(out, layout), _image(input, layout), block_sizes, to_batches=False)


def space_to_batch_nd(
    input: Array,
    block_sizes: Array,
    paddings: Array,
    layout: bool = False,
    *,
    types: Types,
    out: Array,
) -> None:
    """Moves blocks of pixels, zero-padded, into batches."""
    image = _image(input, layout)
    around = ((0, 0), *paddings.reshape(2, 2).tolist(), (0, 0))
    padded = np.pad(image, around, constant_values=types["input"].zero_point)
    _rearrange(padded, _image(out, layout), block_sizes, to_batches=True)


def _rearrange(space: Array, batches: Array, block_sizes: Array, *, to_batches: bool) -> None:
    """Copies between [N, Bh * H, Bw * W, C] and [Bh * Bw * N, H, W, C]."""
    high, wide = block_sizes.tolist()
    height, width, channels = batches.shape[1:]
    n = space.shape[0]
    blocks = space.reshape(n, height, high, width, wide, channels).transpose(2, 4, 0, 1, 3, 5)
    split = batches.reshape(high, wide, n, height, width, channels)
    np.copyto(*((split, blocks) if to_batches else (blocks, split)))


def channel_shuffle(input: Array, num_groups: int, axis: int, *, out: Array) -> None:
    """Interleaves the channels of all groups."""
    at = axis % input.ndim
    before, size, after = input.shape[:at], input.shape[at], input.shape[at + 1 :]
    grouped = input.reshape(*before, num_groups, size // num_groups, *after)
    np.copyto(
        out.reshape(*before, size // num_groups, num_groups, *after),
        grouped.swapaxes(at, at + 1),
    )


KERNELS = (
    real(spec.RESIZE_BILINEAR, resize_bilinear, *DATA),
    *rows_of(stored, DATA, resize_nearest_neighbor, depth_to_space, space_to_depth),
    *rows_of(stored, DATA, batch_to_space_nd, space_to_batch_nd, channel_shuffle),
)
