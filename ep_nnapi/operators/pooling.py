"""Pooling operators, over windows of one to three dimensions and global.

Pooling is separable: a window is the product of one window for each axis, and so is its number of
elements. Two axes can therefore be pooled in one pass of a 2-D pool and the third in another.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from math import prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import identical, is_symbolic
from ep_nnapi.nnapi.spans import Span
from ep_nnapi.operators.lib.convolution import Pads, Window, images, layout, pads
from ep_nnapi.operators.lib.movement import strided_slice
from ep_nnapi.operators.lib.node import Computed, Node, int32, op, widened
from ep_nnapi.operators.lib.reduction import reduce


@op("MaxPool", since=1, moves=True)
def max_pool(n: Node) -> Iterator[Call]:
    """The greatest element of each window.

    x [N, C, ...], y [N, C, ...] with one to three dimensions after the channels
    """
    detail = "output Indices is used; NNAPI's pools have no such output"
    n.require(not n.has_output(1), Reason.ATTRIBUTE, detail)
    x, y = n.input(0), n.output()
    yield from pooled(n, spec.MAX_POOL_2D, x, axis_windows(n, x, y), y)


@op("AveragePool", since=1)
def average_pool_1(n: Node) -> Iterator[Call]:
    """The mean of each window, of which padding is a part with `count_include_pad`.

    A window larger than the image and its padding, as ONNX Runtime allows one, counts wholly then.
    """
    yield from _average(n, beyond=not n.integer("ceil_mode", 0))


@op("AveragePool", since=19)
def average_pool_19(n: Node) -> Iterator[Call]:
    """The same, of which no window counts beyond the padding."""
    yield from _average(n, beyond=False)


def _average(n: Node, *, beyond: bool) -> Iterator[Call]:
    """Emit the mean; with `count_include_pad` a factor corrects NNAPI's, which excludes padding."""
    x, y = n.input(0), n.output()
    padding_counts = n.integer("count_include_pad", 0) != 0
    windows = axis_windows(n, x, y)
    if beyond:
        windows = [replace(w, padded=w.after) for w in windows]
    padding_counts &= not all(identical((w.before, w.after), (0, 0)) for w in windows)
    if padding_counts and x.dtype is DType.FLOAT16:  # rounded once
        yield from widened(partial(_average, beyond=beyond))(n)
        return
    dilated = any(w.dilation != 1 for w in windows)
    if padding_counts and not dilated and is_open(windows):
        x, windows = yield from _with_zeros(n, x, windows)
        padding_counts = False

    def factors(pool_pass: PoolPass) -> tuple[Array, Array]:
        axes = (pool_pass.height, pool_pass.width)
        counts = [s.taps_in_padded_image() if padding_counts else s.taps_in_image() for s in axes]
        height, width = (a / c for a, c in zip(pool_pass.averaged_counts(), counts, strict=True))
        return height, width

    own = not dilated and not padding_counts
    yield from pooled(n, spec.AVERAGE_POOL_2D, x, windows, y, None if own else factors)


@op("LpPool", since=1)
@widened
def lp_pool(n: Node) -> Iterator[Call]:
    """The p-norm of each window, `p` being 2 by default."""
    x, y = n.input(0), n.output()
    yield from _norms(n, x, axis_windows(n, x, y), y)


@op("GlobalLpPool", since=1)
def global_lp_pool(n: Node) -> Iterator[Call]:
    """The p-norm of each channel, `p` being 2 by default."""
    x, y = n.input(0), n.output()
    yield from _norms(n, x, whole_image(x), y)


def _norms(n: Node, x: Value, windows: Sequence[AxisWindow], y: Value) -> Iterator[Call]:
    """Emit the p-norm of each window; factors undo NNAPI's division by the number of elements."""
    p = n.real("p", 2.0)
    n.require(p > 0, Reason.ATTRIBUTE, f"p is {p:g}; a norm has p > 0")
    if is_open(windows):
        x, windows = yield from _with_zeros(n, x, windows)
    if p == 2:
        yield from pooled(n, spec.L2_POOL_2D, x, windows, y, _lengths)
        return
    size = yield from n.absolute_of(x)
    if p == 1:
        yield from pooled(n, spec.AVERAGE_POOL_2D, size, windows, y, PoolPass.averaged_counts)
        return
    power = yield from n.compute(spec.POW, size, n.scalar(p, x))
    total = n.temp(y)
    yield from pooled(n, spec.AVERAGE_POOL_2D, power, windows, total, PoolPass.averaged_counts)
    yield apply(spec.POW, total, n.scalar(1 / p, x), out=y)


def _lengths(pool_pass: PoolPass) -> tuple[Array, Array]:
    height, width = pool_pass.averaged_counts()
    return np.sqrt(height), np.sqrt(width)


@op("GlobalAveragePool", since=1)
def global_average_pool(n: Node) -> Iterator[Call]:
    """The mean of each channel."""
    yield from _global(n, spec.MEAN, spec.AVERAGE_POOL_2D)


@op("GlobalMaxPool", since=1, keeps=True)
def global_max_pool(n: Node) -> Iterator[Call]:
    """The greatest element of each channel."""
    yield from _global(n, spec.REDUCE_MAX, spec.MAX_POOL_2D)


def _global(n: Node, reduction: OperationSpec, pool: OperationSpec) -> Iterator[Call]:
    """Emit a global pool: a reduction, which needs no layout change, or a full-size window."""
    x, y = n.input(0), n.output()
    calls = list(reduce(n, reduction, x, range(2, x.rank), y, keep=True))
    alike = x.quantization == y.quantization
    yield from (
        calls if alike and all(map(n.supports, calls)) else pooled(n, pool, x, whole_image(x), y)
    )


@frozen
class AxisWindow:
    """A window along one axis of `size`, at `out` positions.

    before, after   padding; `after` includes the extra elements of ceil_mode
    padded          the part of `after` that ONNX counts as padding (`pads`)
    """

    size: int
    out: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    padded: int = 0

    @property
    def extent(self) -> int:
        """The number of elements that a window spans, with its dilation."""
        return (self.kernel - 1) * self.dilation + 1

    def taps_in_image(self) -> Array:
        """Return the number of taps inside the image, for each window position."""
        return self._taps_within(0, self.size)

    def taps_in_padded_image(self) -> Array:
        """Return the number of taps inside the image or its padding, for each position."""
        return self._taps_within(-self.before, self.size + self.padded)

    def _taps_within(self, first: int, end: int) -> Array:
        """Return it; one number for all positions where these are symbols and none is padded."""
        if is_open((self,)) and identical((self.before, self.after), (0, 0)):
            return np.full(1, self.kernel)
        places = np.arange(self.out) * self.stride - self.before
        # indexes of the first tap that is >= `first`, and of the first that is >= `end`
        low, height = (
            np.clip(-((places - at) // self.dilation), 0, self.kernel) for at in (first, end)
        )
        found: Array = height - low
        return found


@frozen
class PoolPass:
    """The two axes that one pass pools."""

    height: AxisWindow
    width: AxisWindow

    @property
    def dilated(self) -> bool:
        """True if either axis has a dilation other than 1."""
        return (self.height.dilation, self.width.dilation) != (1, 1)

    def averaged_counts(self) -> tuple[Array, Array]:
        """Return the number of elements that NNAPI averages, for each row and each column.

        With dilation, padding counts, because it is stored explicitly there.
        """
        axis_windows = (self.height, self.width)
        height, width = (
            np.full(s.out, s.kernel) if self.dilated else s.taps_in_image() for s in axis_windows
        )
        return height, width


Factors: TypeAlias = Callable[[PoolPass], tuple[Array, Array]]
"""Function that returns the factors for each row and each column of a pass's result."""


def axis_windows(n: Node, x: Value, y: Value) -> list[AxisWindow]:
    """Return the window along each axis of the node's pool from `x` [N, C, ...] to `y`.

    Raises Reject for a window that does not fit, or attributes that ONNX does not define.
    """
    kernel = n.integers("kernel_shape")
    axes, ceil = len(kernel), n.integer("ceil_mode", 0)
    n.require(ceil in (0, 1), Reason.ATTRIBUTE, f"ceil_mode is {ceil}; ONNX has 0 and 1")
    detail = f"kernel_shape is {list(kernel)} for {x.name} of rank {x.rank}"
    n.require(x.rank == axes + 2, Reason.ATTRIBUTE, detail)
    strides, dilations = (n.integers_like(name, (1,) * axes) for name in ("strides", "dilations"))
    size, out = x.shape[2:], y.shape[2:]
    around = pads(n, size, kernel, strides, dilations)
    given = zip(size, out, kernel, strides, dilations, around[:axes], around[axes:], strict=True)
    found = [_axis_window(*numbers, ceil=ceil == 1) for numbers in given]
    fits = all(s.out > 0 for s in found)
    n.require(fits, Reason.SHAPE, f"a window of {list(kernel)} does not fit {x.name}")
    n.require(
        all((s.out - 1) * s.stride < s.size + s.before for s in found),
        Reason.SHAPE,
        f"{y.name} has shape {list(y.shape)}, of which windows begin after the image; "
        "ONNX leaves these out",
    )
    n.require(
        not n.text("auto_pad", "NOTSET").startswith("SAME")
        or all((s.out - 1) * s.stride + s.extent - s.size >= -1 for s in found),
        Reason.ATTRIBUTE,
        f"auto_pad is {n.text('auto_pad', '')} of windows that skip elements; use pads",
    )
    return found


def _axis_window(
    size: int,
    out: int,
    kernel: int,
    stride: int,
    dilation: int,
    before: int,
    after: int,
    *,
    ceil: bool,
) -> AxisWindow:
    """Return the window; the greater one is named first where sizes are symbols, as a rule."""
    missing = (out - 1) * stride + (kernel - 1) * dilation + 1 - size - before
    whole = max(missing, after) if ceil else max(after, missing)
    return AxisWindow(size, out, kernel, stride, dilation, before, whole, after)


def is_open(windows: Sequence[AxisWindow]) -> bool:
    """True if sizes are symbols, for which no factors can be computed."""
    return is_symbolic(size for w in windows for size in (w.size, w.out))


def _with_zeros(
    n: Node, x: Value, windows: Sequence[AxisWindow]
) -> Generator[Call, None, tuple[Value, list[AxisWindow]]]:
    """Return `x` with its padding stored as zeros, and the windows over that."""
    first = x.shape[:2] if x.rank <= MAX_RANK else (x.shape[0] * x.shape[1],)
    if n.target.kernel_level == 2:
        first = (1,) * (MAX_RANK - len(first) - len(windows)) + first
    around = [*[(0, 0)] * len(first), *((w.before, w.padded) for w in windows)]
    sides = [size for pair in around for size in pair]
    if identical(sides, [0] * len(sides)):
        return x, [*windows]
    sizes = [w.size + w.before + w.padded for w in windows]
    planes = yield from n.reshaped(x, (*first, *x.shape[2:]))
    paddings = int32(sides).reshaped((len(around), 2))
    wide = yield from n.compute(spec.PAD, planes, paddings=paddings, shape=(*first, *sizes))
    padded = yield from n.reshaped(wide, (*x.shape[:2], *sizes))
    inside = [
        replace(w, size=size, before=0, after=w.after - w.padded, padded=0)
        for w, size in zip(windows, sizes, strict=True)
    ]
    return padded, inside


def whole_image(x: Value) -> list[AxisWindow]:
    """Return windows that cover the whole image (global pooling)."""
    if x.rank < 3:
        raise Reject(Reason.RANK, f"{x.name} has rank {x.rank} and no image to pool")
    return [AxisWindow(size, 1, size) for size in x.shape[2:]]


def pool_passes(windows: Sequence[AxisWindow], channels: int) -> list[PoolPass]:
    """Return the passes in order: the last two axes, then the first of three.

    A single axis is pooled in a plane with the channel axis; raises Reject(RANK) beyond 3 axes.
    """
    match windows:
        case [only]:
            return [PoolPass(AxisWindow(channels, channels), only)]
        case [height, width]:
            return [PoolPass(height, width)]
        case [deep, height, width]:
            image = height.out * width.out
            return [PoolPass(height, width), PoolPass(deep, AxisWindow(image, image))]
    raise Reject(Reason.RANK, f"the window has {len(windows)} dimensions; use at most 3")


def pooled(
    n: Node,
    row: OperationSpec,
    x: Value,
    windows: Sequence[AxisWindow],
    y: Value,
    factors: Factors | None = None,
) -> Iterator[Call]:
    """Emit `y` = `x` [N, C, ...] pooled by `row`, the result of each pass times its factors."""
    n.require_same_quantization(x, y)
    channels = x.shape[1]
    seen = channels if len(windows) == 2 else 1  # with one channel, NHWC needs no transpose
    for pool_pass in pool_passes(windows, channels):
        height, width = pool_pass.height.size, pool_pass.width.size
        image = yield from n.reshaped(x, (x.size // (seen * height * width), seen, height, width))
        x = yield from _pass(n, row, image, pool_pass, factors, y)
    yield from n.write_output(x, y)


def _pass(
    n: Node, row: OperationSpec, x: Value, pool_pass: PoolPass, factors: Factors | None, y: Value
) -> Computed:
    """Return `x` [N, C, H, W] after one pass; `y` itself where that is the result."""
    shape = (*x.shape[:2], pool_pass.height.out, pool_pass.width.out)
    out = n.output_or_temp(y, shape)
    height, width = factors(pool_pass) if factors is not None else (np.ones(1), np.ones(1))
    numbers = np.outer(height, width)
    if np.all(numbers == 1):
        yield from _window(n, row, x, pool_pass, out)
        return out
    plain = n.temp(x, shape)
    yield from _window(n, row, x, pool_pass, plain)
    one = n.scalar(1, x)
    if np.all(numbers == numbers[0, 0]):
        factor = one.map((1,), lambda a: (a * numbers[0, 0]).astype(a.dtype))
    else:
        sizes = (1, 1, *numbers.shape)
        factor = one.map(sizes, lambda a: (a * numbers).astype(a.dtype).reshape(sizes))
    yield apply(spec.MUL, plain, factor, out=out)
    return out


def _window(n: Node, row: OperationSpec, x: Value, pool_pass: PoolPass, y: Value) -> Iterator[Call]:
    if pool_pass.dilated:
        yield from _dilated(n, row, x, pool_pass, y)
        return
    height, width = pool_pass.height, pool_pass.width
    window = Window(
        (height.kernel, width.kernel),
        (height.stride, width.stride),
        (1, 1),
        Pads(width.before, width.after, height.before, height.after),
        (height.size, width.size),
    )
    if row == spec.MAX_POOL_2D and window.varies:
        axes = (height, width)
        sizes = [s.before + s.size + s.after for s in axes]
        x = yield from _padded(n, row, x, axes, sizes)
        window = replace(window, pads=Pads(), input=(sizes[0], sizes[1]))
    yield _call(n, row, x, window, y)


def _call(n: Node, row: OperationSpec, x: Value, window: Window, y: Value) -> Call:
    return apply(
        row,
        images(n, x),
        **window.operands(),
        filter_width=window.kernel[1],
        filter_height=window.kernel[0],
        layout=layout(n),
        out=images(n, y),
    )


def _dilated(
    n: Node, row: OperationSpec, x: Value, pool_pass: PoolPass, y: Value
) -> Iterator[Call]:
    """Emit a dilated pool: SPACE_TO_BATCH_ND by the dilation, an undilated pool, and back."""
    axes = (pool_pass.height, pool_pass.width)
    blocks = tuple(s.dilation for s in axes)
    sizes = [-(-max(s.before + s.size + s.after, s.extent) // s.dilation) for s in axes]
    places = [size - s.kernel + 1 for size, s in zip(sizes, axes, strict=True)]
    width = yield from _padded(n, row, x, axes, sizes)
    parts = n.temp(x, (x.shape[0] * prod(blocks), x.shape[1], *sizes))
    yield apply(
        spec.SPACE_TO_BATCH_ND,
        images(n, width),
        block_sizes=int32(blocks),
        paddings=int32((0,) * 4).reshaped((2, 2)),
        layout=layout(n),
        out=images(n, parts),
    )
    found = n.temp(x, (*parts.shape[:2], *places))
    kernel = (pool_pass.height.kernel, pool_pass.width.kernel)
    yield _call(n, row, parts, Window(kernel, (1, 1), (1, 1), Pads(), (sizes[0], sizes[1])), found)
    joined = n.temp(x, (*x.shape[:2], *(p * b for p, b in zip(places, blocks, strict=True))))
    yield apply(
        spec.BATCH_TO_SPACE_ND,
        images(n, found),
        block_sizes=int32(blocks),
        layout=layout(n),
        out=images(n, joined),
    )
    taken = (Span(0, (s.out - 1) * s.stride + 1, s.stride) for s in axes)  # pooled with strides
    yield strided_slice(joined, [*map(Span.whole, x.shape[:2]), *taken], y)


def _padded(
    n: Node, row: OperationSpec, x: Value, axes: Sequence[AxisWindow], sizes: Sequence[int]
) -> Computed:
    """Return `x` explicitly padded, and padded further to whole blocks of the dilation."""
    around = [(0, 0), (0, 0)]
    for size, s in zip(sizes, axes, strict=True):
        around.append((s.before, size * s.dilation - s.size - s.before))
    sides = [side for pair in around for side in pair]
    if identical(sides, (0,) * 8):
        return x
    nothing = -np.inf if row == spec.MAX_POOL_2D else 0.0
    shape = [size + a + b for size, (a, b) in zip(x.shape, around, strict=True)]
    paddings = int32(sides).reshaped((4, 2))
    return (yield from n.compute(spec.PAD_V2, x, paddings=paddings, pad_value=nothing, shape=shape))
