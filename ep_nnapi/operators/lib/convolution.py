"""Lowering of Conv: sliding windows, constant filters, and the operations that a level has."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

import numpy as np

from ep_nnapi.graph.value import Quantization, Value
from ep_nnapi.lowering.arguments import NHWC, Given, View, nhwc
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.sizes import identical, is_symbolic
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.operators.lib.movement import along, slice_spans
from ep_nnapi.operators.lib.node import Node, int32
from ep_nnapi.operators.lib.quantizing import bias


@frozen
class Pads:
    """Padding in elements, in NNAPI's order."""

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0

    def are(self, other: Pads) -> bool:
        """True if they equal `other` whatever the values of symbolic sizes are."""
        return identical(*((p.left, p.right, p.top, p.bottom) for p in (self, other)))


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
        if self._scheme is not None:
            return {"padding": self._scheme, **strides}
        sides = ("left", "right", "top", "bottom")
        return {**{f"padding_{side}": getattr(self.pads, side) for side in sides}, **strides}

    @property
    def _scheme(self) -> PaddingCode | None:
        if self.pads.are(Pads()):
            return PaddingCode.VALID
        return PaddingCode.SAME if not self.dilated and self.pads.are(self._same()) else None

    @property
    def varies(self) -> bool:
        """True if padding that no implicit scheme has differs from size to size."""
        p = self.pads
        return is_symbolic((p.left, p.right, p.top, p.bottom)) and self._scheme is None

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
    if span == 1:
        return 0, 0
    total = span - stride + -size % stride
    if span < stride:
        total = max(total, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def window(n: Node, kernel: tuple[int, ...]) -> Window:
    """Return the node's window over its input 0 [N, C, H, W] with `kernel` (height, width).

    [N, C, L] with a kernel of one size is treated as an image of height 1. Raises Reject(RANK)
    for other ranks.
    """
    x, axes = n.input(0), len(kernel)
    detail = f"{x.name} has rank {x.rank}, NNAPI's windows are two-dimensional (rank 4, or 3)"
    n.require(axes in (1, 2) and x.rank == axes + 2, Reason.RANK, detail)
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
    detail = f"kernel_shape is {list(declared)}; {w.name} has windows of {list(size)}"
    n.require(declared == size, Reason.ATTRIBUTE, detail)
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
    fits = min(given) >= 0
    n.require(fits, Reason.ATTRIBUTE, f"pads are {list(given)}; NNAPI takes no negative padding")
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
        apply(spec.TRANSPOSE, value, perm=int32(NHWC), out=out).match(n.target.feature_level)


def layout(n: Node) -> bool | None:
    """Return the `layout` operand: True for NCHW, None (omitted) for NNAPI's default, NHWC."""
    return True if n.target.nchw else None


Padding = Sequence[tuple[int, int]]


def dilated_filter(n: Node, w: Value, dilations: Sequence[int], margins: Padding = ()) -> Value:
    """Return the constant filter [., ., kH, kW] dilated, and zero-padded by `margins`.

    The result of the convolution is exactly the same. Quantized filters use their zero point.
    """
    around = tuple(margins) or ((0, 0), (0, 0))
    if tuple(dilations) == (1, 1) and not any(map(any, around)):
        return w
    detail = f"{w.name} must be constant to be dilated or padded"
    n.require(w.constant is not None, Reason.CONSTANT, detail)
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    shape = (*w.shape[:2], *(r + sum(m) for r, m in zip(reach, around, strict=True)))
    zero = w.quantization.zero_point[0] if w.quantization is not None else 0
    (top, _), (left, _) = around

    def put(array: Array) -> Array:
        found = np.full(shape, zero, array.dtype)
        rows = slice(top, top + reach[0], dilations[0])
        columns = slice(left, left + reach[1], dilations[1])
        found[:, :, rows, columns] = array
        return found

    return replace(w, dims=shape, constant=w.constant.map(shape, put) if w.constant else None)


def filter_rows(n: Node, x: Value, begin: int, end: int) -> Value:
    """Return rows `begin` to `end` of a constant filter or bias, with their scales."""
    n.require(x.constant is not None, Reason.CONSTANT, f"{x.name} must be constant to be split")
    shape = (end - begin, *x.shape[1:])
    rows = x.constant.map(shape, lambda a: a[begin:end]) if x.constant else None
    q = x.quantization
    if q is not None and q.axis == 0:
        q = Quantization(q.scale[begin:end], q.zero_point[begin:end], 0)
    return replace(x, dims=shape, constant=rows, quantization=q)


FILTER_PERM = NHWC
"""Permutation from ONNX's filter layout OIHW to NNAPI's."""
DEPTHWISE_FILTER_PERM = (1, 2, 3, 0)
MAX_GROUPS = 64
"""Largest `group` that is lowered to one convolution for each group."""
DEPTHWISE_PARTS = (2, 4, 8)
"""Numbers of operations that share the channels of one whose kernel does not take them all."""


@frozen
class _Convolution:
    """Operands of a convolution: image [N, C, H, W], filter [O, C / group, kH, kW], bias [O]."""

    image: Value
    filter: Value
    bias: Value
    window: Window
    group: int = 1

    @property
    def depthwise(self) -> bool:
        """True if each group has one input channel."""
        return self.group > 1 and self.filter.shape[1] == 1

    def call(self, n: Node, y: Value) -> Call:
        """Return the single NNAPI operation for this convolution."""
        operands: dict[str, Given] = {
            "filter": View(self.filter, DEPTHWISE_FILTER_PERM if self.depthwise else FILTER_PERM),
            "bias": self.bias,
            **self.window.operands(),
        }
        image, out = images(n, self.image), images(n, y)
        if self.depthwise:
            multiplier = self.filter.shape[0] // self.group
            operands |= _layout_and_dilation(n, self.window)
            return apply(
                spec.DEPTHWISE_CONV_2D, image, **operands, depth_multiplier=multiplier, out=out
            )
        if self.group > 1:
            operands["layout"] = n.target.nchw
            return apply(spec.GROUPED_CONV_2D, image, **operands, num_groups=self.group, out=out)
        return apply(
            spec.CONV_2D, image, **operands, **_layout_and_dilation(n, self.window), out=out
        )

    def undilated(self, n: Node) -> _Convolution:
        """Return the same convolution undilated, with zeros between the taps of its filter."""
        wide = dilated_filter(n, self.filter, self.window.dilations)
        high, across = wide.shape[2:]
        plain = replace(self.window, kernel=(high, across), dilations=(1, 1))
        return replace(self, filter=wide, window=plain)


def convolve(n: Node, y: Value) -> Iterator[Call]:
    """Emit `y` = input 0 convolved with the filter in input 1, plus the bias in input 2."""
    x, w, group = n.input(0), n.input(1), n.integer("group", 1)
    win = window(n, filter_size(n, w))
    require_groups(n, lambda: w.shape[1] * group == x.shape[1] and w.shape[0] % group == 0)
    n.require(
        y.rank == x.rank and y.shape[:2] == (x.shape[0], w.shape[0]),
        Reason.SHAPE,
        f"{y.name} is declared as {list(y.shape)}; Conv computes {[x.shape[0], w.shape[0]]}, ...",
    )
    image, win = yield from _image(n, x, win)
    taps = yield from n.reshaped(w, (*w.shape[:2], *win.kernel))
    shift = bias(x, w, n.input(2) if n.has(2) else None, w.shape[0])
    out = n.output_or_temp(y, (*y.shape[:2], *planar(y.shape[2:])))
    whole = _Convolution(image, taps, shift, win, group)
    if win.dilated and ((group > 1 and not whole.depthwise) or not n.supports(whole.call(n, out))):
        whole = whole.undilated(n)
    call = whole.call(n, out)
    size = _part_size(n, whole, call, out)
    if size == group:
        yield call
    else:
        yield from _in_parts(n, whole, out, size)
    yield from n.write_output(out, y)


def require_groups(n: Node, fits: Callable[[], bool]) -> None:
    """Raise Reject unless the node has a positive number of groups, and image and filter fit."""
    x, w, group = n.input(0), n.input(1), n.integer("group", 1)
    n.require(group > 0, Reason.ATTRIBUTE, f"group is {group}; it must be positive")
    n.require(
        fits(),
        Reason.SHAPE,
        f"{w.name} of shape {list(w.shape)} in {group} groups does not fit {x.name} of shape "
        f"{list(x.shape)}",
    )


def _image(n: Node, x: Value, win: Window) -> Generator[Call, None, tuple[Value, Window]]:
    """Return `x` as an image and the window over it.

    PAD pads the image if a window would lie in the padding alone: Android's kernels refuse those;
    and where operands cannot say the padding of all sizes.
    """
    image = yield from n.reshaped(x, (*x.shape[:2], *win.input))
    if image is not x:
        require_permute(n, image)
    p, (high, wide) = win.pads, win.span
    small = p.top < high and p.bottom < high and p.left < wide and p.right < wide
    if small and not win.varies:
        return image, win
    height, width = win.input
    size = (height + p.top + p.bottom, width + p.left + p.right)
    around = int32((0, 0, 0, 0, p.top, p.bottom, p.left, p.right)).reshaped((4, 2))
    shape = (*image.shape[:2], *size)
    found = yield from n.compute(spec.PAD, image, paddings=around, shape=shape)
    return found, replace(win, pads=Pads(), input=size)


def _part_size(n: Node, whole: _Convolution, call: Call, y: Value) -> int:
    """Return how many groups one operation computes; all of them where no other number helps.

    Kernels of DEPTHWISE_CONV_2D have a greatest number of channels.
    """
    size = whole.group
    if size == 1 or n.supports(call):
        return size
    if not whole.depthwise:
        return 1
    if whole.filter.constant is None or whole.bias.constant is None:
        return size
    for parts in DEPTHWISE_PARTS:
        part = -(-size // parts)
        if all(map(n.supports, _part(n, whole, y, range(part))[1])):
            return part
    return size


def _part(n: Node, whole: _Convolution, y: Value, groups: range) -> tuple[Value, list[Call]]:
    """Return the output of some of the groups and its calls: a slice, a convolution."""
    x, filters = whole.image, whole.filter.shape[0] // whole.group
    channels = x.shape[1] // whole.group
    taken = along(x.shape, 1, Span(groups.start * channels, groups.stop * channels))
    image = n.temp(x, [span.size for span in taken])
    rows = (groups.start * filters, groups.stop * filters)
    taps, shift = filter_rows(n, whole.filter, *rows), filter_rows(n, whole.bias, *rows)
    out = n.temp(y, (y.shape[0], filters * len(groups), *y.shape[2:]))
    convolution = _Convolution(image, taps, shift, whole.window, len(groups))
    return out, [*slice_spans(n, x, taken, image), convolution.call(n, out)]


def _in_parts(n: Node, whole: _Convolution, y: Value, size: int) -> Iterator[Call]:
    """Emit a convolution for every `size` groups of channels and concatenate their outputs."""
    group = whole.group
    detail = f"group is {group}; below GROUPED_CONV_2D's level at most {MAX_GROUPS} are supported"
    n.require(size > 1 or group <= MAX_GROUPS, Reason.SIZE, detail)
    outs = []
    for start in range(0, group, size):
        out, calls = _part(n, whole, y, range(start, min(start + size, group)))
        outs.append(out)
        yield from calls
    yield apply(spec.CONCATENATION, inputs=outs, axis=1, out=y)


def _layout_and_dilation(n: Node, win: Window) -> Mapping[str, Given]:
    """Layout and dilation operands; dilation (1, 1) is omitted, as some drivers reject it."""
    if not win.dilated:
        return {"layout": layout(n)}
    height, width = win.dilations
    return {"layout": n.target.nchw, "dilation_width": width, "dilation_height": height}
