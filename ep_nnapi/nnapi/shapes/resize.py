"""Shape inference for image resizing."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.operands import Dim, Dims, Table, Tensor, require
from ep_nnapi.nnapi.shapes.window import image_dims, nhwc_dims


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
        min(1 if s is None else s for s in (high, wide)) > 0,
        f"the output has size {high} x {wide}; both sizes must be positive",
    )
    return image_dims(batch, high, wide, channels, layout)


def _scaled(size: Dim, scale: float) -> Dim:
    return None if size is None else int(np.floor(np.float32(size) * np.float32(scale)))


SHAPES: Table = dict.fromkeys((spec.RESIZE_BILINEAR, spec.RESIZE_NEAREST_NEIGHBOR), resize)
