"""Shapes of boxes and regions: what follows from what is known, and what cannot be."""

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError, Tensor, infer


def t(*dims):
    return Tensor(dims)


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
TRANSFORM = {"rois": t(3, 4), "deltas": t(3, 8), "batch_indices": t(3), "image_info": t(2, 2)}
LIMIT = {"scores": t(3, 2), "rois": t(3, 8), "batch_indices": t(3)}
PROPOSALS = {
    "scores": t(2, 5, 6, 3),
    "deltas": t(2, 5, 6, 12),
    "anchors": t(3, 4),
    "image_info": t(2, 2),
    "layout": False,
}
KEYPOINT = {"heatmap": t(3, 6, 6, 5), "boxes": t(3, 4), "layout": False}
POSTPROCESSING = {
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
}
DYNAMIC = ((None,), (None, 4), (None,), (None,))
CASES = [
    (spec.ROI_ALIGN, REGIONS, {}, ((3, 2, 4, 5),)),
    (spec.ROI_ALIGN, REGIONS, {"height_sampling_points": 0}, ((3, 2, 4, 5),)),
    (spec.ROI_POOLING, REGIONS, {"rois": t(None, 4)}, ((3, 2, 4, 5),)),
    (spec.ROI_POOLING, REGIONS, {"layout": True, "input": t(2, 5, 7, 9)}, ((3, 5, 2, 4),)),
    (spec.ROI_POOLING, REGIONS, {"input": t(None, None, 9, None)}, ((3, 2, 4, None),)),
    (spec.ROI_POOLING, REGIONS, {"rois": t(0, 4), "batch_indices": t(0)}, ((0, 2, 4, 5),)),
    (spec.ROI_POOLING, REGIONS, {"rois": Tensor(None)}, (None,)),
    (spec.AXIS_ALIGNED_BBOX_TRANSFORM, TRANSFORM, {}, ((3, 8),)),
    (spec.AXIS_ALIGNED_BBOX_TRANSFORM, TRANSFORM, {"deltas": t(None, 8)}, ((3, 8),)),
    (spec.AXIS_ALIGNED_BBOX_TRANSFORM, TRANSFORM, {"deltas": t(3, None)}, ((3, None),)),
    (spec.BOX_WITH_NMS_LIMIT, LIMIT, {}, DYNAMIC),
    (spec.BOX_WITH_NMS_LIMIT, LIMIT, {"scores": t(None, None)}, DYNAMIC),
    (spec.GENERATE_PROPOSALS, PROPOSALS, {}, DYNAMIC[:3]),
    (spec.GENERATE_PROPOSALS, PROPOSALS, {"deltas": t(None, 5, None, 12)}, DYNAMIC[:3]),
    (
        spec.GENERATE_PROPOSALS,
        PROPOSALS,
        {"scores": t(2, 3, 5, 6), "deltas": t(2, 12, 5, 6), "layout": True},
        DYNAMIC[:3],
    ),
    (spec.HEATMAP_MAX_KEYPOINT, KEYPOINT, {}, ((3, 5), (3, 5, 2))),
    (spec.HEATMAP_MAX_KEYPOINT, KEYPOINT, {"heatmap": t(None, None, 6, 5)}, ((3, 5), (3, 5, 2))),
    (
        spec.HEATMAP_MAX_KEYPOINT,
        KEYPOINT,
        {"heatmap": t(3, 5, 2, 2), "layout": True},
        ((3, 5), (3, 5, 2)),
    ),
    (spec.DETECTION_POSTPROCESSING, POSTPROCESSING, {}, ((2, 6), (2, 6, 4), (2, 6), (2,))),
    (
        spec.DETECTION_POSTPROCESSING,
        POSTPROCESSING,
        {"use_regular_nms": True, "max_classes_per_detection": 0},
        ((2, 3), (2, 3, 4), (2, 3), (2,)),
    ),
    (
        spec.DETECTION_POSTPROCESSING,
        POSTPROCESSING,
        {"scores": t(None, 9, None), "max_detections_per_class": 0},
        ((2, 6), (2, 6, 4), (2, 6), (2,)),
    ),
]


@pytest.mark.parametrize(("row", "operands", "change", "expected"), CASES)
def test_shapes(row, operands, change, expected):
    assert infer(row, operands | change, len(expected)) == expected


REFUSALS = [
    (spec.ROI_ALIGN, REGIONS, {"rois": t(2, 4)}, "sizes 2 and 3 must be equal"),
    (spec.ROI_ALIGN, REGIONS, {"rois": t(3, 5)}, "sizes 5 and 4 must be equal"),
    (spec.ROI_ALIGN, REGIONS, {"batch_indices": t(3, 1)}, "a list has 1 dimension, not 2"),
    (spec.ROI_ALIGN, REGIONS, {"rois": t(12)}, "a list of rows has 2 dimensions, not 1"),
    (spec.ROI_POOLING, REGIONS, {"input": t(2, 0, 9, 5)}, "an image of (2, 0, 9, 5) has no pixels"),
    (spec.ROI_POOLING, REGIONS, {"input": t(7, 9, 5)}, "an image tensor has rank 4, not 3"),
    (
        spec.AXIS_ALIGNED_BBOX_TRANSFORM,
        TRANSFORM,
        {"deltas": t(3, 6)},
        "deltas has 6 numbers for a row, which is no multiple of 4",
    ),
    (spec.AXIS_ALIGNED_BBOX_TRANSFORM, TRANSFORM, {"deltas": t(3, 0)}, "deltas have no class"),
    (spec.AXIS_ALIGNED_BBOX_TRANSFORM, TRANSFORM, {"deltas": t(4, 8)}, "sizes 3 and 4"),
    (spec.AXIS_ALIGNED_BBOX_TRANSFORM, TRANSFORM, {"image_info": t(2, 3)}, "sizes 3 and 2"),
    (
        spec.AXIS_ALIGNED_BBOX_TRANSFORM,
        TRANSFORM,
        {"image_info": t(0, 2)},
        "image_info has the size of no image",
    ),
    (
        spec.BOX_WITH_NMS_LIMIT,
        LIMIT,
        {"scores": t(3, 1), "rois": t(3, 4)},
        "only the background class",
    ),
    (spec.BOX_WITH_NMS_LIMIT, LIMIT, {"rois": t(3, 12)}, "sizes 2 and 3 must be equal"),
    (spec.BOX_WITH_NMS_LIMIT, LIMIT, {"batch_indices": t(2)}, "sizes 3 and 2 must be equal"),
    (spec.GENERATE_PROPOSALS, PROPOSALS, {"deltas": t(2, 5, 7, 12)}, "sizes 6 and 7"),
    (spec.GENERATE_PROPOSALS, PROPOSALS, {"anchors": t(4, 4)}, "sizes 3 and 4 must be equal"),
    (spec.GENERATE_PROPOSALS, PROPOSALS, {"image_info": t(1, 2)}, "sizes 2 and 1 must be equal"),
    (spec.HEATMAP_MAX_KEYPOINT, KEYPOINT, {"heatmap": t(3, 6, 5, 5)}, "sizes 6 and 5"),
    (spec.HEATMAP_MAX_KEYPOINT, KEYPOINT, {"heatmap": t(3, 1, 1, 5)}, "heatmap has 1 x 1 pixels"),
    (
        spec.DETECTION_POSTPROCESSING,
        POSTPROCESSING,
        {"scores": t(2, 9, 1)},
        "only the background class",
    ),
    (
        spec.DETECTION_POSTPROCESSING,
        POSTPROCESSING,
        {"deltas": t(2, 9, 3)},
        "deltas has 3 numbers for a box",
    ),
    (spec.DETECTION_POSTPROCESSING, POSTPROCESSING, {"anchors": t(8, 4)}, "sizes 9 and 8"),
    (spec.DETECTION_POSTPROCESSING, POSTPROCESSING, {"dh_scale": 0.0}, "dh_scale is 0"),
    (spec.DETECTION_POSTPROCESSING, POSTPROCESSING, {"iou_threshold": -0.5}, "iou_threshold is"),
    (
        spec.DETECTION_POSTPROCESSING,
        POSTPROCESSING,
        {"max_num_detections": 0},
        "max_num_detections",
    ),
    (
        spec.DETECTION_POSTPROCESSING,
        POSTPROCESSING,
        {"max_classes_per_detection": 0},
        "max_num_detections is not positive",
    ),
    (
        spec.DETECTION_POSTPROCESSING,
        POSTPROCESSING,
        {"use_regular_nms": True, "max_detections_per_class": 0},
        "max_num_detections is not positive",
    ),
    (spec.DETECTION_POSTPROCESSING, POSTPROCESSING, {"scores": t(9, 4)}, "have 3 dimensions"),
]


@pytest.mark.parametrize(("row", "operands", "change", "sentence"), REFUSALS)
def test_refusals(row, operands, change, sentence):
    with pytest.raises(ShapeError) as caught:
        infer(row, operands | change, 4)
    assert sentence in str(caught.value)
