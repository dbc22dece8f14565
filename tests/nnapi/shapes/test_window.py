"""Windows in NNAPI's padding schemes, against counting positions one by one."""

from random import Random

import pytest

from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.nnapi.shapes.window import AxisGeometry, WindowGeometry, image_dims, nhwc_dims
from tests.nnapi.shapes.operands import t

SCALARS = {"stride_width": 2, "stride_height": 1}


def test_extents_are_the_positions_at_which_a_window_fits():
    """None of them in the padding alone."""
    rng = Random(3)
    for case in range(300):
        size, taps = rng.randint(1, 12), rng.randint(1, 4)
        stride, dilation = rng.randint(1, 3), rng.randint(1, 3)
        before, after = rng.randint(0, 2), rng.randint(0, 2)
        reach, padded = (taps - 1) * dilation + 1, size + before + after
        fitting = [p for p in range(0, padded, stride) if p + reach <= padded]
        axis = AxisGeometry(stride, dilation, before, after)
        if max(before, after) >= reach:
            with pytest.raises(ShapeError, match="not below the window's size"):
                axis.extent(size, taps)
        elif fitting:
            assert axis.extent(size, taps) == len(fitting), (3, case)
        else:
            with pytest.raises(ShapeError, match="does not fit"):
                axis.extent(size, taps)


def test_same_padding_gives_the_size_divided_by_the_stride():
    window = WindowGeometry.of(padding=1, **SCALARS)
    assert [window.width.extent(size, 3) for size in (1, 6, 7, None)] == [1, 3, 4, None]


@pytest.mark.parametrize(
    ("scalars", "message"),
    [
        ({"padding": 3, **SCALARS}, "padding scheme 3"),
        ({"padding": 2, **SCALARS, "stride_width": 0}, "stride 0 is not positive"),
        ({"padding": 2, **SCALARS, "dilation_width": 0}, "dilation 0 is not positive"),
    ],
)
def test_windows_that_cannot_be(scalars: dict[str, int], message: str):
    with pytest.raises(ShapeError, match=message):
        WindowGeometry.of(**scalars)


def test_images_are_in_either_layout():
    assert nhwc_dims(t(1, 2, 3, 4), nchw=True) == (1, 3, 4, 2)
    assert nhwc_dims(t(1, 2, 3, 4), nchw=False) == (1, 2, 3, 4)
    assert image_dims(1, 3, 4, 2, nchw=True) == (1, 2, 3, 4)
    with pytest.raises(ShapeError, match="rank 4, not 3"):
        nhwc_dims(t(1, 2, 3), nchw=False)
