"""HEATMAP_MAX_KEYPOINT against the maximum of a second-order surface, solved in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host.boxed import KINDS, boxes, refuses
from tests.nnapi.host.oracle import F32, compare, run, store

SEED = 20260813
KEYPOINT = spec.HEATMAP_MAX_KEYPOINT


def surface(grid):
    """Gradient (x, y) and Hessian at the middle of 3 x 3 numbers, by central differences."""
    gradient = np.array([grid[1, 2] - grid[1, 0], grid[2, 1] - grid[0, 1]]) / 2
    twist = (grid[2, 2] - grid[2, 0] - grid[0, 2] + grid[0, 0]) / 4
    across, down = (line[0] - 2 * line[1] + line[2] for line in (grid[1], grid[:, 1]))
    return gradient, np.array([[across, twist], [twist, down]])


def maximum(heatmap, flat):
    """Score and place (x, y), in parts of the heatmap, of its maximum."""
    size = len(heatmap)
    row, column = np.unravel_index(np.argmax(heatmap), heatmap.shape)
    mirrored = np.pad(heatmap, 1, mode="reflect")
    gradient, hessian = surface(mirrored[row : row + 3, column : column + 3])
    shift = np.zeros(2)
    if abs(np.linalg.det(hessian)) >= flat * (1 + hessian[0, 0] * hessian[1, 1]):
        shift = np.linalg.solve(hessian, -gradient)
        shift *= 1.5 / max(1.5, *abs(shift))
    score = heatmap[row, column] + gradient @ shift + shift @ hessian @ shift / 2
    return score, (np.array([column, row]) + shift + 0.5) / size


def results(operands, order, flat):
    maps, rois = operands["heatmap"].real.transpose(order), operands["boxes"].real
    scores = np.empty((len(rois), maps.shape[1]))
    places = np.empty((*scores.shape, 2))
    for n, k in np.ndindex(scores.shape):
        scores[n, k], place = maximum(maps[n, k], flat)
        places[n, k] = rois[n, :2] + place * (rois[n, 2:] - rois[n, :2])
    return scores, places


def operands(kind, heatmap, rois, nchw):
    return {"heatmap": kind.of_data(heatmap), "boxes": kind.of_boxes(rois), "layout": nchw}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
@pytest.mark.parametrize("size", [2, 3, 6])
def test_heatmap_max_keypoint(kind, nchw, size):
    rng = np.random.default_rng(SEED)
    keypoints = 20  # some of them at edges and in corners
    shape = (3, keypoints, size, size) if nchw else (3, size, size, keypoints)
    order = (0, 1, 2, 3) if nchw else (0, 3, 1, 2)
    given = operands(kind, rng.uniform(-0.9, 0.9, shape), boxes(rng, (3,), 16), nchw)
    flat = 1e-3 if str(kind) == "FLOAT16" else 1e-5
    scores, places = results(given, order, flat)
    score_type = Operand(kind.code, (), kind.scale * 2, kind.zero_point)
    got = run(KEYPOINT, given, score_type, kind.boxes)
    # A determinant amplifies rounding: it is up to 1000 times less than the numbers it is made of.
    compare(got[0], score_type, scores, 1e-4, str(kind))
    compare(got[1], kind.boxes, places, 1e-4, str(kind))


def test_the_middle_of_a_flat_pixel_is_its_keypoint():
    """Curved along x alone: there is no single maximum."""
    heatmap = np.zeros((1, 3, 3, 1))
    heatmap[0, :, 1] = 1
    given = operands(KINDS[0], heatmap, [[0, 0, 3, 6]], nchw=False)
    scores, places = run(KEYPOINT, given, Operand(F32), Operand(F32))
    assert scores.tolist() == [[1.0]]
    assert places.tolist() == [[[1.5, 1.0]]]


def test_a_maximum_is_at_most_one_and_a_half_pixels_away():
    """The surface is greatest 4 pixels to the right, where the heatmap has other numbers."""
    heatmap = np.zeros((1, 5, 5, 1))
    heatmap[0, 1:4, 1:4, 0] = [[0.0, 0.6, 0.0], [0.7, 1.0, 1.0 - 1e-3], [0.0, 0.6, 0.0]]
    given = operands(KINDS[0], heatmap, [[0, 0, 5, 5]], nchw=False)
    scores, places = results(given, (0, 3, 1, 2), 1e-5)
    got = run(KEYPOINT, given, Operand(F32), Operand(F32))
    compare(got[0], Operand(F32), scores, 1e-5, "score")
    compare(got[1], Operand(F32), places, 1e-5, "place")


def test_heatmap_max_keypoint_refusals():
    given = operands(KINDS[0], np.zeros((1, 2, 2, 1)), [[0, 0, 0, 0]], nchw=False)
    run(KEYPOINT, given, Operand(F32), Operand(F32))
    outputs = (Operand(F32), Operand(F32))
    torn = given | {"boxes": store([[1, 0, 0, 0]], F32)}
    refuses("a box must have x1 <= x2 and y1 <= y2", KEYPOINT, torn, *outputs)
    small = given | {"heatmap": store(np.zeros((1, 1, 1, 1)), F32)}
    refuses("heatmap has 1 x 1 pixels", KEYPOINT, small, *outputs)
