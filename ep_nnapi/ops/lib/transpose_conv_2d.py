"""Lowering of ConvTranspose to NNAPI operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ep_nnapi.errors import Reason
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.call import Call, View
from ep_nnapi.nnapi.spec import CONCATENATION, TRANSPOSE_CONV_2D
from ep_nnapi.ops.lib.emit import place, reshaped, settle
from ep_nnapi.ops.lib.filters import part, spread
from ep_nnapi.ops.lib.node import Node
from ep_nnapi.ops.lib.quantizing import bias
from ep_nnapi.ops.lib.slicing import crop
from ep_nnapi.ops.lib.window import images, planar

OHWI = (1, 2, 3, 0)
"""Permutation from ONNX's filter layout [C, O / group, kH, kW] to NNAPI's."""
MOST_GROUPS = 64
"""Largest `group` that is lowered to one transposed convolution for each group."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The window along one axis; `begin`, `end`: elements cropped from the full result.

    Negative ones are elements added to it.
    """

    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def margin(self) -> tuple[int, int]:
        """Zeros padded before and after the filter, which enlarge the result."""
        return max(0, -self.begin), max(0, -self.end)

    @property
    def cut(self) -> tuple[int, int]:
        """Elements cropped from the begin and the end of the result."""
        return max(0, self.begin), max(0, self.end)


def transposed(n: Node, y: Value) -> Iterator[Call]:
    """Emit `y` = input 0 transpose-convolved with the filter in input 1, plus the bias."""
    x, w, group = n.input(0), n.input(1), n.integer("group", 1)
    n.require(
        x.rank in (3, 4) and w.rank == x.rank,
        Reason.RANK,
        f"{x.name} has rank {x.rank}, NNAPI's windows are two-dimensional (rank 4, or 3)",
    )
    sides = _sides(n, x, w, y)
    image = yield from reshaped(n, x, (*x.shape[:2], *planar(x.shape[2:])))
    taps = yield from reshaped(n, w, (*w.shape[:2], *planar(w.shape[2:])))
    taps = spread(n, taps, [s.dilation for s in sides], [s.margin for s in sides])
    shift = bias(x, w, n.input(2) if n.has(2) else None, w.shape[1] * group)
    made = place(n, y, (*y.shape[:2], *planar(y.shape[2:])))
    if group == 1:
        yield _call(n, image, taps, shift, sides, made)
    else:
        yield from _by_groups(n, image, taps, shift, sides, made)
    yield from settle(n, made, y)


def _sides(n: Node, x: Value, w: Value, y: Value) -> tuple[_Side, _Side]:
    """Windows of height and width; pads are derived from the output's shape where not given."""
    axes = x.rank - 2
    ones, none = (1,) * axes, (0,) * axes
    strides, dilations = n.integers("strides", ones), n.integers("dilations", ones)
    more = n.integers("output_padding", none)
    begins = n.integers("pads", none * 2)[:axes]
    auto = n.text("auto_pad", "NOTSET")
    found = []
    for i, (stride, dilation) in enumerate(zip(strides, dilations, strict=True)):
        full = (x.shape[2 + i] - 1) * stride + (w.shape[2 + i] - 1) * dilation + 1
        begin = begins[i]
        if n.given("output_shape") or auto.startswith("SAME"):
            total = max(0, full + more[i] - y.shape[2 + i])
            begin = total // 2 if auto == "SAME_UPPER" else total - total // 2
        elif auto == "VALID":
            begin = 0
        found.append(_Side(stride, dilation, begin, full - begin - y.shape[2 + i]))
    width = found[-1]
    return (found[0] if axes == 2 else _Side(1, 1, 0, 0)), width


def _call(
    n: Node, image: Value, taps: Value, bias: Value, sides: tuple[_Side, _Side], y: Value
) -> Call:
    high, wide = sides
    (top, bottom), (left, right) = high.cut, wide.cut
    return TRANSPOSE_CONV_2D(
        images(n, image),
        filter=View(taps, OHWI),
        bias=bias,
        padding_left=left,
        padding_right=right,
        padding_top=top,
        padding_bottom=bottom,
        stride_width=wide.stride,
        stride_height=high.stride,
        layout=n.target.nchw,
        out=images(n, y),
    )


def _by_groups(
    n: Node, image: Value, taps: Value, bias: Value, sides: tuple[_Side, _Side], y: Value
) -> Iterator[Call]:
    """Emit a transposed convolution for each group of channels and concatenate the outputs."""
    group = n.integer("group", 1)
    n.require(
        group <= MOST_GROUPS,
        Reason.SIZE,
        f"group is {group}; up to {MOST_GROUPS} transposed convolutions are taken for one",
    )
    channels, filters = image.shape[1] // group, taps.shape[1]
    outs = []
    for i in range(group):
        rows = range(i * channels, (i + 1) * channels)
        taken = [range(size) for size in image.shape]
        taken[1] = rows
        piece = n.temp(image, [len(r) for r in taken])
        yield from crop(n, image, taken, piece)
        own = part(n, taps, rows.start, rows.stop)
        outs.append(n.temp(y, (y.shape[0], filters, *y.shape[2:])))
        added = part(n, bias, i * filters, (i + 1) * filters)
        yield _call(n, piece, own, added, sides, outs[-1])
    yield CONCATENATION(inputs=outs, axis=1, out=y)
