"""Sliding windows of convolution and pooling: strides, padding and layout, from scalar operands."""

from __future__ import annotations

from functools import lru_cache

from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.shapes.operands import Dim, Dims, Scalar, ShapeError, Tensor, require


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
        total = max(0, (-(-size // self.stride) - 1) * self.stride + reach - size)
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
    @lru_cache(maxsize=1024)
    def of(**scalars: Scalar) -> WindowGeometry:
        """The window for an operation's scalar operands, given by name."""

        def cell_operands(axis: str, before: str, after: str) -> AxisGeometry:
            return AxisGeometry(
                int(scalars[f"stride_{axis}"]),
                int(scalars.get(f"dilation_{axis}", 1)),
                int(scalars.get(f"padding_{before}", 0)),
                int(scalars.get(f"padding_{after}", 0)),
                scheme,
            )

        scheme = padding_scheme(scalars["padding"]) if "padding" in scalars else None
        found = WindowGeometry(
            cell_operands("height", "top", "bottom"),
            cell_operands("width", "left", "right"),
            bool(scalars.get("layout", False)),
        )
        for axis in (found.height, found.width):
            require(axis.stride > 0, f"stride {axis.stride} is not positive")
            require(axis.dilation > 0, f"dilation {axis.dilation} is not positive")
            require(axis.before >= 0, "padding is negative")
        return found

    def image(self, tensor: Tensor) -> tuple[Dim, Dim, Dim, Dim]:
        """Batch, height, width and channels of a tensor in this layout."""
        return nhwc_dims(tensor, self.nchw)

    def dims(self, batch: Dim, height: Dim, width: Dim, channels: Dim) -> Dims:
        """Dimensions of an image tensor in this layout."""
        return image_dims(batch, height, width, channels, self.nchw)


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
