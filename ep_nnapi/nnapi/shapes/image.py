"""Shape inference for resizing of images, and for blocks of pixels as channels or batches."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.convolution import image_dims, nhwc_dims
from ep_nnapi.nnapi.shapes.operands import Dim, Dims, Tensor, axis_of, by_name, require

INTERLEAVED = (0, 1, 3, 2, 4, 5)
"""Permutation of [N, H, W, Bh, Bw, C] to [N, H, Bh, W, Bw, C]; it is its own inverse."""


def resize(
    input: Tensor,
    output_width: int | None = None,
    output_height: int | None = None,
    width_scale: float = 1,
    height_scale: float = 1,
    layout: bool = False,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Dims:
    """An image of the given size, or of the input size times scale, rounded down.

    Source: NDK ANEURALNETWORKS_RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR.
    """
    require(
        not (align_corners and half_pixel_centers),
        "half_pixel_centers and align_corners cannot both be set",
    )
    batch, height, width, channels = nhwc_dims(input, layout)
    high = _scaled(height, height_scale) if output_height is None else output_height
    wide = _scaled(width, width_scale) if output_width is None else output_width
    require(
        all(s is None or s > 0 for s in (high, wide)),
        f"the output has size {high} x {wide}; both sizes must be positive",
    )
    return image_dims(batch, high, wide, channels, layout)


def _scaled(size: Dim, scale: float) -> Dim:
    return None if size is None else int(np.floor(np.float32(size) * np.float32(scale)))


def divided(size: Dim, by: int, what: str) -> Dim:
    """`size` / `by`, None if unknown; raises ShapeError unless divisible."""
    require(by > 0, f"the block size is {by}; it must be positive")
    if size is None:
        return None
    require(size % by == 0, f"{what} {size} is no multiple of {by}")
    return size // by


def multiplied(size: Dim, by: int) -> Dim:
    """`size` * `by`, None if unknown."""
    require(by > 0, f"the block size is {by}; it must be positive")
    return None if size is None else size * by


def depth_to_space(input: Tensor, block_size: int, layout: bool = False) -> Dims:
    """[N, H, W, B * B * C] to [N, B * H, B * W, C]."""
    batch, height, width, channels = nhwc_dims(input, layout)
    return image_dims(
        batch,
        multiplied(height, block_size),
        multiplied(width, block_size),
        divided(channels, block_size * block_size, "depth"),
        layout,
    )


def space_to_depth(input: Tensor, block_size: int, layout: bool = False) -> Dims:
    """[N, B * H, B * W, C] to [N, H, W, B * B * C]."""
    batch, height, width, channels = nhwc_dims(input, layout)
    return image_dims(
        batch,
        divided(height, block_size, "height"),
        divided(width, block_size, "width"),
        multiplied(channels, block_size * block_size),
        layout,
    )


def batch_to_space_nd(input: Tensor, block_sizes: Tensor, layout: bool = False) -> Dims:
    """[Bh * Bw * N, H, W, C] to [N, Bh * H, Bw * W, C]."""
    batch, height, width, channels = nhwc_dims(input, layout)
    high, wide = _pair(block_sizes)
    return image_dims(
        divided(batch, high * wide, "batch"),
        multiplied(height, high),
        multiplied(width, wide),
        channels,
        layout,
    )


def space_to_batch_nd(
    input: Tensor, block_sizes: Tensor, paddings: Tensor, layout: bool = False
) -> Dims:
    """[N, H, W, C], padded, to [Bh * Bw * N, H / Bh, W / Bw, C]."""
    batch, height, width, channels = nhwc_dims(input, layout)
    high, wide = _pair(block_sizes)
    pads = paddings.ints
    require(
        len(pads) == 4 and min(pads) >= 0,
        f"paddings is {pads}; it takes 2 x 2 numbers, none negative",
    )
    return image_dims(
        multiplied(batch, high * wide),
        divided(None if height is None else height + sum(pads[:2]), high, "padded height"),
        divided(None if width is None else width + sum(pads[2:]), wide, "padded width"),
        channels,
        layout,
    )


def _pair(block_sizes: Tensor) -> tuple[int, int]:
    sizes = block_sizes.ints
    require(
        len(sizes) == 2 and min(sizes) > 0, f"block_sizes is {sizes}; it takes 2 positive numbers"
    )
    return sizes[0], sizes[1]


def channel_shuffle(input: Tensor, num_groups: int, axis: int) -> Dims:
    """The input's dimensions."""
    divided(input.dims[axis_of(axis, input.rank)], num_groups, "size of the axis")
    return input.dims


SHAPES = {
    **by_name(depth_to_space, space_to_depth, batch_to_space_nd, space_to_batch_nd),
    **by_name(channel_shuffle),
    **dict.fromkeys((spec.RESIZE_BILINEAR, spec.RESIZE_NEAREST_NEIGHBOR), resize),
}
