"""Boxes as their corners [..., (x1, y1, x2, y2)], in float32: what detection kernels share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.host.kernel import Types
from ep_nnapi.nnapi.shapes import ShapeError

SCALE = 0.125
"""Of coordinates that are stored in 16 bits. Source: NDK ANEURALNETWORKS_ROI_ALIGN and others."""


def require_scale(types: Types, *names: str) -> None:
    """Raises ShapeError where coordinates are quantized in another way than NNAPI has them."""
    for name in names:
        operand = types[name]
        if operand.type.quantized and (operand.scale, operand.zero_point) != (SCALE, 0):
            found = f"{operand.scale:g} from {operand.zero_point}"
            raise ShapeError(f"{name} must have scale {SCALE:g} from 0, not {found}")


def require_boxes(boxes: Array) -> None:
    """Raises ShapeError unless every box begins before it ends."""
    if not (boxes[..., :2] <= boxes[..., 2:]).all():
        raise ShapeError("a box must have x1 <= x2 and y1 <= y2")


def require_batches(batch_indices: Array, batches: int) -> None:
    """Raises ShapeError for an index that no batch has."""
    wrong = batch_indices[(batch_indices < 0) | (batch_indices >= batches)]
    if wrong.size:
        raise ShapeError(f"there is no batch {wrong[0]} of {batches}")


def moved(boxes: Array, deltas: Array) -> Array:
    """Boxes after deltas (dx, dy, log dw, log dh) of centres and sizes, relative to the sizes."""
    low, high = boxes[..., :2], boxes[..., 2:]
    size = high - low
    half = np.exp(deltas[..., 2:]) * size / 2
    centre = (low + high) / 2 + deltas[..., :2] * size
    return np.concatenate((centre - half, centre + half), axis=-1)


def clipped(boxes: Array, image_size: Array) -> Array:
    """Boxes limited to images of sizes [..., (height, width)]."""
    limits = image_size[..., [1, 0, 1, 0]]
    found: Array = np.minimum(np.maximum(boxes, 0), limits)
    return found


@dataclass(frozen=True, slots=True)
class Places:
    """Boxes of several sets, [sets, n] each: sides, and the area."""

    sides: tuple[Array, Array, Array, Array]
    area: Array

    @staticmethod
    def of(boxes: Array) -> Places:
        """Boxes [sets, n, 4]."""
        x1, y1, x2, y2 = (np.ascontiguousarray(boxes[..., i]) for i in range(4))
        return Places((x1, y1, x2, y2), (x2 - x1) * (y2 - y1))

    def of_sets(self, some: Array) -> Places:
        """The boxes of some sets."""
        x1, y1, x2, y2 = (side[some] for side in self.sides)
        return Places((x1, y1, x2, y2), self.area[some])

    def overlap(self, at: Array) -> Array:
        """Of all boxes with the one at an index [sets] of its set: intersection over union.

        NaN where both are empty.

        >>> Places.of(np.array([[[0, 0, 2, 2], [0, 0, 2, 1]]])).overlap(np.array([0]))
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
