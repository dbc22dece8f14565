"""Sliding windows of convolutions and pools: ONNX pads, strides, dilations as NNAPI operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import NHWC, Given, View, apply, nhwc
from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.spec import TRANSPOSE
from ep_nnapi.operators.lib.node import Node, int32


@frozen
class Pads:
    """Padding in elements, in NNAPI's order."""

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0


@frozen
class Window:
    """A two-dimensional sliding window over an image of size `input`, (height, width) each."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: Pads
    input: tuple[int, int]

    @property
    def dilated(self) -> bool:
        """True if any dilation differs from 1."""
        return self.dilations != (1, 1)

    @property
    def span(self) -> tuple[int, int]:
        """Number of pixels from the kernel's first tap to its last."""
        high, wide = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))
        return high, wide

    def operands(self) -> Mapping[str, Given]:
        """Padding and stride operands by NNAPI's names; implicit padding where equivalent.

        Drivers are tuned for the implicit schemes. Dilated windows are padded explicitly, because
        SAME ignored the dilation before feature level 3.
        """
        strides = {"stride_width": self.strides[1], "stride_height": self.strides[0]}
        if self.pads == Pads():
            return {"padding": PaddingCode.VALID, **strides}
        if not self.dilated and self.pads == self._same():
            return {"padding": PaddingCode.SAME, **strides}
        p = self.pads
        return {
            "padding_left": p.left,
            "padding_right": p.right,
            "padding_top": p.top,
            "padding_bottom": p.bottom,
            **strides,
        }

    def _same(self) -> Pads:
        (top, bottom), (left, right) = (
            same_pads(i, k, s, 1, upper=True)
            for i, k, s in zip(self.input, self.kernel, self.strides, strict=True)
        )
        return Pads(left, right, top, bottom)


def same_pads(
    size: int, kernel: int, stride: int, dilation: int, *, upper: bool
) -> tuple[int, int]:
    """Return (begin, end) padding for ceil(size / stride) outputs; an odd one goes last if `upper`.

    Source: ONNX auto_pad SAME_UPPER, SAME_LOWER; NDK ANEURALNETWORKS_PADDING_SAME.
    """
    span = (kernel - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def window(n: Node, kernel: tuple[int, ...]) -> Window:
    """Return the node's window over its input 0 [N, C, H, W] with `kernel` (height, width).

    [N, C, L] with a kernel of one size is treated as an image of height 1. Raises Reject(RANK)
    for other ranks.
    """
    x, axes = n.input(0), len(kernel)
    n.require(
        axes in (1, 2) and x.rank == axes + 2,
        Reason.RANK,
        f"{x.name} has rank {x.rank}, NNAPI's windows are two-dimensional (rank 4, or 3)",
    )
    size, ones = x.shape[2:], (1,) * axes
    strides, dilations = n.integers_like("strides", ones), n.integers_like("dilations", ones)
    around = pads(n, size, kernel, strides, dilations)
    top, left = planar(around[:axes], 0)
    bottom, right = planar(around[axes:], 0)
    pixels = Pads(left, right, top, bottom)
    return Window(planar(kernel), planar(strides), planar(dilations), pixels, planar(size))


def filter_size(n: Node, w: Value) -> tuple[int, ...]:
    """Return the filter's size along the window's axes; raise Reject unless `kernel_shape` is it.

    w [O, I, kH, kW] or [O, I, kL]
    """
    size = w.shape[2:]
    declared = n.integers("kernel_shape", size)
    n.require(
        declared == size,
        Reason.ATTRIBUTE,
        f"kernel_shape is {list(declared)}; {w.name} has windows of {list(size)}",
    )
    return size


def planar(numbers: Sequence[int], missing: int = 1) -> tuple[int, int]:
    """Return numbers for (height, width); with one axis, (`missing`, number)."""
    return (missing, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def pads(
    n: Node,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[int, ...]:
    """Return the node's padding along its axes in ONNX's order: all begins, then all ends."""
    auto = n.text("auto_pad", "NOTSET")
    if auto == "VALID":
        return (0,) * 2 * len(kernel)
    if auto.startswith("SAME"):
        upper = auto == "SAME_UPPER"
        per_axis = [
            same_pads(*axis, upper=upper)
            for axis in zip(size, kernel, strides, dilations, strict=True)
        ]
        return tuple(p[0] for p in per_axis) + tuple(p[1] for p in per_axis)
    given = n.integers_like("pads", (0,) * 2 * len(kernel))
    n.require(
        min(given) >= 0,
        Reason.ATTRIBUTE,
        f"pads are {list(given)}; NNAPI takes no negative padding",
    )
    return given


def images(n: Node, value: Value) -> Value | View:
    """Return an image tensor in the target's layout: NHWC unless USE_NCHW."""
    return value if n.target.nchw else nhwc(value)


def require_permute(n: Node, value: Value) -> None:
    """Raise Reject where an intermediate cannot be permuted to NHWC at this feature level.

    The host permutes a cluster's inputs at any level; an intermediate needs TRANSPOSE.
    """
    if not n.target.nchw:
        out = n.temp(value, nhwc(value).shape)
        apply(TRANSPOSE, value, perm=int32(NHWC), out=out).match(n.target.feature_level)


def layout(n: Node) -> bool | None:
    """Return the `layout` operand: True for NCHW, None (omitted) for NNAPI's default, NHWC."""
    return True if n.target.nchw else None
