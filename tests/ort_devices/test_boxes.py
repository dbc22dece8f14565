"""Operations on boxes on host-cpu, against their definitions in float64."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.ort_devices.lowering.roi import same_bins
from tests.nnapi.host import test_keypoint, test_roi
from tests.nnapi.host.boxed import KINDS, ROUNDING, boxes, indexes, transformed
from tests.nnapi.host.oracle import compare, on_host_cpu, quantized

KIND = pytest.mark.parametrize("kind", KINDS, ids=str)
LAYOUT = pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
SEED = 20261122


def aligned(kind, nchw, counts):
    points = {"height_sampling_points": counts[0], "width_sampling_points": counts[1]}
    image = test_roi.image(kind, nchw)
    return test_roi.operands(kind, image, test_roi.ROIS, test_roi.BATCHES, **points, layout=nchw)


@KIND
@LAYOUT
@pytest.mark.parametrize("count", [0, 1, 3])
def test_roi_align(kind, nchw, count):
    given = aligned(kind, nchw, (count, count))
    want = test_roi.regions(given, nchw, lambda *of: test_roi.aligned(*of, (count, count)))
    output = quantized(kind.code, want) if kind.code.quantized else kind.data
    (got,) = on_host_cpu(spec.ROI_ALIGN, given, output, constant=False)
    compare(got, output, want, 1e-5, str(kind))  # sums of products in float32


def test_other_numbers_of_sampling_points_along_the_other_axis_are_declined():
    given = aligned(KINDS[0], nchw=False, counts=(2, 3))
    assert on_host_cpu(spec.ROI_ALIGN, given, KINDS[0].data, constant=False) == []


@KIND
@LAYOUT
def test_roi_pooling(kind, nchw):
    image = test_roi.image(kind, nchw)
    given = test_roi.operands(kind, image, test_roi.ROIS, test_roi.BATCHES, layout=nchw)
    want = test_roi.regions(given, nchw, test_roi.pooled)
    (got,) = on_host_cpu(spec.ROI_POOLING, given, kind.data, constant=False)
    compare(got, kind.data, want, 0, str(kind))


def bins(start, length, count, *, first):
    """Ends of bins in float32, with the start added first or last."""
    edges = np.arange(count + 1, dtype=np.float32) * (np.float32(length) / np.float32(count))
    if first:
        return np.floor(edges + np.float32(start)), np.ceil(edges + np.float32(start))
    return np.floor(edges) + start, np.ceil(edges) + start


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [1, 9, 50])
def test_bins_are_the_same_if_no_region_has_others(size, count):
    same = all(
        np.array_equal(a, b)
        for start in range(size + 1)
        for length in range(1, size + 2 - start)
        for a, b in zip(
            bins(start, length, count, first=True),
            bins(start, length, count, first=False),
            strict=True,
        )
    )
    assert same_bins(size, count) is same


def test_pooling_whose_bins_are_rounded_otherwise_is_declined():
    """Size and count are the first of which a region has other bins in ONNX Runtime."""
    size, count = next((s, c) for s in range(1, 300) for c in range(1, 16) if not same_bins(s, c))
    kind = KINDS[0]
    for width in (size, size - 1):
        given = test_roi.operands(kind, np.zeros((1, 1, width, 1)), [[0, 0, 1, 1]], [0])
        given |= {"output_width": count, "output_height": 1, "layout": False}
        taken = bool(on_host_cpu(spec.ROI_POOLING, given, kind.data, constant=False))
        assert taken is same_bins(width, count)


@pytest.mark.parametrize("row", [spec.ROI_ALIGN, spec.ROI_POOLING], ids=str)
@pytest.mark.parametrize(
    ("rois", "batch", "message"),
    [
        ([4, 0, 2, 8], 0, "a box must have x1 <= x2 and y1 <= y2"),
        ([0, 8, 2, 4], 0, "a box must have x1 <= x2 and y1 <= y2"),
        ([0, 0, 18.25, 4], 0, "a region is not within an image of 7 x 9"),
        ([0, 0, 2, 28.25], 0, "a region is not within an image of 7 x 9"),
        ([0, 0, 2, 4], 2, "a batch index is out of range"),
        ([0, 0, 2, 4], -1, "a batch index is out of range"),
    ],
)
def test_regions_that_cannot_be_fail(row, rois, batch, message):
    """Those that just can are in `test_roi.ROIS`."""
    kind = KINDS[0]
    given = test_roi.operands(kind, test_roi.image(kind, nchw=False), [rois], [batch])
    if row is spec.ROI_ALIGN:
        given |= {"height_sampling_points": 0, "width_sampling_points": 0}
    with pytest.raises(RuntimeFailure, match=message):
        on_host_cpu(row, given | {"layout": False}, kind.data, constant=False)


@KIND
@LAYOUT
@pytest.mark.parametrize("size", [2, 3, 6])
def test_heatmap_max_keypoint(kind, nchw, size):
    rng = np.random.default_rng(SEED)
    keypoints = 20  # some of them at edges and in corners
    shape = (3, keypoints, size, size) if nchw else (3, size, size, keypoints)
    order = (0, 1, 2, 3) if nchw else (0, 3, 1, 2)
    maps = rng.uniform(-0.9, 0.9, shape)
    given = test_keypoint.operands(kind, maps, boxes(rng, (3,), 16), nchw)
    flat = 1e-3 if str(kind) == "FLOAT16" else 1e-5
    scores, places = test_keypoint.results(given, order, flat)
    score_type = Operand(kind.code, (), kind.scale * 2, kind.zero_point)
    got = on_host_cpu(spec.HEATMAP_MAX_KEYPOINT, given, score_type, kind.boxes, constant=False)
    # A determinant amplifies rounding: it is up to 1000 times less than the numbers it is made of.
    compare(got[0], score_type, scores, 1e-4, str(kind))
    compare(got[1], kind.boxes, places, 1e-4, str(kind))


@KIND
def test_axis_aligned_bbox_transform(kind):
    rng = np.random.default_rng(SEED)
    given = {
        "rois": kind.of_boxes(boxes(rng, (5,), 30)),
        "deltas": kind.of_data(rng.uniform(-0.9, 0.9, (5, 12))),
        "batch_indices": indexes([0, 1, 1, 0, 1]),
        "image_info": kind.of_boxes([[30, 40], [20, 25]]),
    }
    rois, deltas, _, sizes = (o.real for o in given.values())
    batches = given["batch_indices"].array
    want = np.array(
        [
            np.concatenate([transformed(r, d, sizes[b]) for d in of.reshape(-1, 4)])
            for r, of, b in zip(rois, deltas, batches, strict=True)
        ]
    )
    row = spec.AXIS_ALIGNED_BBOX_TRANSFORM
    (got,) = on_host_cpu(row, given, kind.boxes, constant=False)
    compare(got, kind.boxes, want, ROUNDING, str(kind))
    given["batch_indices"] = indexes([0, 1, 2, 0, 1])
    with pytest.raises(RuntimeFailure, match="a batch index is out of range"):
        on_host_cpu(row, given, kind.boxes, constant=False)
