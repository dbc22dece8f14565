"""RoiAlign."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.operators.lib.matmul import product
from ep_nnapi.operators.lib.movement import equal_parts, transpose
from ep_nnapi.operators.lib.node import Computed, Node, each, op, widened
from ep_nnapi.operators.lib.reduction import reduced


@frozen
class _RoiAxis:
    """One axis of all regions: `bins` of `samples` points each, over `pixels`.

    half   True if a pixel's value is at its centre (half_pixel), not at its edge
    """

    bins: int
    samples: int
    pixels: int
    scale: float
    half: bool

    def points(self, dtype: DType) -> Constant:
        """Return the points' positions [1, bins * samples] from the region's edge, in bins."""

        def numbers() -> Array:
            within = (np.arange(self.samples) + 0.5) / self.samples
            every = np.arange(self.bins)[:, None] + within
            return every.reshape(1, -1).astype(dtype.numpy)

        return Constant((1, self.bins * self.samples), dtype, numbers)


@op("RoiAlign", since=10, keeps=True)
@widened
def roi_align_10(n: Node) -> Iterator[Call]:
    """As RoiAlign-16 in mode output_half_pixel."""
    yield from _roi_align(n, half=False)


@op("RoiAlign", since=16, keeps=True)
@widened
def roi_align_16(n: Node) -> Iterator[Call]:
    """Regions divided into bins, each the mean of points interpolated between pixels.

    x [N, C, H, W], rois [R, 4] (left, top, right, bottom), their images [R], y [R, C, h, w]
    Interpolation is separable: a bin is a weighted sum over columns, then over rows, i.e. two
    matrix products. NNAPI's ROI_ALIGN is not used, as it fails on regions outside the image.
    """
    mode = n.text("coordinate_transformation_mode", "half_pixel")
    yield from _roi_align(n, half=mode == "half_pixel")


def _roi_align(n: Node, *, half: bool) -> Iterator[Call]:
    samples, scale = _samples(n), n.real("spatial_scale", 1.0)
    x, rois, y = n.input(0), n.input(1), n.output()
    images, channels, height, width = x.shape
    count, _, high, wide = y.shape
    left, top, right, bottom = yield from equal_parts(n, rois, 1, 4)
    across = _RoiAxis(wide, samples, width, scale, half)
    along = _RoiAxis(high, samples, height, scale, half)
    columns = yield from _weights(n, left, right, across)
    rows = yield from _weights(n, top, bottom, along)
    if images == 1:
        mixed = yield from _of_one_image(n, columns)
    else:
        mixed = yield from _of_its_image(n, columns, (count, channels, height, width))
    pixels = yield from n.reshaped(mixed, (count, wide * channels, height))
    bins = n.temp(x, (count, wide * channels, high))
    yield from product(n, pixels, rows, bins, adj_y=True)
    found = yield from n.reshaped(bins, (count, wide, channels, high))
    yield from transpose(n, found, (0, 2, 3, 1), y)


def _samples(n: Node) -> int:
    """Return `sampling_ratio`, the points of a bin along each axis.

    Raises Reject(ATTRIBUTE) if it is 0 (data-dependent), or `mode` is not avg.
    """
    samples, mode = n.integer("sampling_ratio", 0), n.text("mode", "avg")
    n.require(mode == "avg", Reason.ATTRIBUTE, f"mode is {mode!r}; only 'avg' is supported")
    detail = "sampling_ratio is 0: how many points a bin has depends on the regions; use 1 or more"
    n.require(samples > 0, Reason.ATTRIBUTE, detail)
    return samples


def _of_one_image(n: Node, columns: Value) -> Computed:
    """Return `columns` [R, w, W] times the rows of the only image, [R w, C H]."""
    x = n.input(0)
    count, bins, width = columns.shape
    rows = yield from n.reshaped(x, (x.size // width, width))
    matrix = yield from n.reshaped(columns, (count * bins, width))
    mixed = n.temp(x, (count * bins, x.size // width))
    yield from product(n, matrix, rows, mixed, adj_y=True)
    return mixed


def _of_its_image(n: Node, columns: Value, shape: tuple[int, int, int, int]) -> Computed:
    """Return `columns` [R, w, W] times the rows of each region's image, [R, w, C H].

    shape  [R, C, H, W]
    """
    x = n.input(0)
    count, channels, height, width = shape
    which = yield from n.indices(n.input(2), x.shape[0])
    own = yield from n.compute(spec.GATHER, x, axis=0, indices=which, shape=shape)
    rows = yield from n.reshaped(own, (count, channels * height, width))
    mixed = n.temp(x, (count, columns.shape[1], channels * height))
    yield from product(n, columns, rows, mixed, adj_y=True)
    return mixed


def _weights(n: Node, start: Value, end: Value, axis: _RoiAxis) -> Computed:
    """Return the weight of each pixel in each bin [R, bins, pixels]; `start`, `end` [R, 1]."""
    offset = 0.5 if axis.half else 0.0
    scaled = []
    for edge in (start, end):
        seen = yield from n.compute(spec.MUL, edge, n.scalar(axis.scale, edge))
        scaled.append((yield from n.compute(spec.ADD, seen, n.scalar(-offset, edge))))
    size = yield from n.compute(spec.SUB, scaled[1], scaled[0])
    if not axis.half:
        size = yield from n.compute(spec.MAXIMUM, size, n.scalar(1, size))
    step = yield from n.compute(spec.DIV, size, n.scalar(axis.bins, size))
    moved = yield from n.compute(spec.MUL, step, axis.points(step.dtype))
    positions = yield from n.compute(spec.ADD, scaled[0], moved)
    weights = yield from _linear_weights(n, positions, axis.pixels)
    if axis.samples == 1:
        return weights
    shape = (start.size, axis.bins, axis.samples, axis.pixels)
    each_point = yield from n.reshaped(weights, shape)
    mean = yield from reduced(n, spec.MEAN, each_point, [2])
    return (yield from n.reshaped(mean, (start.size, axis.bins, axis.pixels)))


def _linear_weights(n: Node, positions: Value, pixels: int) -> Computed:
    """Return the linear interpolation weights [R, points, pixels] of points at `positions`.

    `positions` is [R, points]. A point up to one pixel outside the image takes the edge pixel;
    beyond that its weights are 0.
    """
    low, high = n.scalar(-1, positions), n.scalar(pixels, positions)
    after = yield from n.compute(spec.GREATER_EQUAL, positions, low, dtype=DType.BOOL)
    before = yield from n.compute(spec.LESS_EQUAL, positions, high, dtype=DType.BOOL)
    inside = yield from n.as_number((yield from n.compute(spec.LOGICAL_AND, after, before)))
    above = yield from n.compute(spec.MAXIMUM, positions, n.scalar(0, positions))
    clamped = yield from n.compute(spec.MINIMUM, above, n.scalar(pixels - 1, positions))
    shape = (*positions.shape, 1)
    point, taken = yield from each(n.reshaped(v, shape) for v in (clamped, inside))
    grid = Constant.of(np.arange(pixels, dtype=positions.dtype.numpy))
    apart = yield from n.absolute_of((yield from n.compute(spec.SUB, point, grid)))
    one = n.value("one", n.scalar(1, positions))
    weights = yield from n.compute(spec.SUB, one, apart, activation=FuseCode.RELU)
    return (yield from n.compute(spec.MUL, weights, taken))
