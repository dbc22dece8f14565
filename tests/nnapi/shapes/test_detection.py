"""Shapes of boxes and regions: what follows from what is known, and what cannot be."""

import re

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import ShapeError, Tensor
from tests.nnapi.shapes.operands import t

REGIONS = {
    "input": t(2, 7, 9, 5),
    "rois": t(3, 4),
    "batch_indices": t(3),
    "output_height": 2,
    "output_width": 4,
    "height_ratio": 1.0,
    "width_ratio": 1.0,
    "layout": False,
}
ALIGN, POOLING = (spec.ROI_ALIGN, REGIONS), (spec.ROI_POOLING, REGIONS)
TRANSFORM = (
    spec.AXIS_ALIGNED_BBOX_TRANSFORM,
    {"rois": t(3, 4), "deltas": t(3, 8), "batch_indices": t(3), "image_info": t(2, 2)},
)
LIMIT = spec.BOX_WITH_NMS_LIMIT, {"scores": t(3, 2), "rois": t(3, 8), "batch_indices": t(3)}
PROPOSALS = (
    spec.GENERATE_PROPOSALS,
    {
        "scores": t(2, 5, 6, 3),
        "deltas": t(2, 5, 6, 12),
        "anchors": t(3, 4),
        "image_info": t(2, 2),
        "layout": False,
    },
)
KEYPOINT = spec.HEATMAP_MAX_KEYPOINT, {"heatmap": t(3, 6, 6, 5), "boxes": t(3, 4), "layout": False}
POSTPROCESSING = (
    spec.DETECTION_POSTPROCESSING,
    {
        "scores": t(2, 9, 4),
        "deltas": t(2, 9, 7),
        "anchors": t(9, 4),
        **{f"{axis}_scale": 1.0 for axis in ("dy", "dx", "dh", "dw")},
        "use_regular_nms": False,
        "max_num_detections": 3,
        "max_classes_per_detection": 2,
        "max_detections_per_class": 1,
        "score_threshold": 0.0,
        "iou_threshold": 0.0,
        "is_background_in_label": True,
    },
)
DYNAMIC = ((None,), (None, 4), (None,), (None,))
CASES = [
    (ALIGN, {}, ((3, 2, 4, 5),)),
    (ALIGN, {"height_sampling_points": 0}, ((3, 2, 4, 5),)),
    (POOLING, {"rois": t(None, 4)}, ((3, 2, 4, 5),)),
    (POOLING, {"layout": True, "input": t(2, 5, 7, 9)}, ((3, 5, 2, 4),)),
    (POOLING, {"input": t(None, None, 9, None)}, ((3, 2, 4, None),)),
    (POOLING, {"rois": t(0, 4), "batch_indices": t(0)}, ((0, 2, 4, 5),)),
    (POOLING, {"rois": Tensor(None)}, (None,)),
    (TRANSFORM, {}, ((3, 8),)),
    (TRANSFORM, {"deltas": t(None, 8)}, ((3, 8),)),
    (TRANSFORM, {"deltas": t(3, None)}, ((3, None),)),
    (LIMIT, {}, DYNAMIC),
    (LIMIT, {"scores": t(None, None)}, DYNAMIC),
    (PROPOSALS, {}, DYNAMIC[:3]),
    (PROPOSALS, {"deltas": t(None, 5, None, 12)}, DYNAMIC[:3]),
    (PROPOSALS, {"scores": t(2, 3, 5, 6), "deltas": t(2, 12, 5, 6), "layout": True}, DYNAMIC[:3]),
    (KEYPOINT, {}, ((3, 5), (3, 5, 2))),
    (KEYPOINT, {"heatmap": t(None, None, 6, 5)}, ((3, 5), (3, 5, 2))),
    (KEYPOINT, {"heatmap": t(3, 5, 2, 2), "layout": True}, ((3, 5), (3, 5, 2))),
    (POSTPROCESSING, {}, ((2, 6), (2, 6, 4), (2, 6), (2,))),
    (
        POSTPROCESSING,
        {"use_regular_nms": True, "max_classes_per_detection": 0},
        ((2, 3), (2, 3, 4), (2, 3), (2,)),
    ),
    (
        POSTPROCESSING,
        {"scores": t(None, 9, None), "max_detections_per_class": 0},
        ((2, 6), (2, 6, 4), (2, 6), (2,)),
    ),
]


@pytest.mark.parametrize(("of", "change", "expected"), CASES)
def test_shapes(of, change, expected):
    row, operands = of
    assert infer(row, operands | change, len(expected)) == expected


REFUSALS = [
    (ALIGN, {"rois": t(2, 4)}, "sizes 2 and 3 must be equal"),
    (ALIGN, {"rois": t(3, 5)}, "sizes 5 and 4 must be equal"),
    (ALIGN, {"batch_indices": t(3, 1)}, "a list has 1 dimension, not 2"),
    (ALIGN, {"rois": t(12)}, "a list of rows has 2 dimensions, not 1"),
    (POOLING, {"input": t(2, 0, 9, 5)}, "an image of (2, 0, 9, 5) has no pixels"),
    (POOLING, {"input": t(7, 9, 5)}, "an image tensor has rank 4, not 3"),
    (TRANSFORM, {"deltas": t(3, 6)}, "deltas has 6 numbers for a row, which is no multiple of 4"),
    (TRANSFORM, {"deltas": t(3, 0)}, "deltas have no class"),
    (TRANSFORM, {"deltas": t(4, 8)}, "sizes 3 and 4"),
    (TRANSFORM, {"image_info": t(2, 3)}, "sizes 3 and 2"),
    (TRANSFORM, {"image_info": t(0, 2)}, "image_info has the size of no image"),
    (LIMIT, {"scores": t(3, 1), "rois": t(3, 4)}, "only the background class"),
    (LIMIT, {"rois": t(3, 12)}, "sizes 2 and 3 must be equal"),
    (LIMIT, {"batch_indices": t(2)}, "sizes 3 and 2 must be equal"),
    (PROPOSALS, {"deltas": t(2, 5, 7, 12)}, "sizes 6 and 7"),
    (PROPOSALS, {"anchors": t(4, 4)}, "sizes 3 and 4 must be equal"),
    (PROPOSALS, {"image_info": t(1, 2)}, "sizes 2 and 1 must be equal"),
    (KEYPOINT, {"heatmap": t(3, 6, 5, 5)}, "sizes 6 and 5"),
    (KEYPOINT, {"heatmap": t(3, 1, 1, 5)}, "heatmap has 1 x 1 pixels"),
    (POSTPROCESSING, {"scores": t(2, 9, 1)}, "only the background class"),
    (POSTPROCESSING, {"deltas": t(2, 9, 3)}, "deltas has 3 numbers for a box"),
    (POSTPROCESSING, {"anchors": t(8, 4)}, "sizes 9 and 8"),
    (POSTPROCESSING, {"dh_scale": 0.0}, "dh_scale is 0"),
    (POSTPROCESSING, {"iou_threshold": -0.5}, "iou_threshold is"),
    (POSTPROCESSING, {"max_num_detections": 0}, "max_num_detections"),
    (POSTPROCESSING, {"max_classes_per_detection": 0}, "max_num_detections is not positive"),
    (
        POSTPROCESSING,
        {"use_regular_nms": True, "max_detections_per_class": 0},
        "max_num_detections is not positive",
    ),
    (POSTPROCESSING, {"scores": t(9, 4)}, "have 3 dimensions"),
]


@pytest.mark.parametrize(("of", "change", "sentence"), REFUSALS)
def test_refusals(of, change, sentence):
    row, operands = of
    with pytest.raises(ShapeError, match=re.escape(sentence)):
        infer(row, operands | change, 4)
