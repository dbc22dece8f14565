"""Operations on boxes: the types that they take, boxes and scores to try them on."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import Q16, Q16Y
from tests.nnapi.host.oracle import F16, F32, I32, Q8, Q8S, Stored, run, store

INDEXES = Operand(I32)
LIMIT = "max_num_detections"
ROUNDING = 1e-5
"""Of float32, relative to the greatest coordinate: a few operations, one of them exp."""


@dataclass(frozen=True)
class Kind:
    """Types of data, boxes and anchors; scale and zero point of data."""

    code: OperandCode
    box: OperandCode
    anchor: OperandCode
    scale: float = 0.0
    zero_point: int = 0

    def __str__(self) -> str:
        return self.code.name.removeprefix("TENSOR_")

    @property
    def data(self) -> Operand:
        """An output of data."""
        return Operand(self.code, (), self.scale, self.zero_point)

    @property
    def boxes(self) -> Operand:
        """An output of boxes."""
        return Operand(self.box, (), 0.125 if self.box.quantized else 0.0)

    def of_data(self, numbers) -> Stored:
        """Data stored, with the scale of the kind."""
        return store(numbers, self.code, self.data)

    def of_boxes(self, numbers) -> Stored:
        """Boxes stored."""
        return store(numbers, self.box, self.boxes)

    def of_anchors(self, numbers) -> Stored:
        """Anchors stored."""
        return store(numbers, self.anchor, Operand(self.anchor, (), self.boxes.scale))


FLOAT_KINDS = (Kind(F32, F32, F32), Kind(F16, F16, F16))
KINDS = (*FLOAT_KINDS, Kind(Q8, Q16, Q16Y, 1 / 128, 120), Kind(Q8S, Q16, Q16Y, 1 / 128, -8))


def indexes(numbers) -> Stored:
    """A vector of TENSOR_INT32, which may be empty."""
    return store(np.array(numbers, np.float64), I32)


def boxes(rng, shape, limit):
    """Random boxes [*shape, 4] with corners at eighths up to `limit`."""
    corners = rng.integers(0, int(limit * 8) + 1, (*shape, 2, 2)) / 8
    return np.concatenate((corners.min(axis=-2), corners.max(axis=-2)), axis=-1)


def distinct(rng, *shape):
    """Scores of [0, 1), no two of which any kind stores as the same number."""
    count = int(np.prod(shape))
    assert count <= 120
    return ((rng.permutation(count) + 1) / 128).reshape(shape)


def overlap(a, b):
    """Intersection over union of two boxes, number by number."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def transformed(box, delta, image):
    """A box after (dx, dy, log dw, log dh), within an image (height, width)."""
    width, height = box[2] - box[0], box[3] - box[1]
    x = (box[0] + box[2]) / 2 + delta[0] * width
    y = (box[1] + box[3]) / 2 + delta[1] * height
    half_width, half_height = width * math.exp(delta[2]) / 2, height * math.exp(delta[3]) / 2
    corners = (x - half_width, y - half_height, x + half_width, y + half_height)
    limits = (image[1], image[0], image[1], image[0])
    return [min(max(c, 0.0), limit) for c, limit in zip(corners, limits, strict=True)]


def greedy(scores, places, lower, limit):
    """(index, score) in the order of choice; `lower(score, overlap)` gives None for what is out."""
    left, chosen = dict(enumerate(scores)), []
    while left and len(chosen) != limit:
        first = max(left, key=left.get)
        chosen.append((first, left.pop(first)))
        left = {i: lower(s, overlap(places[i], places[first])) for i, s in left.items()}
        left = {i: s for i, s in left.items() if s is not None}
    return chosen


def hard(threshold):
    return lambda score, iou: None if iou >= threshold else score


def refuses(sentence, row, operands, *outputs):
    """The run fails with that reason, as OP_FAILED."""
    with pytest.raises(RuntimeFailure) as caught:
        run(row, operands, *outputs)
    assert sentence in str(caught.value)
    assert "OP_FAILED" in str(caught.value)
