"""The sliding window of convolutions and pools: parsed once, for shapes and for kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.shapes.operands import Dim, Dims, Scalar, ShapeError, Tensor, require


@dataclass(frozen=True, slots=True)
class Side:
    """The window along one axis of the image.

    before, after   explicit padding; ignored when `scheme` is given; `after` may be negative
                    where the window's result is transposed
    scheme          implicit padding
    """

    stride: int
    dilation: int = 1
    before: int = 0
    after: int = 0
    scheme: PaddingCode | None = None

    def extent(self, size: Dim, taps: Dim) -> Dim:
        """How many times a window of `taps` fits an input of `size`."""
        if self.scheme is PaddingCode.SAME:
            return None if size is None else -(-size // self.stride)
        if size is None or taps is None:
            return None
        require(self.after >= 0, "padding is negative")
        reach = self.dilation * (taps - 1) + 1
        fits = (size + self.before + self.after - reach) // self.stride + 1
        require(
            fits > 0 or size == 0,
            f"a window of {reach} does not fit a padded input of {size + self.before + self.after}",
        )
        return max(0, fits)

    def pads(self, size: int, taps: int) -> tuple[int, int]:
        """Zeros before and after an input of `size`; an odd number has one more after."""
        if self.scheme is not PaddingCode.SAME:
            return self.before, self.after
        reach = self.dilation * (taps - 1) + 1
        total = max(0, (-(-size // self.stride) - 1) * self.stride + reach - size)
        return total // 2, total - total // 2

    def transposed_extent(self, size: Dim, taps: Dim) -> Dim:
        """The size whose convolution would have the extent `size`, explicit padding only."""
        if size is None or taps is None:
            return None
        extent = (size - 1) * self.stride + taps - self.before - self.after
        require(extent > 0 or size == 0, f"padding leaves {extent} of a transposed convolution")
        return max(0, extent)


@dataclass(frozen=True, slots=True)
class Window:
    """Both axes of a window, and where the channels are.

    Source: NDK ANEURALNETWORKS_CONV_2D (operands of both forms), PaddingCode.
    """

    height: Side
    width: Side
    nchw: bool = False

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(**scalars: Scalar) -> Window:
        """The window that an operation's scalar operands, by name, describe."""

        def side(axis: str, before: str, after: str) -> Side:
            return Side(
                int(scalars[f"stride_{axis}"]),
                int(scalars.get(f"dilation_{axis}", 1)),
                int(scalars.get(f"padding_{before}", 0)),
                int(scalars.get(f"padding_{after}", 0)),
                scheme,
            )

        scheme = padding_scheme(scalars["padding"]) if "padding" in scalars else None
        found = Window(
            side("height", "top", "bottom"),
            side("width", "left", "right"),
            bool(scalars.get("layout", False)),
        )
        for axis in (found.height, found.width):
            require(axis.stride > 0, f"stride {axis.stride} is not positive")
            require(axis.dilation > 0, f"dilation {axis.dilation} is not positive")
            require(axis.before >= 0, "padding is negative")
        return found

    def image(self, tensor: Tensor) -> tuple[Dim, Dim, Dim, Dim]:
        """Sizes of a tensor of this layout as batch, height, width, channels."""
        return nhwc_dims(tensor, self.nchw)

    def dims(self, batch: Dim, height: Dim, width: Dim, channels: Dim) -> Dims:
        """Sizes in this layout."""
        return image_dims(batch, height, width, channels, self.nchw)


def nhwc_dims(tensor: Tensor, nchw: bool) -> tuple[Dim, Dim, Dim, Dim]:
    """Sizes of an image tensor as batch, height, width, channels."""
    require(tensor.rank == 4, f"an image tensor has rank 4, not {tensor.rank}")
    a, b, c, d = tensor.dims
    return (a, c, d, b) if nchw else (a, b, c, d)


def image_dims(batch: Dim, height: Dim, width: Dim, channels: Dim, nchw: bool) -> Dims:
    """Sizes of an image tensor in its layout."""
    if nchw:
        return (batch, channels, height, width)
    return (batch, height, width, channels)


def padding_scheme(code: Scalar) -> PaddingCode:
    """The padding scheme of that code; raises ShapeError when there is none."""
    try:
        return PaddingCode(int(code))
    except ValueError:
        raise ShapeError(f"padding scheme {code} is neither SAME (1) nor VALID (2)") from None
