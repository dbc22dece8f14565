"""Shape inference for convolutions and pooling: windows that slide over images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.shapes.operands import (
    Dim,
    Dims,
    Scalar,
    ShapeError,
    Tensor,
    by_name,
    require,
    unify,
)
from ep_nnapi.nnapi.sizes import Size


@frozen
class AxisGeometry:
    """The window along one axis of the image.

    before, after   explicit padding; ignored if `scheme` is given; `after` may be negative
                    for transposed convolution
    scheme          implicit padding
    """

    stride: int
    dilation: int = 1
    before: int = 0
    after: int = 0
    scheme: PaddingCode | None = None

    def extent(self, size: Dim, taps: Dim) -> Dim:
        """Output size: number of positions of a window of `taps` on an input of `size`.

        Android's kernels refuse windows that may lie in the padding alone.
        """
        if self.scheme is PaddingCode.SAME:
            return None if size is None else -(-size // self.stride)
        require(self.after >= 0, "padding is negative")
        if taps is None:
            return None
        reach = self.dilation * (taps - 1) + 1
        most = max(self.before, self.after)
        require(most < reach, f"padding of {most} is not below the window's size of {reach}")
        if size is None:
            return None
        fits = (size + self.before + self.after - reach) // self.stride + 1
        require(
            fits > 0 or size == 0,
            f"a window of {reach} does not fit a padded input of {size + self.before + self.after}",
        )
        return max(0, fits)

    def pads(self, size: int, taps: int) -> tuple[int, int]:
        """Padding before and after an input of `size`; if the total is odd, one more after."""
        if self.scheme is not PaddingCode.SAME:
            return self.before, self.after
        reach = self.dilation * (taps - 1) + 1
        total = max((-(-size // self.stride) - 1) * self.stride + reach - size, 0)
        return total // 2, total - total // 2

    def transposed_extent(self, size: Dim, taps: Dim) -> Dim:
        """Output size of a transposed convolution of `size`; explicit padding only."""
        if size is None or taps is None:
            return None
        extent = (size - 1) * self.stride + taps - self.before - self.after
        require(extent > 0 or size == 0, f"padding leaves {extent} of a transposed convolution")
        return max(0, extent)


@frozen
class WindowGeometry:
    """A window along height and width, and the image layout.

    Source: NDK ANEURALNETWORKS_CONV_2D (operands of both forms), PaddingCode.
    """

    height: AxisGeometry
    width: AxisGeometry
    nchw: bool = False

    @staticmethod
    def of(**scalars: Scalar) -> WindowGeometry:
        """The window for an operation's scalar operands, given by name.

        A size among them becomes a condition of its own trace, whichever asked first.
        """
        numbers = {k: s.plain() if isinstance(s, Size) else s for k, s in scalars.items()}
        return _window_of(**numbers)

    def image(self, tensor: Tensor) -> tuple[Dim, Dim, Dim, Dim]:
        """Batch, height, width and channels of a tensor in this layout."""
        return nhwc_dims(tensor, self.nchw)

    def dims(self, batch: Dim, height: Dim, width: Dim, channels: Dim) -> Dims:
        """Dimensions of an image tensor in this layout."""
        return image_dims(batch, height, width, channels, self.nchw)

    def output(self, image: Tensor, taps: Sequence[Dim], channels: Dim) -> Dims:
        """Dimensions of what a window of `taps` makes of an image."""
        batch, height, width, _ = self.image(image)
        high, wide = self.height.extent(height, taps[0]), self.width.extent(width, taps[1])
        return self.dims(batch, high, wide, channels)


@lru_cache(maxsize=1024)
def _window_of(**scalars: Scalar) -> WindowGeometry:
    def along(axis: str, before: str, after: str) -> AxisGeometry:
        return AxisGeometry(
            int(scalars[f"stride_{axis}"]),
            int(scalars.get(f"dilation_{axis}", 1)),
            int(scalars.get(f"padding_{before}", 0)),
            int(scalars.get(f"padding_{after}", 0)),
            scheme,
        )

    scheme = padding_scheme(scalars["padding"]) if "padding" in scalars else None
    found = WindowGeometry(
        along("height", "top", "bottom"),
        along("width", "left", "right"),
        bool(scalars.get("layout", False)),
    )
    for axis in (found.height, found.width):
        require(axis.stride > 0, f"stride {axis.stride} is not positive")
        require(axis.dilation > 0, f"dilation {axis.dilation} is not positive")
        require(axis.before >= 0, "padding is negative")
    return found


def nhwc_dims(tensor: Tensor, nchw: bool) -> tuple[Dim, Dim, Dim, Dim]:
    """Batch, height, width and channels of an image tensor, NCHW or NHWC."""
    require(tensor.rank == 4, f"an image tensor has rank 4, not {tensor.rank}")
    a, b, c, d = tensor.dims
    return (a, c, d, b) if nchw else (a, b, c, d)


def image_dims(batch: Dim, height: Dim, width: Dim, channels: Dim, nchw: bool) -> Dims:
    """Dimensions of an image tensor, NCHW or NHWC."""
    if nchw:
        return (batch, channels, height, width)
    return (batch, height, width, channels)


def padding_scheme(code: Scalar) -> PaddingCode:
    """Convert `code` to a PaddingCode; raises ShapeError if it is invalid."""
    try:
        return PaddingCode(int(code))
    except ValueError:
        raise ShapeError(f"padding scheme {code} is neither SAME (1) nor VALID (2)") from None


def conv_2d(input: Tensor, filter: Tensor, bias: Tensor, **scalars: Scalar) -> Dims:
    """Image [N, H, W, C] with filter [O, kH, kW, C] to [N, H', W', O]."""
    window = WindowGeometry.of(**scalars)
    out, *taps, depth = filter.dims
    unify(window.image(input)[3], depth)
    return window.output(input, taps, unify(out, bias.dims[0]))


def depthwise_conv_2d(
    input: Tensor, filter: Tensor, bias: Tensor, depth_multiplier: int, **scalars: Scalar
) -> Dims:
    """Image [N, H, W, C] with filter [1, kH, kW, C * depth_multiplier]."""
    window = WindowGeometry.of(**scalars)
    channels = window.image(input)[3]
    one, *taps, out = filter.dims
    unify(one, 1)
    require(depth_multiplier > 0, f"depth multiplier {depth_multiplier} is not positive")
    if channels is not None:
        out = unify(out, channels * depth_multiplier)
    return window.output(input, taps, unify(out, bias.dims[0]))


def grouped_conv_2d(
    input: Tensor, filter: Tensor, bias: Tensor, num_groups: int, **scalars: Scalar
) -> Dims:
    """Image [N, H, W, G * C] with filter [O, kH, kW, C] to [N, H', W', O]."""
    window = WindowGeometry.of(**scalars)
    out, *taps, depth = filter.dims
    require(num_groups > 0, f"num_groups is {num_groups}; it must be positive")
    if depth is not None:
        unify(window.image(input)[3], depth * num_groups)
    require(
        out is None or out % num_groups == 0,
        f"{out} filters do not divide into {num_groups} groups",
    )
    return window.output(input, taps, unify(out, bias.dims[0]))


def transpose_conv_2d(
    input: Tensor,
    filter: Tensor,
    bias: Tensor,
    output_shape: Tensor | None = None,
    **scalars: Scalar,
) -> Dims:
    """Image [N, H, W, C] with filter [O, kH, kW, C] to [N, H', W', O].

    With implicit padding the output shape is an operand, in the layout of the image.
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


def pool_2d(input: Tensor, filter_height: int, filter_width: int, **scalars: Scalar) -> Dims:
    """Image [N, H, W, C] to [N, H', W', C].

    Source: NDK ANEURALNETWORKS_AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D.
    """
    require(min(filter_height, filter_width) > 0, "a pool's window is empty")
    window = WindowGeometry.of(**scalars)
    return window.output(input, (filter_height, filter_width), window.image(input)[3])


SHAPES = {
    **by_name(conv_2d, depthwise_conv_2d, grouped_conv_2d, transpose_conv_2d),
    **dict.fromkeys((spec.AVERAGE_POOL_2D, spec.L2_POOL_2D, spec.MAX_POOL_2D), pool_2d),
}
