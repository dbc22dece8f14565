"""Shape inference for pooling."""

from __future__ import annotations

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.operands import Dims, Scalar, Table, Tensor, require
from ep_nnapi.nnapi.shapes.window import WindowGeometry


def pool_2d(input: Tensor, filter_height: int, filter_width: int, **scalars: Scalar) -> Dims:
    """Image [N, H, W, C] to [N, H', W', C].

    Source: NDK ANEURALNETWORKS_AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D.
    """
    require(min(filter_height, filter_width) > 0, "a pool's window is empty")
    window = WindowGeometry.of(**scalars)
    batch, height, width, channels = window.image(input)
    return window.dims(
        batch,
        window.height.extent(height, filter_height),
        window.width.extent(width, filter_width),
        channels,
    )


SHAPES: Table = dict.fromkeys((spec.AVERAGE_POOL_2D, spec.L2_POOL_2D, spec.MAX_POOL_2D), pool_2d)
