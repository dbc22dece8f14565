"""Kernels of regions of interest (ROI), and of keypoints in them at subpixel accuracy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernel import Types, real, rows_of
from ep_nnapi.nnapi.host.kernels.detection import require_batches, require_boxes, require_scale
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.host.kernels.windows import NCHW, NHWC
from ep_nnapi.nnapi.shapes.operands import Scalar, ShapeError
from ep_nnapi.nnapi.spec import DATA


def roi_align(
    input: Array,
    rois: Array,
    batch_indices: Array,
    layout: bool,
    *,
    types: Types,
    out: Array,
    **scalars: Scalar,
) -> None:
    """ROI align: divides regions into bins, each the mean of evenly spaced interpolated points."""
    require_scale(types, "rois")
    image, result = (input.transpose(NHWC), out.transpose(NHWC)) if layout else (input, out)
    regions = _scaled(image, rois, batch_indices, scalars)
    counts = [int(scalars[f"{axis}_sampling_points"]) for axis in ("width", "height")]
    for region, batch, target in zip(regions, batch_indices, result, strict=True):
        width, height = (
            _weights(_points(region[axis::2], target.shape[1 - axis], counts[axis]), limit)
            for axis, limit in enumerate((image.shape[2], image.shape[1]))
        )
        seen = image[batch, height.seen, width.seen]
        columns = np.empty((len(seen), *target.shape[1:]), np.float32)
        multiply(width.of_bins, seen, columns)  # row by row: too small for threads
        bins = np.empty((len(target), columns[0].size), np.float32)
        multiply(height.of_bins, columns.reshape(len(seen), -1), bins)
        np.copyto(target, bins.reshape(target.shape))


def roi_pooling(
    input: Array,
    rois: Array,
    batch_indices: Array,
    layout: bool,
    *,
    types: Types,
    out: Array,
    **scalars: Scalar,
) -> None:
    """ROI pooling: divides regions of whole pixels into bins, each the maximum of its pixels.

    Bins may overlap by one pixel; a bin outside the image is zero.
    """
    require_scale(types, "rois")
    image, result = (input.transpose(NHWC), out.transpose(NHWC)) if layout else (input, out)
    regions = np.floor(_scaled(image, rois, batch_indices, scalars) + np.float64(0.5))
    for region, batch, target in zip(regions, batch_indices, result, strict=True):
        rows = _bins(region[1::2], target.shape[0], image.shape[1])
        columns = _bins(region[0::2], target.shape[1], image.shape[2])
        np.copyto(target, _greatest(_greatest(image[batch], rows, 0), columns, 1))


def _scaled(image: Array, rois: Array, batch_indices: Array, scalars: dict[str, Scalar]) -> Array:
    """Returns the regions in pixels; raises ShapeError for one that leaves the image."""
    require_boxes(rois)
    require_batches(batch_indices, len(image))
    ratios = np.array([scalars["width_ratio"], scalars["height_ratio"]] * 2, np.float32)
    regions: Array = rois * (np.float32(1) / ratios)
    height, width = image.shape[1:3]
    if (regions < 0).any() or (regions > (width, height, width, height)).any():
        raise ShapeError(f"a region is not within an image of {height} x {width}")
    return regions


def _points(ends: Array, bins: int, count: int) -> Array:
    """Returns sampling points [bins, count] along a region's side; `count` 0: one per pixel."""
    start, end = ends.astype(np.float64)
    step = max(end - start, 1) / bins
    count = count or int(np.ceil(step))
    small = step / count
    starts = np.arange(bins) * step + start
    points: Array = starts[:, np.newaxis] + small / 2 + np.arange(count) * small
    return points


@dataclass(frozen=True, slots=True)
class _BinWeights:
    """Interpolation weights `of_bins` [bins, pixels], for the range of pixels `seen`."""

    of_bins: Array
    seen: slice


def _weights(points: Array, size: int) -> _BinWeights:
    """Returns weights that average a bin's interpolated points, clamped to the last pixel."""
    at = np.minimum(points, size - 1)
    first, last = int(at[0, 0]), min(size, int(at[-1, -1]) + 2)
    distances = np.abs(at[:, :, np.newaxis] - np.arange(first, last))
    means = np.maximum(1 - distances, 0).mean(axis=1).astype(np.float32)
    return _BinWeights(means, slice(first, last))


def _bins(ends: Array, bins: int, size: int) -> Array:
    """Returns the first and past-the-last pixel [bins, 2] of each bin of a region's side."""
    start, end = ends
    step = np.maximum(end - start + 1, np.float32(1)) / np.float32(bins)
    edges = np.arange(bins + 1, dtype=np.float32) * step + start
    found = np.stack((np.floor(edges[:-1]), np.ceil(edges[1:])), axis=1)
    bounds: Array = np.minimum(found, size).astype(np.intp)
    return bounds


def _greatest(image: Array, bins: Array, axis: int) -> Array:
    """Returns the maximum of each bin along an axis; zero for an empty bin."""
    shape = list(image.shape)
    shape[axis] = len(bins)
    found = np.zeros(shape, image.dtype)
    for n, (start, end) in enumerate(bins):
        if start < end:
            of_bin, seen = (_at(axis, part) for part in (n, slice(start, end)))
            image[seen].max(axis=axis, out=found[of_bin])
    return found


def _at(axis: int, part: int | slice) -> tuple[int | slice, ...]:
    """Returns an index that selects `part` along one axis."""
    return (*[slice(None)] * axis, part)


MAX_OFFSET = 1.5
"""Greatest distance of the maximum from the greatest pixel, in pixels along either axis."""
FLAT, FLAT_HALVES = 1e-5, 1e-3
"""Absolute tolerance of the Hessian determinant, and relative to the product of curvatures:
below it a surface counts as flat. The second is for float16. Source: Android's CPU implementation;
the NDK does not say.
"""


def heatmap_max_keypoint(
    heatmap: Array, boxes: Array, layout: bool, *, types: Types, out: tuple[Array, Array]
) -> None:
    """Stores the maximum of each heatmap, by a second-order fit, and its position in the box.

    heatmap [boxes, size, size, keypoints]; out [boxes, keypoints], [boxes, keypoints, (x, y)]
    """
    require_scale(types, "boxes")
    require_boxes(boxes)
    maps = heatmap if layout else heatmap.transpose(NCHW)
    size = maps.shape[2]
    pixels = maps.reshape(*maps.shape[:2], -1)
    y, x = np.divmod(pixels.argmax(axis=2), size)
    halves = types["heatmap"].type is OperandCode.TENSOR_FLOAT16
    near = _patch(pixels, size, (y, x)).astype(np.float64)
    shifts, scores = _maxima(near, FLAT_HALVES if halves else FLAT)
    places = (np.stack((x, y), axis=-1) + shifts + 0.5) / size
    low, high = boxes[:, np.newaxis, :2], boxes[:, np.newaxis, 2:]
    np.copyto(out[0], scores, casting="same_kind")
    np.copyto(out[1], places * (high - low) + low, casting="same_kind")


def _patch(pixels: Array, size: int, centre: tuple[Array, Array]) -> Array:
    """Returns 3 x 3 pixels of each map [..., size * size] around a centre, mirrored at edges."""
    y, x = (np.abs(at[..., np.newaxis] + np.arange(-1, 2)) for at in centre)
    rows, columns = (np.where(at < size, at, 2 * size - 2 - at) for at in (y, x))
    near = rows[..., np.newaxis] * size + columns[..., np.newaxis, :]
    flat = np.take_along_axis(pixels, near.reshape(*y.shape[:-1], 9), axis=-1)
    return flat.reshape(near.shape)


def _maxima(grid: Array, flat: float) -> tuple[Array, Array]:
    """Returns the maximum of a paraboloid: offset [..., (x, y)] from the middle, and value.

    The grid is 3 x 3 pixels. If the surface is nearly flat, returns the middle itself.
    """
    middle = grid[..., 1, 1]
    slope_x = (grid[..., 1, 2] - grid[..., 1, 0]) / 2
    slope_y = (grid[..., 2, 1] - grid[..., 0, 1]) / 2
    curve_x = grid[..., 1, 0] - 2 * middle + grid[..., 1, 2]
    curve_y = grid[..., 0, 1] - 2 * middle + grid[..., 2, 1]
    twist = (grid[..., 2, 2] - grid[..., 2, 0] - grid[..., 0, 2] + grid[..., 0, 0]) / 4
    product = curve_x * curve_y
    determinant = product - twist * twist
    solvable = np.abs(determinant) >= flat + flat * product
    divisor = np.where(solvable, determinant, 1)
    x = np.where(solvable, (twist * slope_y - curve_y * slope_x) / divisor, 0)
    y = np.where(solvable, (twist * slope_x - curve_x * slope_y) / divisor, 0)
    scale = MAX_OFFSET / np.maximum(np.maximum(np.abs(x), np.abs(y)), MAX_OFFSET)
    x, y = x * scale, y * scale
    bend = ((curve_x * x + twist * y) * x + (twist * x + curve_y * y) * y) / 2
    return np.stack((x, y), axis=-1), middle + slope_x * x + slope_y * y + bend


KERNELS = rows_of(real, DATA, roi_align, roi_pooling, heatmap_max_keypoint)
