"""Object detection kernels: box decoding and non-maximum suppression."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import Types, real
from ep_nnapi.nnapi.host.kernels.boxes import (
    apply_deltas,
    clip_to_image,
    require_batches,
    require_boxes,
    require_scale,
)
from ep_nnapi.nnapi.host.kernels.suppression import Greedy, best, detect, hard, kernel, soft
from ep_nnapi.nnapi.host.kernels.windows import NHWC
from ep_nnapi.nnapi.shapes import Scalar
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S


def axis_aligned_bbox_transform(
    rois: Array,
    deltas: Array,
    batch_indices: Array,
    image_info: Array,
    *,
    types: Types,
    out: Array,
) -> None:
    """Moves each box by the deltas of each class, and clips it to its image.

    Source: NDK ANEURALNETWORKS_AXIS_ALIGNED_BBOX_TRANSFORM.
    """
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
    Source: NDK ANEURALNETWORKS_BOX_WITH_NMS_LIMIT.
    """
    require_scale(types, "rois")
    boxes = rois.reshape(*scores.shape, 4)
    require_boxes(boxes)
    limit = int(scalars["max_num_detections"])
    factor = kernel(int(scalars["nms_kernel"]), scalars["iou_threshold"], scalars["sigma"])
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
    Source: NDK ANEURALNETWORKS_GENERATE_PROPOSALS.
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
        some, boxes = (
            scores[batch].reshape(-1),
            clip_to_image(apply_deltas(shifted, of_batch), size),
        )
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

    Unused entries are zero. Source: NDK ANEURALNETWORKS_DETECTION_POSTPROCESSING.
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


_DATA = (F32, F16, Q8, Q8S)
KERNELS = (
    real(spec.AXIS_ALIGNED_BBOX_TRANSFORM, axis_aligned_bbox_transform, *_DATA),
    real(spec.BOX_WITH_NMS_LIMIT, box_with_nms_limit, *_DATA),
    real(spec.GENERATE_PROPOSALS, generate_proposals, *_DATA),
    real(spec.DETECTION_POSTPROCESSING, detection_postprocessing, F32, F16),
)
