"""ROI_ALIGN and ROI_POOLING against their definitions, bin by bin, in float64."""

import math

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.boxed import KINDS, indexes, refuses
from tests.nnapi.host.oracle import F32, compare, quantized, run, store

SEED = 20260814
HEIGHT, WIDTH = 7, 9
KIND = pytest.mark.parametrize("kind", KINDS, ids=str)
LAYOUT = pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])


def operands(kind, image, rois, batches, **scalars):
    """Pixels of the image are 4 high and 2 wide in the boxes' coordinates."""
    return {
        "input": kind.of_data(image),
        "rois": kind.of_boxes(rois),
        "batch_indices": indexes(batches),
        "output_height": 2,
        "output_width": 3,
        "height_ratio": 4.0,
        "width_ratio": 2.0,
    } | scalars


def sampled(image, x, y):
    """The image [H, W, C] between its pixels; beyond the last one, that one."""
    x, y = min(x, image.shape[1] - 1), min(y, image.shape[0] - 1)
    left, top = int(x), int(y)
    right, bottom = math.ceil(x), math.ceil(y)
    upper = image[top, left] * (1 - x + left) + image[top, right] * (x - left)
    lower = image[bottom, left] * (1 - x + left) + image[bottom, right] * (x - left)
    return upper * (1 - y + top) + lower * (y - top)


def aligned(image, region, size, counts):
    """One region (x1, y1, x2, y2), in pixels: the means of the points of its bins."""
    high, wide = (max(1.0, region[i + 2] - region[i]) / size[1 - i] for i in (1, 0))
    rows, columns = counts[0] or math.ceil(high), counts[1] or math.ceil(wide)
    found = np.zeros((*size, image.shape[2]))
    for i, j in np.ndindex(size):
        for m, n in np.ndindex(rows, columns):
            y = region[1] + high * (i + (m + 0.5) / rows)
            x = region[0] + wide * (j + (n + 0.5) / columns)
            found[i, j] += sampled(image, x, y) / (rows * columns)
    return found


def pooled(image, region, size):
    """One region, in pixels, rounded: the greatest pixels of its bins."""
    x1, y1, x2, y2 = (math.floor(c + 0.5) for c in region)
    high, wide = (y2 - y1 + 1) / size[0], (x2 - x1 + 1) / size[1]
    found = np.zeros((*size, image.shape[2]))
    for i, j in np.ndindex(size):
        rows = slice(math.floor(y1 + i * high), math.ceil(y1 + (i + 1) * high))
        columns = slice(math.floor(x1 + j * wide), math.ceil(x1 + (j + 1) * wide))
        seen = image[rows, columns]
        if seen.size:
            found[i, j] = seen.max(axis=(0, 1))
    return found


def regions(given, nchw, of_region):
    """All regions, in the layout of the image."""
    image = given["input"].real.transpose((0, 2, 3, 1) if nchw else (0, 1, 2, 3))
    ratios = np.array([given["width_ratio"], given["height_ratio"]] * 2)
    size = given["output_height"], given["output_width"]
    batches = given["batch_indices"].array
    found = [
        of_region(image[batch], roi / ratios, size)
        for roi, batch in zip(given["rois"].real, batches, strict=True)
    ]
    return np.array(found).transpose((0, 3, 1, 2) if nchw else (0, 1, 2, 3))


ROIS = [
    [2, 4, 10, 20],
    [0, 0, 2 * WIDTH, 4 * HEIGHT],  # all of the image, to its very end
    [3.125, 5.5, 4.375, 6.125],  # less than a pixel
    [2 * WIDTH, 4 * HEIGHT, 2 * WIDTH, 4 * HEIGHT],  # nothing, in the last corner
    [0, 8.875, 16.25, 9],
]
BATCHES = [1, 0, 0, 1, 1]


def image(kind, nchw):
    numbers = np.random.default_rng(SEED).uniform(-0.9, 0.9, (2, HEIGHT, WIDTH, 5))
    return numbers.transpose((0, 3, 1, 2) if nchw else (0, 1, 2, 3))


@KIND
@LAYOUT
@pytest.mark.parametrize("counts", [(2, 3), (0, 0), (0, 1), (5, 0)], ids=str)
def test_roi_align(kind, nchw, counts):
    points = {"height_sampling_points": counts[0], "width_sampling_points": counts[1]}
    given = operands(kind, image(kind, nchw), ROIS, BATCHES, **points, layout=nchw)
    want = regions(given, nchw, lambda *of: aligned(*of, counts))
    output = quantized(kind.code, want) if kind.code.quantized else kind.data
    for constant in (False, True):
        (got,) = run(spec.ROI_ALIGN, given, output, constant=constant)
        compare(got, output, want, 1e-5, str(kind))  # sums of products in float32


@KIND
@LAYOUT
def test_roi_pooling(kind, nchw):
    given = operands(kind, image(kind, nchw), ROIS, BATCHES, layout=nchw)
    want = regions(given, nchw, pooled)
    (got,) = run(spec.ROI_POOLING, given, kind.data)
    compare(got, kind.data, want, 0, str(kind))


def test_a_bin_beyond_the_image_is_zero():
    given = operands(KINDS[2], np.full((1, 1, 2, 1), 0.5), [[4, 0, 4, 0]], [0], layout=False)
    (got,) = run(spec.ROI_POOLING, given, KINDS[2].data)
    assert got.tolist() == [[[[KINDS[2].zero_point]] * 3] * 2]


@KIND
@LAYOUT
@pytest.mark.parametrize("row", [spec.ROI_ALIGN, spec.ROI_POOLING], ids=str)
def test_no_regions(kind, nchw, row):
    given = operands(kind, image(kind, nchw), np.zeros((0, 4)), [])
    if row is spec.ROI_ALIGN:
        given |= {"height_sampling_points": 0, "width_sampling_points": 0}
    (got,) = run(row, given | {"layout": nchw}, kind.data)
    assert got.shape == ((0, 5, 2, 3) if nchw else (0, 2, 3, 5))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rois": store([[0, 0, 2 * WIDTH, 4 * HEIGHT]], F32)}, None),
        ({"rois": store([[0, 0, 2 * WIDTH + 0.25, 4]], F32)}, "not within an image of 7 x 9"),
        ({"rois": store([[0, 0, 4, 4 * HEIGHT + 0.25]], F32)}, "not within an image of 7 x 9"),
        ({"rois": store([[-0.25, 0, 4, 4]], F32)}, "not within an image of 7 x 9"),
        ({"rois": store([[4, 0, 2, 4]], F32)}, "x1 <= x2 and y1 <= y2"),
        ({"batch_indices": indexes([2])}, "there is no batch 2 of 2"),
        ({"output_width": 0}, "regions of 2 x 0"),
        ({"width_ratio": 0.0}, "width_ratio is 0"),
        ({"height_ratio": -1.0}, "height_ratio is -1"),
        ({"width_sampling_points": -1}, "width_sampling_points is -1"),
    ],
    ids=str,
)
def test_roi_limits(change, sentence):
    scalars = {"height_sampling_points": 2, "width_sampling_points": 2, "layout": False}
    given = operands(KINDS[0], image(KINDS[0], False), [[0, 0, 4, 4]], [1], **scalars) | change
    if sentence:
        refuses(sentence, spec.ROI_ALIGN, given, Operand(F32))
    else:
        assert np.isfinite(run(spec.ROI_ALIGN, given, Operand(F32))[0]).all()


def test_regions_in_another_scale_are_refused():
    kind = KINDS[3]
    given = operands(kind, image(kind, False), [[0, 0, 4, 4]], [1], layout=False)
    given["rois"] = store([[0, 0, 4, 4]], kind.box, Operand(kind.box, (), 0.125, 8))
    sentence = "rois must have scale 0.125 from 0, not 0.125 from 8"
    refuses(sentence, spec.ROI_POOLING, given, kind.data)
