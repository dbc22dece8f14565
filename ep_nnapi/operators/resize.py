"""Resize and Upsample, for images and tensors of any rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, DType, Value
from ep_nnapi.lowering.arguments import Given, View
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import identical, is_symbolic, now, plain
from ep_nnapi.operators.lib.convolution import images
from ep_nnapi.operators.lib.movement import positions, sizes_around
from ep_nnapi.operators.lib.node import Computed, Node, each, int32, op
from ep_nnapi.operators.lib.resize_sampling import (
    COORDINATE_SCHEMES,
    TRANSFORMS,
    CoordinateScheme,
    Resized,
    Tap,
    cubic,
    enumerated_text,
    is_near_tie,
    linear,
    nearest,
    nonzero_taps,
    same_positions,
)


@frozen
class Sampling:
    """The sampling attributes of a Resize node: interpolation mode, positions and rounding."""

    mode: str
    transform: str = "asymmetric"
    rounding: str = "simple"
    cubic_a: float = -0.75
    exclude_outside: bool = False

    def positions(self, axis: Resized) -> Array:
        """Return the input position of each output element."""
        return TRANSFORMS[self.transform](axis)

    def taps(self, axis: Resized) -> Sequence[Tap]:
        """Return the weighted input elements whose sum is each output element."""
        at = self.positions(axis)
        if self.mode == "nearest":
            return (nearest(axis, at, self.rounding),)
        if self.mode == "linear":
            return nonzero_taps(linear(axis, at))
        return nonzero_taps(cubic(axis, at, self.cubic_a, exclude_outside=self.exclude_outside))

    def scheme(self, axes: Sequence[Resized]) -> CoordinateScheme | None:
        """Return the options with which NNAPI's resize operation is equivalent, or None."""
        return next((s for s in COORDINATE_SCHEMES if all(self._agrees(s, a) for a in axes)), None)

    def _agrees(self, scheme: CoordinateScheme, axis: Resized) -> bool:
        if self.mode == "nearest":
            return np.array_equal(self.taps(axis)[0].indexes, scheme.nearest(axis))
        if self.mode == "linear":
            return same_positions(axis, self.positions(axis), scheme.positions(axis))
        return False


@op("Upsample", since=7)
def upsample_7(n: Node) -> Iterator[Call]:
    """Resized by the attribute `scales`, without centres."""
    yield from _resize(n, Sampling(n.text("mode", "nearest")), _scaled(n, n.reals("scales")))


@op("Resize", since=10, moves=True)
def resize_10(n: Node) -> Iterator[Call]:
    """Resized by the input `scales`, without centres."""
    yield from _resize(n, Sampling(n.text("mode", "nearest")), _scaled(n, n.reals_at(1)))


UPSAMPLE_9 = replace(resize_10, op_type="Upsample", since=9, moves=False)


@op("Resize", since=11)
def resize_11(n: Node) -> Iterator[Call]:
    """Resized by constant `scales` or to `sizes`, along `axes` (default: all).

    Lowered to NNAPI's resize operations where these sample the same positions. Otherwise each axis
    becomes a weighted sum of one to four GATHERs.
    """
    mode = enumerated_text(n, "mode", "nearest")
    detail = "antialias is 1; only 0 is supported"
    n.require(mode == "nearest" or not n.integer("antialias", 0), Reason.ATTRIBUTE, detail)
    sampling = Sampling(
        mode,
        enumerated_text(n, "coordinate_transformation_mode", "half_pixel"),
        enumerated_text(n, "nearest_mode", "round_prefer_floor"),
        n.real("cubic_coeff_a", -0.75),
        n.integer("exclude_outside", 0) != 0,
    )
    if sampling == _FLOOR and _is_open(n):
        yield from _by_floor(n)
        return
    crops = sampling.transform == "tf_crop_and_resize"
    axes = _axes(n, crops=crops)
    n.require(
        not crops or n.input(0).shape != n.output().shape,
        Reason.ATTRIBUTE,
        "roi is resized to the size of the image, where ONNX Runtime copies the image; use Slice",
    )
    for axis in axes:
        _require_exact(n, sampling, axis)
    yield from _resize(n, sampling, axes)


_FLOOR = Sampling("nearest", "asymmetric", "floor")
"""The pixel at or before each position, as PyTorch chooses the nearest one."""


def _is_open(n: Node) -> bool:
    """True if sizes are symbols of which one is not a multiple of the other for all values."""
    pairs = [*zip(n.input(0).shape, n.output().shape, strict=True)]
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    return (
        len(pairs) <= MAX_RANK
        and policy == "stretch"
        and any(is_symbolic(pair) and not identical((pair[1] % pair[0],), (0,)) for pair in pairs)
    )


def _by_floor(n: Node) -> Iterator[Call]:
    """Emit a GATHER along each axis, whose positions are computed as ONNX Runtime does."""
    x, y = n.input(0), n.output()
    n.require_same_quantization(x, y)
    which = [n.normalized(a, x.rank, "axes") for a in n.integers("axes", range(x.rank))]
    by_sizes = not n.has(2) or n.input(2).shape == (0,)
    scales = [0.0] * len(which) if by_sizes else n.reals_at(2)
    changed = [a for a in which if not identical((x.shape[a],), (y.shape[a],))]
    for axis in changed:
        scale = scales[which.index(axis)]
        places = yield from _floor_positions(n, x.shape[axis], y.shape[axis], scale)
        out = y if axis == changed[-1] else n.temp(x, _with(x.shape, axis, y.shape[axis]))
        yield apply(spec.GATHER, x, axis=axis, indices=places, out=out)
        x = out


def _floor_positions(n: Node, size: int, out: int, scale: float) -> Computed:
    """Return the input index of each output element; by a scale of 0, that of the sizes."""
    every = yield from n.compute(spec.CAST, (yield from positions(n, out)), dtype=DType.FLOAT)
    by: Value | Constant = n.scalar(scale, every)
    if not scale:
        sizes = [n.value("size", int32((number,))) for number in (out, size)]
        ends = yield from each(n.compute(spec.CAST, v, dtype=DType.FLOAT) for v in sizes)
        by = yield from n.compute(spec.DIV, *ends)
    at = yield from n.compute(spec.DIV, every, by)
    below = yield from n.compute(spec.FLOOR, at)
    found = yield from n.compute(spec.CAST, below, dtype=DType.INT32)
    return (yield from n.compute(spec.MINIMUM, found, n.scalar(size - 1, found)))


def _require_exact(n: Node, sampling: Sampling, axis: Resized) -> None:
    """Raise Reject for crops that exceed the image, and positions with ambiguous rounding."""
    at = sampling.positions(axis)
    inside = bool(np.all((at >= 0) & (at <= axis.size - 1)))
    detail = "roi is partly outside the image; keep it within 0 to 1"
    n.require(inside or sampling.transform != "tf_crop_and_resize", Reason.ATTRIBUTE, detail)
    symmetric = sampling.transform == "half_pixel_symmetric" and not axis.exact
    n.require(
        not (symmetric and sampling.mode == "nearest" and is_near_tie(axis, at, sampling.rounding)),
        Reason.ATTRIBUTE,
        "half_pixel_symmetric has positions between two elements, where rounding errors decide; "
        "use half_pixel",
    )


def _scaled(n: Node, scales: Sequence[float]) -> list[Resized]:
    sizes = zip(n.input(0).shape, n.output().shape, scales, strict=True)
    return [
        Resized(now(size), now(out), scale)
        if _is_alike(n, size, out, scale)
        else Resized(int(size), int(out), scale)
        for size, out, scale in sizes
    ]


def _is_alike(n: Node, size: int, out: int, scale: float) -> bool:
    """True if the axis is sampled alike for all sizes that meet the conditions.

    It is at a whole factor or divisor; in mode linear for the ratio of any two sizes. Elsewhere it
    depends on how floats are rounded.
    """
    if n.node.op_type == "Resize" and n.has(3) and n.text("mode", "nearest") == "linear":
        return True
    exact = Fraction(scale)
    whole = 1 in (exact.numerator, exact.denominator)
    return whole and out * exact.denominator == size * exact.numerator


def _axes(n: Node, *, crops: bool) -> list[Resized]:
    """Return all axes, resized by the node's scales or sizes; input `roi` says what it crops."""
    x = n.input(0)
    which = [n.normalized(a, x.rank, "axes") for a in n.integers("axes", range(x.rank))]
    scales = [1.0] * x.rank
    for axis, scale in zip(which, _given_scales(n, which), strict=True):
        scales[axis] = scale
    axes = _scaled(n, scales)
    if crops:
        roi = n.reals_at(1)
        detail = f"roi has {len(roi)} numbers for {len(which)} axes; it must have two for each"
        n.require(len(roi) == 2 * len(which), Reason.SHAPE, detail)
        for i, axis in enumerate(which):
            axes[axis] = replace(axes[axis], start=roi[i], end=roi[i + len(which)])
    return axes


def _given_scales(n: Node, which: Sequence[int]) -> Sequence[float]:
    x, y = n.input(0), n.output()
    if n.has(2) and n.input(2).shape != (0,):
        return n.reals_at(2)
    policy = n.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        # at the sizes of now, as ONNX Runtime computes it
        return [float(np.float32(now(y.shape[a])) / np.float32(now(x.shape[a]))) for a in which]
    wanted = zip(n.integers_at(3), which, strict=True)
    ratios = [float(np.float32(size) / np.float32(x.shape[a])) for size, a in wanted]
    return [min(ratios) if policy == "not_larger" else max(ratios)] * len(which)


def _resize(n: Node, sampling: Sampling, axes: Sequence[Resized]) -> Iterator[Call]:
    x, y = n.input(0), n.output()
    n.require_same_quantization(x, y)
    changed = [i for i, axis in enumerate(axes) if not _stays(sampling, axis)]
    if not changed or x.shape == y.shape:  # ONNX Runtime copies then, whatever the scales
        yield from n.reshape(x, y)
        return
    own = list(_by_image(n, sampling, axes, changed))
    yield from own if own and all(map(n.supports, own)) else _by_taps(n, sampling, axes, changed)


def _stays(sampling: Sampling, axis: Resized) -> bool:
    """True if the axis is unchanged; at scale 1, ONNX Runtime does not round positions."""
    if sampling.mode == "nearest":
        return axis.unchanged
    return axis.size == axis.out and np.array_equal(sampling.positions(axis), axis.indexes)


def _by_image(
    n: Node, sampling: Sampling, axes: Sequence[Resized], changed: Sequence[int]
) -> Iterator[Call]:
    """Emit NNAPI's resize of one axis or two adjacent ones; nothing where it is not equivalent."""
    first, last = changed[0], changed[-1]
    scheme = sampling.scheme([axes[i] for i in changed])
    if last - first > 1 or scheme is None:
        return
    x, y = n.input(0), n.output()
    row = spec.RESIZE_NEAREST_NEIGHBOR if sampling.mode == "nearest" else spec.RESIZE_BILINEAR
    if x.rank == 4 and first >= 2:
        size = y.shape[2:]
        yield _call(row, images(n, x), size, scheme, images(n, y), nchw=n.target.nchw)
        return
    (high, tall), (wide, broad) = [*zip(x.shape, y.shape, strict=True), (1, 1)][first : first + 2]
    if last == first:
        wide = broad = 1
    before, after = prod(x.shape[:first]), prod(x.shape[last + 1 :])
    seen = yield from n.reshaped(x, (before, high, wide, after))
    result = n.output_or_temp(y, (before, tall, broad, after))
    yield _call(row, seen, (tall, broad), scheme, result, nchw=False)
    yield from n.write_output(result, y)


def _call(
    row: OperationSpec,
    x: Value | View,
    size: Sequence[int],
    scheme: CoordinateScheme,
    y: Value | View,
    *,
    nchw: bool,
) -> Call:
    """Return the resize call; default operands are omitted, for levels that lack them."""
    operands: dict[str, Given] = {"output_height": size[0], "output_width": size[1]}
    if row == spec.RESIZE_NEAREST_NEIGHBOR or nchw or scheme != CoordinateScheme():
        operands["layout"] = nchw
    if scheme != CoordinateScheme():
        operands["align_corners"] = scheme.align_corners
        operands["half_pixel_centers"] = scheme.half_pixel_centers
    return apply(row, x, **operands, out=y)


def _by_taps(
    n: Node, sampling: Sampling, axes: Sequence[Resized], changed: Sequence[int]
) -> Iterator[Call]:
    """Emit the resize of one axis after the other by GATHER, for any rank."""
    x, y = n.input(0), n.output()
    plain(size for i in changed for size in (x.shape[i], y.shape[i]))  # indexes are constants
    for i in changed:
        out = y if i == changed[-1] else n.temp(x, _with(x.shape, i, axes[i].out))
        shape, at = (x.shape, i) if x.rank <= MAX_RANK else (sizes_around(x.shape, i), 1)
        seen = yield from n.reshaped(x, shape)
        result = n.output_or_temp(out, _with(shape, at, axes[i].out))
        yield from _summed(n, seen, at, sampling.taps(axes[i]), result)
        yield from n.write_output(result, out)
        x = out


def _with(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _summed(n: Node, x: Value, axis: int, taps: Sequence[Tap], y: Value) -> Iterator[Call]:
    """Emit `y` = the weighted sum of the taps along `axis`."""
    if len(taps) == 1:
        yield apply(spec.GATHER, x, axis=axis, indices=Constant.of(taps[0].indexes), out=y)
        return
    total, *rest, last = yield from each(_product(n, x, axis, tap, y.shape) for tap in taps)
    for product in rest:
        total = yield from n.compute(spec.ADD, total, product)
    yield apply(spec.ADD, total, last, out=y)


def _product(n: Node, x: Value, axis: int, tap: Tap, shape: Sequence[int]) -> Computed:
    found = yield from n.compute(
        spec.GATHER, x, axis=axis, indices=Constant.of(tap.indexes), shape=shape
    )
    weights, sizes = tap.weights, (-1,) + (1,) * (x.rank - axis - 1)
    if weights is None:
        return found
    one = n.scalar(1, x)
    factors = one.map(
        (weights.size, *sizes[1:]), lambda a: (a * weights).astype(a.dtype).reshape(sizes)
    )
    return (yield from n.compute(spec.MUL, found, factors, shape=shape))
