"""Operations on boxes against the formulas of the NDK's documentation, in float64."""

import math

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host import boxed
from tests.nnapi.host.oracle import F32, compare, run, store

SEED = 20260811
KIND = pytest.mark.parametrize("kind", boxed.KINDS, ids=str)
NDK_TRANSFORM, NDK_LIMIT = spec.AXIS_ALIGNED_BBOX_TRANSFORM, spec.BOX_WITH_NMS_LIMIT


def transform(kind, rois, deltas, batches, sizes):
    return {
        "rois": kind.of_boxes(rois),
        "deltas": kind.of_data(deltas),
        "batch_indices": boxed.indexes(batches),
        "image_info": kind.of_boxes(sizes),
    }


@KIND
@pytest.mark.parametrize("constant", [False, True])
def test_axis_aligned_bbox_transform(kind, constant):
    rng = np.random.default_rng(SEED)
    count, classes = 5, 3
    batches = rng.integers(0, 2, count)
    operands = transform(
        kind,
        boxed.boxes(rng, (count,), 30),
        rng.uniform(-0.9, 0.9, (count, 4 * classes)),
        batches,
        [[30, 40], [20, 25]],
    )
    rois, deltas, _, sizes = (o.real for o in operands.values())
    want = [
        [boxed.transformed(roi, d, sizes[batch]) for d in row.reshape(classes, 4)]
        for roi, row, batch in zip(rois, deltas, batches, strict=True)
    ]
    (got,) = run(NDK_TRANSFORM, operands, kind.boxes, constant=constant)
    compare(got, kind.boxes, np.reshape(want, (count, 4 * classes)), boxed.ROUNDING, str(kind))


@KIND
def test_axis_aligned_bbox_transform_of_no_boxes(kind):
    operands = transform(kind, np.zeros((0, 4)), np.zeros((0, 8)), [], [[9, 9]])
    (got,) = run(NDK_TRANSFORM, operands, kind.boxes)
    assert got.shape == (0, 8)


@pytest.mark.parametrize(
    ("box", "batch", "sentence"),
    [
        ([0, 0, 4, 4], 1, None),
        ([0, 0, 4, 4], 2, "there is no batch 2 of 2"),
        ([0, 0, 4, 4], -1, "there is no batch -1 of 2"),
        ([4, 0, 4, 4], 0, None),  # an empty box is a box
        ([5, 0, 4, 4], 0, "a box must have x1 <= x2 and y1 <= y2"),
        ([0, 5, 4, 4], 0, "a box must have x1 <= x2 and y1 <= y2"),
    ],
)
def test_axis_aligned_bbox_transform_limits(box, batch, sentence):
    operands = transform(boxed.KINDS[0], [box], [[0.0] * 4], [batch], [[9, 9], [9, 9]])
    if sentence:
        boxed.refuses(sentence, NDK_TRANSFORM, operands, boxed.KINDS[0].boxes)
    else:
        assert run(NDK_TRANSFORM, operands, boxed.KINDS[0].boxes)[0].tolist() == [box]


def test_coordinates_of_another_scale_are_refused():
    kind = boxed.KINDS[2]
    operands = transform(kind, [[0, 0, 4, 4]], [[0.0] * 4], [0], [[9, 9]])
    operands["rois"] = store([[0, 0, 4, 4]], kind.box, Operand(kind.box, (), 0.25, 1))
    sentence = "rois must have scale 0.125 from 0, not 0.25 from 1"
    boxed.refuses(sentence, NDK_TRANSFORM, operands, kind.boxes)


def soft(kernel, threshold, sigma, least):
    def lower(score, iou):
        factors = (
            float(iou < threshold),
            1 if iou < threshold else 1 - iou,
            math.exp(-(iou**2) / sigma),
        )
        lowered = score * factors[kernel]
        return lowered if lowered >= least else None

    return lower


def limited(operands, batches, lower):
    """(score, box, class, batch) of BOX_WITH_NMS_LIMIT."""
    scores, rois, limit = operands["scores"].real, operands["rois"].real, operands[boxed.LIMIT]
    found = []
    for batch in dict.fromkeys(batches):
        rows = [i for i, b in enumerate(batches) if b == batch]
        of_batch = []
        for c in range(1, scores.shape[1]):
            some = [i for i in rows if scores[i, c] > operands["score_threshold"]]
            places = [rois[i, 4 * c : 4 * c + 4] for i in some]
            chosen = boxed.greedy([scores[i, c] for i in some], places, lower, limit)
            of_batch += [(score, places[i], c, batch) for i, score in chosen]
        of_batch.sort(key=lambda each: -each[0])
        of_batch = of_batch if limit < 0 else of_batch[:limit]
        found += sorted(of_batch, key=lambda each: (each[2], -each[0]))
    return found


def suppression(kind, scores, rois, batches, **numbers):
    return {
        "scores": kind.of_data(scores),
        "rois": kind.of_boxes(rois),
        "batch_indices": boxed.indexes(batches),
        # no number that a type stores is at a threshold
        "score_threshold": 0.1003,
        boxed.LIMIT: -1,
        "nms_kernel": 0,
        "iou_threshold": 0.3019,
        "sigma": 0.5,
        "nms_score_threshold": 0.0507,
    } | numbers


def limit_outputs(kind):
    return kind.data, kind.boxes, boxed.INDEXES, boxed.INDEXES


@KIND
@pytest.mark.parametrize("kernel", [0, 1, 2], ids=["hard", "linear", "gaussian"])
@pytest.mark.parametrize("limit", [-1, 0, 2, 5])
def test_box_with_nms_limit(kind, kernel, limit):
    rng = np.random.default_rng(SEED)
    batches = [4] * 7 + [0] * 6
    scores = boxed.distinct(rng, len(batches), 4)
    rois = boxed.boxes(rng, (len(batches), 4), 8).reshape(len(batches), 16)
    numbers = {boxed.LIMIT: limit, "nms_kernel": kernel}
    operands = suppression(kind, scores, rois, batches, **numbers)
    rule = soft(*(operands[n] for n in ("nms_kernel", "iou_threshold", "sigma")), 0.0507)
    want = limited(operands, batches, rule)
    assert limit == 0 or len(want) > 1
    got = run(NDK_LIMIT, operands, *limit_outputs(kind))
    assert got[2].tolist() == [c for _, _, c, _ in want]
    assert got[3].tolist() == [b for _, _, _, b in want]
    compare(got[0], kind.data, np.array([s for s, _, _, _ in want]), 1e-6, str(kind))
    places = np.reshape([box for _, box, _, _ in want], (-1, 4))
    compare(got[1], kind.boxes, places, 0, str(kind))


def test_a_box_may_be_chosen_with_a_lowered_score():
    """Two boxes that overlap by a half: the second has 1 - 1/2 of its score left, just enough."""
    operands = suppression(
        boxed.KINDS[0],
        [[0.0, 1.0], [0.0, 0.5]],
        [[0, 0, 0, 0, 0, 0, 4, 4], [0, 0, 0, 0, 0, 0, 4, 2]],
        [0, 0],
        nms_kernel=1,
        nms_score_threshold=0.25,
    )
    assert run(NDK_LIMIT, operands, *limit_outputs(boxed.KINDS[0]))[0].tolist() == [1.0, 0.25]


@KIND
def test_box_with_nms_limit_of_no_boxes(kind):
    operands = suppression(kind, np.zeros((0, 2)), np.zeros((0, 8)), [])
    got = run(NDK_LIMIT, operands, *limit_outputs(kind))
    assert [a.shape for a in got] == [(0,), (0, 4), (0,), (0,)]


def test_box_with_nms_limit_refusals():
    kind = boxed.KINDS[0]
    rois = [[0, 0, 1, 1, 0, 0, 1, 1]]
    operands = suppression(kind, [[0.0, 1.0]], rois, [0], nms_kernel=2)
    outputs = limit_outputs(kind)
    assert run(NDK_LIMIT, operands, *outputs)[2].tolist() == [1]
    unknown = operands | {"nms_kernel": 3}
    boxed.refuses("suppression kernel 3 is none of 0 to 2", NDK_LIMIT, unknown, *outputs)
    torn = operands | {"rois": kind.of_boxes([[0, 0, 1, 1, 0, 2, 1, 1]])}
    boxed.refuses("a box must have x1 <= x2 and y1 <= y2", NDK_LIMIT, torn, *outputs)
    two = (Operand(F32, (2,)), *outputs[1:])
    boxed.refuses("a result of shape (1,) is declared as (2,)", NDK_LIMIT, operands, *two)
