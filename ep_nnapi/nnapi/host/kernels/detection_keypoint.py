"""Keypoint kernel: maxima of heatmaps, at subpixel accuracy."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernel import Types, real
from ep_nnapi.nnapi.host.kernels.boxes import require_boxes, require_scale
from ep_nnapi.nnapi.host.kernels.windows import NCHW
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S

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
    Source: NDK ANEURALNETWORKS_HEATMAP_MAX_KEYPOINT.
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


KERNELS = (real(spec.HEATMAP_MAX_KEYPOINT, heatmap_max_keypoint, F32, F16, Q8, Q8S),)
