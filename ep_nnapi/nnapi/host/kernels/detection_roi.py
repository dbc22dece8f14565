"""Region of interest (ROI) kernels: regions of images resampled to one size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, real
from ep_nnapi.nnapi.host.kernels.boxes import require_batches, require_boxes, require_scale
from ep_nnapi.nnapi.host.kernels.sums import multiply
from ep_nnapi.nnapi.host.kernels.windows import NHWC
from ep_nnapi.nnapi.shapes import Scalar, ShapeError
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S


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
    """ROI align: divides regions into bins, each the mean of evenly spaced interpolated points.

    Source: NDK ANEURALNETWORKS_ROI_ALIGN.
    """
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
    Source: NDK ANEURALNETWORKS_ROI_POOLING.
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
class _Weights:
    """Interpolation weights `of_bins` [bins, pixels], for the range of pixels `seen`."""

    of_bins: Array
    seen: slice


def _weights(points: Array, size: int) -> _Weights:
    """Returns weights that average a bin's interpolated points, clamped to the last pixel."""
    at = np.minimum(points, size - 1)
    first, last = int(at[0, 0]), min(size, int(at[-1, -1]) + 2)
    distances = np.abs(at[:, :, np.newaxis] - np.arange(first, last))
    means = np.maximum(1 - distances, 0).mean(axis=1).astype(np.float32)
    return _Weights(means, slice(first, last))


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


KERNELS = (
    real(spec.ROI_ALIGN, roi_align, F32, F16, Q8, Q8S),
    real(spec.ROI_POOLING, roi_pooling, F32, F16, Q8, Q8S),
)
