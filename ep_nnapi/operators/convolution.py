"""Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.arguments import View
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.operators.lib.convolution import (
    MAX_GROUPS,
    convolve,
    dilated_filter,
    filter_rows,
    filter_size,
    images,
    planar,
    require_groups,
)
from ep_nnapi.operators.lib.movement import equal_parts
from ep_nnapi.operators.lib.node import Node, op
from ep_nnapi.operators.lib.quantizing import bias


@op("Conv", since=1)
def conv(n: Node) -> Iterator[Call]:
    """Convolution in one or two dimensions: plain, depthwise (one channel a group) or grouped.

    x [N, C, H, W] or [N, C, L], w [O, C / group, kH, kW], b [O] (zeros when absent)
    """
    yield from convolve(n, n.output())


@op("ConvTranspose", since=1)
def conv_transpose(n: Node) -> Iterator[Call]:
    """Transposed convolution in one or two dimensions.

    x [N, C, H, W] or [N, C, L], w [C, O / group, kH, kW], b [O] (zeros when absent)
    Dilation, and outputs larger than NNAPI computes, become zeros in the constant filter.
    """
    yield from transpose_convolve(n, n.output())


TRANSPOSED_FILTER_PERM = (1, 2, 3, 0)
"""Permutation from ONNX's filter layout [C, O / group, kH, kW] to NNAPI's."""


@frozen
class _TransposedAxis:
    """The window along one axis; `begin`, `end`: elements cropped from the full result.

    Negative ones are elements added to it.
    """

    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def filter_padding(self) -> tuple[int, int]:
        """Zeros padded before and after the filter, which enlarge the result."""
        return max(0, -self.begin), max(0, -self.end)

    @property
    def crop(self) -> tuple[int, int]:
        """Elements cropped from the begin and the end of the result."""
        return max(0, self.begin), max(0, self.end)


def transpose_convolve(n: Node, y: Value) -> Iterator[Call]:
    """Emit `y` = input 0 transpose-convolved with the filter in input 1, plus the bias."""
    x, w, group = n.input(0), n.input(1), n.integer("group", 1)
    detail = f"{x.name} has rank {x.rank}, NNAPI's windows are two-dimensional (rank 4, or 3)"
    n.require(x.rank in (3, 4) and w.rank == x.rank, Reason.RANK, detail)
    filter_size(n, w)
    require_groups(n, lambda: w.shape[0] == x.shape[1] and x.shape[1] % group == 0)
    n.require(
        y.rank == x.rank, Reason.SHAPE, f"{y.name} has rank {y.rank}, {x.name} has rank {x.rank}"
    )
    axes = _window_axes(n, x, w, y)
    image = yield from n.reshaped(x, (*x.shape[:2], *planar(x.shape[2:])))
    taps = yield from n.reshaped(w, (*w.shape[:2], *planar(w.shape[2:])))
    taps = dilated_filter(n, taps, [s.dilation for s in axes], [s.filter_padding for s in axes])
    shift = bias(x, w, n.input(2) if n.has(2) else None, w.shape[1] * group)
    result = n.output_or_temp(y, (*y.shape[:2], *planar(y.shape[2:])))
    whole = _TransposedConvolution(image, taps, shift, axes)
    if group == 1:
        yield whole.call(n, result)
    else:
        yield from whole.by_groups(n, group, result)
    yield from n.write_output(result, y)


def _window_axes(n: Node, x: Value, w: Value, y: Value) -> tuple[_TransposedAxis, _TransposedAxis]:
    """Windows of height and width; pads are derived from the output's shape where not given."""
    axes = x.rank - 2
    ones, none = (1,) * axes, (0,) * axes
    strides, dilations = n.integers_like("strides", ones), n.integers_like("dilations", ones)
    more = n.integers_like("output_padding", none)
    begins = n.integers_like("pads", none * 2)[:axes]
    auto = n.text("auto_pad", "NOTSET")
    found = []
    for i, (stride, dilation) in enumerate(zip(strides, dilations, strict=True)):
        full = (x.shape[2 + i] - 1) * stride + (w.shape[2 + i] - 1) * dilation + 1
        begin = begins[i]
        if n.has_attribute("output_shape") or auto.startswith("SAME"):
            total = max(0, full + more[i] - y.shape[2 + i])
            begin = total // 2 if auto == "SAME_UPPER" else total - total // 2
        elif auto == "VALID":
            begin = 0
        found.append(_TransposedAxis(stride, dilation, begin, full - begin - y.shape[2 + i]))
    width = found[-1]
    return (found[0] if axes == 2 else _TransposedAxis(1, 1, 0, 0)), width


@frozen
class _TransposedConvolution:
    """A transposed convolution: image [N, C, H, W], filter [C, O / group, kH, kW], bias [O]."""

    image: Value
    taps: Value
    bias: Value
    axes: tuple[_TransposedAxis, _TransposedAxis]

    def call(self, n: Node, y: Value) -> Call:
        """Return the operation of one group."""
        high, wide = self.axes
        (top, bottom), (left, right) = high.crop, wide.crop
        return apply(
            spec.TRANSPOSE_CONV_2D,
            images(n, self.image),
            filter=View(self.taps, TRANSPOSED_FILTER_PERM),
            bias=self.bias,
            padding_left=left,
            padding_right=right,
            padding_top=top,
            padding_bottom=bottom,
            stride_width=wide.stride,
            stride_height=high.stride,
            layout=n.target.nchw,
            out=images(n, y),
        )

    def by_groups(self, n: Node, group: int, y: Value) -> Iterator[Call]:
        """Emit a convolution for each group of channels and concatenate the outputs."""
        detail = f"group is {group}; at most {MAX_GROUPS} are supported"
        n.require(group <= MAX_GROUPS, Reason.SIZE, detail)
        parts = yield from equal_parts(n, self.image, 1, group)
        channels, filters = parts[0].shape[1], self.taps.shape[1]
        outs = [n.temp(y, (y.shape[0], filters, *y.shape[2:])) for _ in parts]
        for i, (part, out) in enumerate(zip(parts, outs, strict=True)):
            taps = filter_rows(n, self.taps, i * channels, (i + 1) * channels)
            bias = filter_rows(n, self.bias, i * filters, (i + 1) * filters)
            yield _TransposedConvolution(part, taps, bias, self.axes).call(n, out)
        yield apply(spec.CONCATENATION, inputs=outs, axis=1, out=y)
