"""Shapes of resizes: by size, and by factor in either layout."""

import pytest

from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.nnapi.spec import RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR
from tests.nnapi.shapes.operands import one, t

ROWS = [RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_sizes_are_width_before_height(row):
    found = one(row, input=t(2, 5, 6, 3), output_width=8, output_height=9, layout=False)
    assert found == (2, 9, 8, 3)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_factors_are_rounded_down(row):
    factors = {"width_scale": 1.5, "height_scale": 0.5, "layout": True}
    assert one(row, input=t(2, 3, 5, 5), **factors) == (2, 3, 2, 7)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_coordinate_options_exclude_each_other(row):
    both = {"align_corners": True, "half_pixel_centers": True, "layout": False}
    with pytest.raises(ShapeError, match="half_pixel_centers and align_corners"):
        one(row, input=t(1, 2, 2, 1), output_width=2, output_height=2, **both)


def test_an_empty_result_cannot_be():
    with pytest.raises(ShapeError, match="the output has size"):
        one(RESIZE_BILINEAR, input=t(1, 2, 2, 1), output_width=0, output_height=2)
