"""Object detection kernels: box decoding and non-maximum suppression (NMS).

Boxes are float32 corners [..., (x1, y1, x2, y2)]. NMS drops boxes that overlap a box of a better
score: boxes are chosen greedily in descending order of score, of equal scores the first one first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, real, rows_of
from ep_nnapi.nnapi.host.kernels.windows import NHWC
from ep_nnapi.nnapi.shapes.operands import Scalar, ShapeError
from ep_nnapi.nnapi.spec import DATA, F16, F32

SCALE = 0.125
"""Scale of 16-bit box coordinates. Source: NDK ANEURALNETWORKS_ROI_ALIGN and others."""


def require_scale(types: Types, *names: str) -> None:
    """Raises ShapeError unless quantized coordinates have scale `SCALE` and zero point 0."""
    for name in names:
        operand = types[name]
        if operand.type.quantized and operand.quantization != (SCALE, 0):
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


def sides_and_areas(boxes: Array) -> Array:
    """Returns x1, y1, x2, y2 and the area [5, sets, n] of sets of boxes [sets, n, 4]."""
    x1, y1, x2, y2 = np.moveaxis(boxes, -1, 0)
    return np.stack((x1, y1, x2, y2, (x2 - x1) * (y2 - y1)))


def overlap(sides: Array, at: Array) -> Array:
    """Returns the intersection over union of all boxes with box `at` [sets] of their set.

    sides   as of `sides_and_areas`
    NaN where both boxes are empty.

    >>> overlap(sides_and_areas(np.array([[[0, 0, 2, 2], [0, 0, 2, 1]]])), np.array([0]))
    array([[1. , 0.5]])
    """
    x1, y1, x2, y2, area = sides
    a1, b1, a2, b2, of_one = sides[:, np.arange(len(at)), at, np.newaxis]
    wide = np.minimum(x2, a2) - np.maximum(x1, a1)
    high = np.minimum(y2, b2) - np.maximum(y1, b1)
    shared = np.maximum(wide, 0) * np.maximum(high, 0)
    found: Array = shared / (area + of_one - shared)
    return found


Lower: TypeAlias = Callable[[Array, Array], Array]
"""Function of scores and overlaps with the chosen box to new scores; OUT drops a box."""
Factor: TypeAlias = Callable[[Array], Array]
"""Function of the overlaps to the factors of the scores."""
OUT = np.float32(-np.inf)


def best(scores: Array, limit: int) -> Array:
    """Returns indexes of the `limit` greatest scores, descending; all if `limit` is negative."""
    order = np.argsort(-scores, kind="stable")
    return order if limit < 0 else order[:limit]


def hard(threshold: float) -> Lower:
    """Returns hard NMS: drops boxes that overlap the chosen one by `threshold` or more."""
    return lambda scores, overlaps: np.where(overlaps >= threshold, OUT, scores)


def soft(factor: Factor, least: float) -> Lower:
    """Returns soft NMS: multiplies scores by a factor, then drops boxes scored below `least`."""

    def lower(scores: Array, overlaps: Array) -> Array:
        lowered = scores * factor(overlaps)
        return np.where(lowered >= least, lowered, OUT)

    return lower


def factor_of(number: int, threshold: float, sigma: float) -> Factor:
    """Returns NNAPI's kernel 0 (hard), 1 (linear) or 2 (Gaussian); ShapeError for others.

    Source: NDK ANEURALNETWORKS_BOX_WITH_NMS_LIMIT.
    """
    kernels: tuple[Factor, ...] = (
        lambda overlaps: (overlaps < threshold).astype(np.float32),
        lambda overlaps: np.where(overlaps < threshold, np.float32(1), 1 - overlaps),
        lambda overlaps: np.exp(-overlaps * overlaps / np.float32(sigma)),
    )
    if not 0 <= number < len(kernels):
        raise ShapeError(f"suppression kernel {number} is none of 0 to 2")
    return kernels[number]


@dataclass(frozen=True, slots=True)
class Greedy:
    """Greedy choice by score in several sets of boxes at once.

    limit   greatest number of choices per set; negative for no limit
    """

    lower: Lower
    limit: int

    def __call__(self, scores: Array, boxes: Array) -> tuple[Array, Array, Array]:
        """Returns the set, the index in it, and the score of each chosen box.

        scores [sets, n], boxes [sets, n, 4]; a score of OUT means no box
        Sorted by set, then by order of choice. All sets advance together: the cost is the number of
        boxes times the greatest number of choices in a set.
        """
        left, sides = np.where(scores > OUT, scores, OUT), sides_and_areas(boxes)
        sets = np.arange(len(scores))
        found: list[tuple[Array, Array, Array]] = []
        while left.size and len(found) != self.limit:
            at = left.argmax(axis=1)
            top = left[np.arange(len(at)), at]
            live = top > OUT
            if not live.all():
                left, sets, at, top = left[live], sets[live], at[live], top[live]
                sides = sides[:, live]
            found.append((sets, at, top))
            left[np.arange(len(at)), at] = OUT
            left = self.lower(left, overlap(sides, at))
        if not found:
            return sets[:0], sets[:0], np.empty(0, np.float32)
        every, indexes, tops = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        order = np.argsort(every, kind="stable")
        return every[order], indexes[order], tops[order]


class Detections(NamedTuple):
    """Detected boxes: index of the proposal, class and score, all [n]."""

    rows: Array
    classes: Array
    scores: Array

    def take(self, indexes: Array) -> Detections:
        """Returns the detections at `indexes`, in that order."""
        return Detections(*(each[indexes] for each in self))


def detect(scores: Array, boxes: Array, threshold: float, greedy: Greedy) -> Detections:
    """Returns the boxes chosen per class above the threshold, without class 0 (background).

    scores [n, classes], boxes [n, classes, 4]   per proposal and class
    """
    objects = scores[:, 1:].T
    above = objects > threshold
    most = above.sum(axis=1).max(initial=0)
    rows = np.argsort(~above, axis=1, kind="stable")[:, :most]  # above first, in order
    some = np.where(above, objects, OUT)
    places = boxes[rows, np.arange(1, scores.shape[1])[:, np.newaxis]]
    sets, at, left = greedy(np.take_along_axis(some, rows, axis=1), places)
    return Detections(rows[sets, at], (sets + 1).astype(np.int32), left)


def axis_aligned_bbox_transform(
    rois: Array,
    deltas: Array,
    batch_indices: Array,
    image_info: Array,
    *,
    types: Types,
    out: Array,
) -> None:
    """Moves each box by the deltas of each class, and clips it to its image."""
    require_scale(types, "rois", "image_info")
    require_boxes(rois)
    require_batches(batch_indices, len(image_info))
    boxes = apply_deltas(rois[:, np.newaxis], deltas.reshape(len(rois), deltas.shape[1] // 4, 4))
    np.copyto(out, clip_to_image(boxes, image_info[batch_indices, np.newaxis]).reshape(out.shape))


def box_with_nms_limit(
    scores: Array, rois: Array, batch_indices: Array, *, types: Types, **scalars: Scalar
) -> tuple[Array, Array, Array, Array]:
    """Returns scores, boxes, classes and batches after soft NMS per class, without class 0.

    Sorted by batch, then class, then descending score.
    """
    require_scale(types, "rois")
    boxes = rois.reshape(*scores.shape, 4)
    require_boxes(boxes)
    limit = int(scalars["max_num_detections"])
    factor = factor_of(int(scalars["nms_kernel"]), scalars["iou_threshold"], scalars["sigma"])
    greedy = Greedy(soft(factor, scalars["nms_score_threshold"]), limit)
    starts = np.flatnonzero(np.diff(batch_indices)) + 1
    parts = []
    for rows in np.split(np.arange(len(scores)), starts):
        found = detect(scores[rows], boxes[rows], scalars["score_threshold"], greedy)
        found = found.take(best(found.scores, limit))
        found = found.take(np.lexsort((-found.scores, found.classes)))
        at = rows[found.rows]
        parts.append((found.scores, boxes[at, found.classes], found.classes, batch_indices[at]))
    a, b, c, d = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return a, b, c, d


def generate_proposals(
    scores: Array,
    deltas: Array,
    anchors: Array,
    image_info: Array,
    layout: bool,
    *,
    types: Types,
    **scalars: Scalar,
) -> tuple[Array, Array, Array]:
    """Returns scores, boxes and batches of the best anchors of all pixels, moved by their deltas.

    Sorted by batch, then descending score. A limit of zero or less means no limit.
    """
    require_scale(types, "anchors", "image_info")
    require_boxes(anchors)
    if layout:
        scores, deltas = scores.transpose(NHWC), deltas.transpose(NHWC)
    batches, height, width, _ = scores.shape
    ratios = np.array([scalars["width_ratio"], scalars["height_ratio"]], np.float32)
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1) * ratios
    shifts = np.tile(places.astype(np.float32), 2)[:, :, np.newaxis]
    shifted = (anchors + shifts).reshape(-1, 4)
    moves = deltas.reshape(batches, -1, 4)
    parts = []
    for batch, (size, of_batch) in enumerate(zip(image_info, moves, strict=True)):
        some = scores[batch].reshape(-1)
        boxes = clip_to_image(apply_deltas(shifted, of_batch), size)
        chosen = _proposed(some, boxes, size, scalars)
        parts.append((some[chosen], boxes[chosen], np.full(len(chosen), batch, np.int32)))
    a, b, c = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return a, b, c


def _proposed(scores: Array, boxes: Array, image: Array, scalars: dict[str, Scalar]) -> Array:
    """Returns the indexes of the boxes of one image (height, width) after size filter and NMS."""
    pool = best(scores, int(scalars["pre_nms_max"]) or -1)
    low, size = boxes[pool, :2], boxes[pool, 2:] - boxes[pool, :2]
    within = (size > scalars["min_size"]) & (low + size / 2 < image[::-1])
    pool = pool[within.all(axis=1)]
    greedy = Greedy(hard(scalars["iou_threshold"]), int(scalars["post_nms_max"]) or -1)
    _, chosen, _ = greedy(scores[np.newaxis, pool], boxes[np.newaxis, pool])
    found: Array = pool[chosen]
    return found


def detection_postprocessing(
    scores: Array, deltas: Array, anchors: Array, *, out: tuple[Array, ...], **scalars: Scalar
) -> None:
    """Stores scores, boxes (y1, x1, y2, x2) and labels of the best anchors, and their number.

    Unused entries are zero.
    """
    boxes = _centred(anchors, deltas, scalars)
    choose = _of_classes if scalars["use_regular_nms"] else _of_boxes
    first_label = 0 if scalars["is_background_in_label"] else 1
    for array in out:
        array.fill(0)
    for batch, (some, places) in enumerate(zip(scores, boxes, strict=True)):
        anchor, label = choose(some, places, scalars)
        count = len(anchor)
        out[0][batch, :count] = some[anchor, label]
        out[1][batch, :count] = places[anchor]
        out[2][batch, :count] = label - first_label
        out[3][batch] = count


def _centred(anchors: Array, deltas: Array, scalars: dict[str, Scalar]) -> Array:
    """Returns anchors (centre y, x, height, width) moved by deltas of the same order."""
    centres, sizes = anchors[:, :2], anchors[:, 2:]
    near, far = (
        np.array([scalars[f"d{axis}_scale"] for axis in axes], np.float32) for axes in ("yx", "hw")
    )
    centres = centres + sizes * deltas[..., :2] / near
    half = sizes * np.exp(deltas[..., 2:4] / far) * np.float32(0.5)
    return np.concatenate((centres - half, centres + half), axis=-1)


def _of_classes(scores: Array, boxes: Array, scalars: dict[str, Scalar]) -> tuple[Array, Array]:
    """Returns anchors and classes after NMS within each class."""
    greedy = Greedy(hard(scalars["iou_threshold"]), int(scalars["max_detections_per_class"]))
    of_all = np.broadcast_to(boxes[:, np.newaxis], (*scores.shape, 4))
    found = detect(scores, of_all, scalars["score_threshold"], greedy)
    found = found.take(best(found.scores, int(scalars["max_num_detections"])))
    return found.rows, found.classes


def _of_boxes(scores: Array, boxes: Array, scalars: dict[str, Scalar]) -> tuple[Array, Array]:
    """Returns anchors and classes after NMS across classes; each box may have several classes."""
    objects = scores[:, 1:]
    tops = objects.max(axis=1)
    pool = np.flatnonzero(tops > scalars["score_threshold"])
    greedy = Greedy(hard(scalars["iou_threshold"]), int(scalars["max_num_detections"]))
    _, chosen, _ = greedy(tops[np.newaxis, pool], boxes[np.newaxis, pool])
    anchors = pool[chosen]
    most = int(scalars["max_classes_per_detection"])
    classes = np.argsort(-objects[anchors], axis=1, kind="stable")[:, :most] + 1
    return np.repeat(anchors, classes.shape[1]), classes.reshape(-1)


KERNELS = (
    *rows_of(real, DATA, axis_aligned_bbox_transform, box_with_nms_limit, generate_proposals),
    real(spec.DETECTION_POSTPROCESSING, detection_postprocessing, F32, F16),
)
