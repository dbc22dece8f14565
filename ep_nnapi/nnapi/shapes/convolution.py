"""Shape inference for convolutions."""

from __future__ import annotations

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.operands import Dims, Scalar, Table, Tensor, require, unify
from ep_nnapi.nnapi.shapes.window import WindowGeometry


def conv_2d(input: Tensor, filter: Tensor, bias: Tensor, **scalars: Scalar) -> Dims:
    """Image [N, H, W, C] with filter [O, kH, kW, C] to [N, H', W', O].

    Source: NDK ANEURALNETWORKS_CONV_2D.
    """
    window = WindowGeometry.of(**scalars)
    batch, height, width, channels = window.image(input)
    out, taps_h, taps_w, depth = filter.dims
    unify(channels, depth)
    return window.dims(
        batch,
        window.height.extent(height, taps_h),
        window.width.extent(width, taps_w),
        unify(out, bias.dims[0]),
    )


def depthwise_conv_2d(
    input: Tensor, filter: Tensor, bias: Tensor, depth_multiplier: int, **scalars: Scalar
) -> Dims:
    """Image [N, H, W, C] with filter [1, kH, kW, C * depth_multiplier].

    Source: NDK ANEURALNETWORKS_DEPTHWISE_CONV_2D.
    """
    window = WindowGeometry.of(**scalars)
    batch, height, width, channels = window.image(input)
    one, taps_h, taps_w, out = filter.dims
    unify(one, 1)
    require(depth_multiplier > 0, f"depth multiplier {depth_multiplier} is not positive")
    if channels is not None:
        out = unify(out, channels * depth_multiplier)
    return window.dims(
        batch,
        window.height.extent(height, taps_h),
        window.width.extent(width, taps_w),
        unify(out, bias.dims[0]),
    )


def grouped_conv_2d(
    input: Tensor, filter: Tensor, bias: Tensor, num_groups: int, **scalars: Scalar
) -> Dims:
    """Image [N, H, W, G * C] with filter [O, kH, kW, C] to [N, H', W', O].

    Source: NDK ANEURALNETWORKS_GROUPED_CONV_2D.
    """
    window = WindowGeometry.of(**scalars)
    batch, height, width, channels = window.image(input)
    out, taps_h, taps_w, depth = filter.dims
    require(num_groups > 0, f"num_groups is {num_groups}; it must be positive")
    if depth is not None:
        unify(channels, depth * num_groups)
    require(
        out is None or out % num_groups == 0,
        f"{out} filters do not divide into {num_groups} groups",
    )
    return window.dims(
        batch,
        window.height.extent(height, taps_h),
        window.width.extent(width, taps_w),
        unify(out, bias.dims[0]),
    )


def transpose_conv_2d(
    input: Tensor,
    filter: Tensor,
    bias: Tensor,
    output_shape: Tensor | None = None,
    **scalars: Scalar,
) -> Dims:
    """Image [N, H, W, C] with filter [O, kH, kW, C] to [N, H', W', O].

    With implicit padding the output shape is an operand, in the layout of the image.
    Source: NDK ANEURALNETWORKS_TRANSPOSE_CONV_2D.
    """
    window = WindowGeometry.of(**scalars)
    batch, height, width, channels = window.image(input)
    out, taps_h, taps_w, depth = filter.dims
    unify(channels, depth)
    if output_shape is None:
        return window.dims(
            batch,
            window.height.transposed_extent(height, taps_h),
            window.width.transposed_extent(width, taps_w),
            unify(out, bias.dims[0]),
        )
    shape = output_shape.ints
    require(len(shape) == 4, f"output_shape has {len(shape)} sizes; it takes 4")
    given = window.image(Tensor(shape))
    unify(given[0], batch)
    unify(given[3], out)
    return shape


SHAPES: Table = {
    spec.CONV_2D: conv_2d,
    spec.DEPTHWISE_CONV_2D: depthwise_conv_2d,
    spec.GROUPED_CONV_2D: grouped_conv_2d,
    spec.TRANSPOSE_CONV_2D: transpose_conv_2d,
}
