"""Bounding boxes as float32 corners [..., (x1, y1, x2, y2)], shared by detection kernels."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.shapes import ShapeError

SCALE = 0.125
"""Scale of 16-bit box coordinates. Source: NDK ANEURALNETWORKS_ROI_ALIGN and others."""


def require_scale(types: Types, *names: str) -> None:
    """Raises ShapeError unless quantized coordinates have scale `SCALE` and zero point 0."""
    for name in names:
        operand = types[name]
        if operand.type.quantized and (operand.scale, operand.zero_point) != (SCALE, 0):
            found = f"{operand.scale:g} from {operand.zero_point}"
            raise ShapeError(f"{name} must have scale {SCALE:g} from 0, not {found}")


def require_boxes(boxes: Array) -> None:
    """Raises ShapeError unless all boxes have x1 <= x2 and y1 <= y2."""
    if not (boxes[..., :2] <= boxes[..., 2:]).all():
        raise ShapeError("a box must have x1 <= x2 and y1 <= y2")


def require_batches(batch_indices: Array, batches: int) -> None:
    """Raises ShapeError for a batch index out of range."""
    wrong = batch_indices[(batch_indices < 0) | (batch_indices >= batches)]
    if wrong.size:
        raise ShapeError(f"there is no batch {wrong[0]} of {batches}")


def apply_deltas(boxes: Array, deltas: Array) -> Array:
    """Returns boxes moved and scaled by (dx, dy, log dw, log dh), relative to their sizes."""
    low, high = boxes[..., :2], boxes[..., 2:]
    size = high - low
    half = np.exp(deltas[..., 2:]) * size / 2
    centre = (low + high) / 2 + deltas[..., :2] * size
    return np.concatenate((centre - half, centre + half), axis=-1)


def clip_to_image(boxes: Array, image_size: Array) -> Array:
    """Returns boxes clipped to images of sizes [..., (height, width)]."""
    limits = image_size[..., [1, 0, 1, 0]]
    found: Array = np.minimum(np.maximum(boxes, 0), limits)
    return found


@frozen
class BoxSets:
    """Several sets of boxes, [sets, n] each: the corner coordinates and the area."""

    sides: tuple[Array, Array, Array, Array]
    area: Array

    @staticmethod
    def of(boxes: Array) -> BoxSets:
        """Returns the sets of boxes [sets, n, 4]."""
        x1, y1, x2, y2 = (np.ascontiguousarray(boxes[..., i]) for i in range(4))
        return BoxSets((x1, y1, x2, y2), (x2 - x1) * (y2 - y1))

    def of_sets(self, some: Array) -> BoxSets:
        """Returns a subset of the sets."""
        x1, y1, x2, y2 = (side[some] for side in self.sides)
        return BoxSets((x1, y1, x2, y2), self.area[some])

    def overlap(self, at: Array) -> Array:
        """Returns the intersection over union of all boxes with box `at` [sets] of their set.

        NaN where both boxes are empty.

        >>> BoxSets.of(np.array([[[0, 0, 2, 2], [0, 0, 2, 1]]])).overlap(np.array([0]))
        array([[1. , 0.5]])
        """
        one = np.arange(len(at)), at
        x1, y1, x2, y2 = self.sides
        a1, b1, a2, b2 = (side[one][:, np.newaxis] for side in self.sides)
        wide, high = (
            np.minimum(x2, a2) - np.maximum(x1, a1),
            np.minimum(y2, b2) - np.maximum(y1, b1),
        )
        shared = np.maximum(wide, 0) * np.maximum(high, 0)
        found: Array = shared / (self.area + self.area[one][:, np.newaxis] - shared)
        return found
