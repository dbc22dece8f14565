"""Regions of images, within and beyond their edges."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import FL, accepts, f32, i64, matches, node, on_cpu, rejects

ROUNDED = {"atol": 1e-5, "rtol": 1e-5, "oracle": on_cpu}
# bins are sums in another order; a point is up to 1e-6 of a pixel elsewhere
WITHIN = np.array([[0, 0, 9, 7], [2, 1, 5, 6], [3.3, 2.1, 3.4, 2.2], [0, 0, 20, 16]], np.float32)
BEYOND = np.array([[-3, -5, 9, 7], [15, 12, 30, 26], [-9, 0, -4, 3], [9, 7, 2, 1]], np.float32)
REGIONS = {"within": WITHIN, "beyond": BEYOND}
IMAGES = np.array([0, 1, 1, 0], np.int64)


def align(x, rois, images, **attributes):
    sizes = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
    return node("RoiAlign", x, rois, images, **(sizes | attributes))


@pytest.mark.parametrize("target", [FL[3], FL[8]], ids=["3", "8"])
@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("rois", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize("samples", [1, 2, 3])
def test_roi_align_matches(rois, mode, samples, target):
    x, chosen = f32(2, 3, 8, 10), {"coordinate_transformation_mode": mode}
    given = {"x1": rois, "x2": IMAGES}
    case = align(x, f32(4, 4), i64(4), sampling_ratio=samples, **chosen)
    matches(case, target, feeds=given, **ROUNDED)


def test_roi_align_of_one_image_matches():
    for target in (FL[3], FL[8]):
        case = align(f32(1, 3, 8, 10), WITHIN, np.zeros(4, np.int64))
        matches(case, target, **ROUNDED)
        matches(
            align(f32(1, 3, 8, 10), f32(4, 4, low=0, high=9), i64(4, low=0, high=0)),
            target,
            **ROUNDED,
        )


def test_roi_align_10_matches():
    case = align(f32(2, 3, 8, 10), WITHIN, IMAGES, opset=10)
    matches(case, FL[3], **ROUNDED)


def test_roi_align_refusals():
    x, rois = f32(2, 3, 8, 10), f32(4, 4)
    rejects(align(x, rois, IMAGES, mode="max"), FL[8], Reason.ATTRIBUTE, "mode is 'max'")
    rejects(
        align(x, rois, IMAGES, sampling_ratio=0), FL[8], Reason.ATTRIBUTE, "sampling_ratio is 0"
    )
    rejects(align(x, rois, IMAGES), FL[1], Reason.LEVEL, "needs feature level")
    most = align(f32(1, 3, 8, 10), f32(64, 4), np.zeros(64, np.int64))
    accepts(most, FL[3])
    more = align(f32(1, 3, 8, 10), f32(65, 4), np.zeros(65, np.int64))
    accepts(more, FL[8])
    rejects(more, FL[5], Reason.LEVEL, "BATCH_MATMUL")
