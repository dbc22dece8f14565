"""Lowering of Conv to the fastest NNAPI operations that the feature level has."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import NHWC, Call, Given, View, apply
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.spec import CONCATENATION, CONV_2D, DEPTHWISE_CONV_2D, GROUPED_CONV_2D, PAD
from ep_nnapi.operators.lib.emit import compute, output_or_temp, reshaped, write_output
from ep_nnapi.operators.lib.filters import dilated_filter, filter_rows
from ep_nnapi.operators.lib.node import Node, int32
from ep_nnapi.operators.lib.quantizing import bias
from ep_nnapi.operators.lib.slicing import slice_ranges
from ep_nnapi.operators.lib.window import (
    Pads,
    Window,
    filter_size,
    images,
    layout,
    require_permute,
    window,
)

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
            return apply(DEPTHWISE_CONV_2D, image, **operands, depth_multiplier=multiplier, out=out)
        if self.group > 1:
            operands["layout"] = n.target.nchw
            return apply(GROUPED_CONV_2D, image, **operands, num_groups=self.group, out=out)
        return apply(CONV_2D, image, **operands, **_layout_and_dilation(n, self.window), out=out)

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
    n.require(group > 0, Reason.ATTRIBUTE, f"group is {group}; it must be positive")
    n.require(
        w.shape[1] * group == x.shape[1] and w.shape[0] % group == 0,
        Reason.SHAPE,
        f"{w.name} of shape {list(w.shape)} in {group} groups does not fit {x.name} of shape "
        f"{list(x.shape)}",
    )
    n.require(
        y.rank == x.rank and y.shape[:2] == (x.shape[0], w.shape[0]),
        Reason.SHAPE,
        f"{y.name} is declared as {list(y.shape)}; Conv computes {[x.shape[0], w.shape[0]]}, ...",
    )
    image, win = yield from _image(n, x, win)
    taps = yield from reshaped(n, w, (*w.shape[:2], *win.kernel))
    shift = bias(x, w, n.input(2) if n.has(2) else None, w.shape[0])
    out = output_or_temp(n, y, (*y.shape[:2], *_output_size(y)))
    whole = _Convolution(image, taps, shift, win, group)
    if win.dilated and ((group > 1 and not whole.depthwise) or not n.supports(whole.call(n, out))):
        whole = whole.undilated(n)
    call = whole.call(n, out)
    size = _part_size(n, whole, call, out)
    if size == group:
        yield call
    else:
        yield from _in_parts(n, whole, out, size)
    yield from write_output(n, out, y)


def _output_size(y: Value) -> tuple[int, int]:
    return (1, y.shape[2]) if y.rank == 3 else (y.shape[2], y.shape[3])


def _image(n: Node, x: Value, win: Window) -> Generator[Call, None, tuple[Value, Window]]:
    """Return `x` as an image and the window over it.

    PAD pads the image if a window would lie in the padding alone: Android's kernels refuse those.
    """
    image = yield from reshaped(n, x, (*x.shape[:2], *win.input))
    if image is not x:
        require_permute(n, image)
    p, (high, wide) = win.pads, win.span
    if max(p.top, p.bottom) < high and max(p.left, p.right) < wide:
        return image, win
    height, width = win.input
    size = (height + p.top + p.bottom, width + p.left + p.right)
    around = int32((0, 0, 0, 0, p.top, p.bottom, p.left, p.right)).reshaped((4, 2))
    shape = (*image.shape[:2], *size)
    found = yield from compute(n, PAD, image, paddings=around, shape=shape)
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
    taken = [range(size) for size in x.shape]
    taken[1] = range(groups.start * channels, groups.stop * channels)
    image = n.temp(x, [len(r) for r in taken])
    rows = (groups.start * filters, groups.stop * filters)
    taps, shift = filter_rows(n, whole.filter, *rows), filter_rows(n, whole.bias, *rows)
    out = n.temp(y, (y.shape[0], filters * len(groups), *y.shape[2:]))
    convolution = _Convolution(image, taps, shift, whole.window, len(groups))
    return out, [*slice_ranges(n, x, taken, image), convolution.call(n, out)]


def _in_parts(n: Node, whole: _Convolution, y: Value, size: int) -> Iterator[Call]:
    """Emit a convolution for every `size` groups of channels and concatenate their outputs."""
    group = whole.group
    n.require(
        size > 1 or group <= MAX_GROUPS,
        Reason.SIZE,
        f"group is {group}; below GROUPED_CONV_2D's level at most {MAX_GROUPS} are supported",
    )
    outs = []
    for start in range(0, group, size):
        out, calls = _part(n, whole, y, range(start, min(start + size, group)))
        outs.append(out)
        yield from calls
    yield apply(CONCATENATION, inputs=outs, axis=1, out=y)


def _layout_and_dilation(n: Node, win: Window) -> Mapping[str, Given]:
    """Layout and dilation operands; dilation (1, 1) is omitted, as some drivers reject it."""
    if not win.dilated:
        return {"layout": layout(n)}
    height, width = win.dilations
    return {"layout": n.target.nchw, "dilation_width": width, "dilation_height": height}
