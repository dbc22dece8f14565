"""Boxes made of anchors and deltas against the formulas of the NDK's documentation, in float64."""

import math

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host import boxed
from tests.nnapi.host.oracle import F32, compare, run, store

SEED = 20260812
SCALES = {"dy_scale": 10.0, "dx_scale": 8.0, "dh_scale": 5.0, "dw_scale": 4.0}


def proposals(operands, order):
    """(score, box, batch) of GENERATE_PROPOSALS; `order` makes tensors NHWC."""
    scores, deltas = (operands[n].real.transpose(order) for n in ("scores", "deltas"))
    anchors, sizes = operands["anchors"].real, operands["image_info"].real
    before, after = operands["pre_nms_max"], operands["post_nms_max"]
    found = []
    for batch, size in enumerate(sizes):
        each = []
        for (h, w, a), score in np.ndenumerate(scores[batch]):
            shift = np.array([w * operands["width_ratio"], h * operands["height_ratio"]] * 2)
            delta = deltas[batch, h, w, 4 * a : 4 * a + 4]
            each.append((score, boxed.transformed(anchors[a] + shift, delta, size)))
        each.sort(key=lambda pair: -pair[0])
        each = [
            (score, box)
            for score, box in (each[:before] if before > 0 else each)
            if min(box[2] - box[0], box[3] - box[1]) > operands["min_size"]
            and (box[0] + box[2]) / 2 < size[1]
            and (box[1] + box[3]) / 2 < size[0]
        ]
        places, rule = [box for _, box in each], boxed.hard(operands["iou_threshold"])
        chosen = boxed.greedy([s for s, _ in each], places, rule, after if after > 0 else -1)
        found += [(score, places[i], batch) for i, score in chosen]
    return found


@pytest.mark.parametrize("kind", boxed.KINDS, ids=str)
@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
@pytest.mark.parametrize("limits", [(0, 0), (-1, -1), (12, 0), (-1, 3), (12, 3)], ids=str)
def test_generate_proposals(kind, nchw, limits):
    rng = np.random.default_rng(SEED)
    count = 3
    order = (0, 3, 1, 2) if nchw else (0, 1, 2, 3)
    operands = {
        "scores": kind.of_data(boxed.distinct(rng, 2, 3, 4, count).transpose(order)),
        "deltas": kind.of_data(rng.uniform(-0.9, 0.9, (2, 3, 4, 4 * count)).transpose(order)),
        "anchors": kind.of_anchors([[-4, -4, 4, 4], [-2, -6, 2, 6], [-5, -1, 5, 1]]),
        "image_info": kind.of_boxes([[11, 30], [12, 25]]),
        "height_ratio": 4.0,
        "width_ratio": 8.0,
        "pre_nms_max": limits[0],
        "post_nms_max": limits[1],
        "iou_threshold": 0.2503,
        "min_size": 2.0,
        "layout": nchw,
    }
    want = proposals(operands, np.argsort(order))
    got = run(spec.GENERATE_PROPOSALS, operands, kind.data, kind.boxes, boxed.INDEXES)
    assert got[2].tolist() == [b for _, _, b in want]
    compare(got[0], kind.data, np.array([s for s, _, _ in want]), 0, str(kind))
    compare(got[1], kind.boxes, np.array([box for _, box, _ in want]), boxed.ROUNDING, str(kind))


@pytest.mark.parametrize(("least", "count"), [(3.875, 1), (4.0, 0)])
def test_boxes_of_the_least_size_are_no_proposals(least, count):
    operands = {
        "scores": store(np.ones((1, 1, 1, 1)), F32),
        "deltas": store(np.zeros((1, 1, 1, 4)), F32),
        "anchors": store([[0, 0, 4, 4]], F32),
        "image_info": store([[8, 8]], F32),
        "height_ratio": 1.0,
        "width_ratio": 1.0,
        "pre_nms_max": 0,
        "post_nms_max": 0,
        "iou_threshold": 0.5,
        "min_size": least,
        "layout": False,
    }
    got = run(spec.GENERATE_PROPOSALS, operands, Operand(F32), Operand(F32), boxed.INDEXES)
    assert [a.shape for a in got] == [(count,), (count, 4), (count,)]


def decoded(anchors, deltas):
    """Boxes (y1, x1, y2, x2) of anchors (centre y, x, height, width)."""
    dy, dx, dh, dw = SCALES.values()
    found = []
    for anchor, delta in zip(anchors, deltas, strict=True):
        height, width = anchor[2] * math.exp(delta[2] / dh), anchor[3] * math.exp(delta[3] / dw)
        y, x = anchor[0] + anchor[2] * delta[0] / dy, anchor[1] + anchor[3] * delta[1] / dx
        found.append((y - height / 2, x - width / 2, y + height / 2, x + width / 2))
    return found


def by_class(scores, places, operands):
    """(score, box, class) with suppression of each class apart."""
    rule, limit = boxed.hard(operands["iou_threshold"]), operands["max_detections_per_class"]
    found = []
    for c in range(1, scores.shape[1]):
        some = [i for i in range(len(scores)) if scores[i, c] > operands["score_threshold"]]
        chosen = boxed.greedy(scores[some, c], [places[i] for i in some], rule, limit)
        found += [(score, places[some[i]], c) for i, score in chosen]
    return sorted(found, key=lambda each: -each[0])[: operands[boxed.LIMIT]]


def by_box(scores, places, operands):
    """(score, box, class) with suppression by the best class, then the best classes of each."""
    rule, limit = boxed.hard(operands["iou_threshold"]), operands[boxed.LIMIT]
    tops = scores[:, 1:].max(axis=1)
    some = [i for i in range(len(scores)) if tops[i] > operands["score_threshold"]]
    found = []
    for i, _ in boxed.greedy(tops[some], [places[j] for j in some], rule, limit):
        of_box = scores[some[i]]
        classes = sorted(range(1, len(of_box)), key=lambda c: -of_box[c])
        classes = classes[: operands["max_classes_per_detection"]]
        found += [(of_box[c], places[some[i]], c) for c in classes]
    return found


@pytest.mark.parametrize("kind", boxed.FLOAT_KINDS, ids=str)
@pytest.mark.parametrize("background", [False, True], ids=["objects", "background"])
@pytest.mark.parametrize("regular", [False, True], ids=["fast", "regular"])
@pytest.mark.parametrize("most_classes", [1, 2, 9])
def test_detection_postprocessing(kind, background, regular, most_classes):
    rng = np.random.default_rng(SEED)
    batches, anchors, most = 2, 12, 5
    operands = {
        "scores": kind.of_data(boxed.distinct(rng, batches, anchors, 4)),
        "deltas": kind.of_data(rng.uniform(-2, 2, (batches, anchors, 6))),
        "anchors": kind.of_data(rng.uniform(2, 6, (anchors, 4))),
        **SCALES,
        "use_regular_nms": regular,
        boxed.LIMIT: most,
        "max_classes_per_detection": most_classes,
        "max_detections_per_class": 3,
        "score_threshold": 0.1003,
        "iou_threshold": 0.3019,
        "is_background_in_label": background,
    }
    outputs = (kind.data, kind.boxes, boxed.INDEXES, boxed.INDEXES)
    scores, boxes, labels, counts = run(spec.DETECTION_POSTPROCESSING, operands, *outputs)
    room = most if regular else most * most_classes
    assert scores.shape == (batches, room)
    for batch, deltas in enumerate(operands["deltas"].real):
        places = decoded(operands["anchors"].real, deltas)
        rule = by_class if regular else by_box
        want = rule(operands["scores"].real[batch], places, operands)
        count = counts[batch]
        assert count == len(want) > 1
        wanted = [c - (not background) for _, _, c in want]
        assert labels[batch].tolist() == wanted + [0] * (room - count)
        compare(scores[batch, :count], kind.data, np.array([w[0] for w in want]), 0, str(kind))
        compare(
            boxes[batch, :count], kind.boxes, np.array([w[1] for w in want]), boxed.ROUNDING, ""
        )
        assert not scores[batch, count:].any()
        assert not boxes[batch, count:].any()
