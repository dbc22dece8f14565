"""Shapes of convolutions: extents for every padding, stride and dilation."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import ShapeError
from tests.nnapi.shapes.operands import ints, one, t

WINDOW = {"stride_width": 1, "stride_height": 1, "activation": 0}
EXPLICIT = {f"padding_{side}": 0 for side in ("left", "right", "top", "bottom")} | WINDOW
SAME = {"padding": 1} | WINDOW
VALID = {"padding": 2} | WINDOW


def conv(image, kernel, scalars, row=spec.CONV_2D, **more):
    channels = kernel[3] if row is spec.DEPTHWISE_CONV_2D else kernel[0]
    return one(row, input=t(*image), filter=t(*kernel), bias=t(channels), **scalars, **more)


@pytest.mark.parametrize(
    ("scalars", "size", "expected"),
    [
        (SAME, 7, 7),
        (SAME | {"stride_width": 2, "stride_height": 2}, 7, 4),
        (VALID, 7, 5),
        (VALID | {"dilation_width": 3, "dilation_height": 3}, 7, 1),
        (EXPLICIT | {"padding_left": 2, "padding_top": 2}, 7, 7),
        (EXPLICIT | {"padding_left": 1, "padding_top": 1}, 7, 6),
        (VALID, 3, 1),
        (SAME, None, None),
    ],
    ids=["same", "same 2", "valid", "dilated", "most padding", "explicit", "just fits", "unknown"],
)
def test_convolution_extents(scalars, size, expected):
    assert conv((2, size, size, 4), (5, 3, 3, 4), scalars) == (2, expected, expected, 5)


def test_layouts():
    nchw = VALID | {"layout": True}
    assert conv((2, 4, 7, 8), (5, 3, 3, 4), nchw) == (2, 5, 5, 6)


@pytest.mark.parametrize(
    ("image", "kernel", "scalars", "message"),
    [
        ((1, 2, 7, 4), (5, 3, 3, 4), VALID, "a window of 3 does not fit a padded input of 2"),
        ((1, 7, 7, 3), (5, 3, 3, 4), VALID, "sizes 3 and 4"),
        ((1, 7, 7, 4), (5, 3, 3, 4), VALID | {"stride_width": 0}, "stride 0"),
        ((1, 7, 7, 4), (5, 3, 3, 4), EXPLICIT | {"padding_right": -1}, "padding is negative"),
        ((1, 7, 7, 4), (5, 3, 3, 4), VALID | {"padding": 3}, "neither SAME"),
        ((1, 7, 7, 4), (5, 3, 3, 4), VALID | {"dilation_height": 0}, "dilation 0"),
        ((7, 7, 4), (5, 3, 3, 4), VALID, "rank 4, not 3"),
        ((1, 7, 7, 4), (5, 3, 3, 4), EXPLICIT | {"padding_right": 3}, "padding of 3 is not below"),
        ((1, None, None, 4), (5, 1, 1, 4), EXPLICIT | {"padding_top": 1}, "window's size of 1"),
    ],
    ids=["window", "channels", "stride", "padding", "scheme", "dilation", "rank", "wide", "1x1"],
)
def test_convolutions_that_cannot_be(image, kernel, scalars, message):
    with pytest.raises(ShapeError, match=message):
        conv(image, kernel, scalars)


def test_a_bias_of_other_length_cannot_be():
    with pytest.raises(ShapeError, match="sizes 5 and 4"):
        one(spec.CONV_2D, input=t(1, 7, 7, 4), filter=t(5, 3, 3, 4), bias=t(4), **VALID)


def test_depthwise_and_grouped_channels():
    depthwise = {"row": spec.DEPTHWISE_CONV_2D, "depth_multiplier": 2}
    assert conv((1, 7, 7, 4), (1, 3, 3, 8), VALID, **depthwise) == (1, 5, 5, 8)
    with pytest.raises(ShapeError, match="sizes 6 and 8"):
        conv((1, 7, 7, 4), (1, 3, 3, 6), VALID, **depthwise)
    grouped = {"row": spec.GROUPED_CONV_2D, "num_groups": 2}
    assert conv((1, 7, 7, 4), (6, 3, 3, 2), VALID, **grouped) == (1, 5, 5, 6)
    with pytest.raises(ShapeError, match="5 filters do not divide into 2 groups"):
        conv((1, 7, 7, 4), (5, 3, 3, 2), VALID, **grouped)


def test_transposed_convolutions():
    strides = {"stride_width": 2, "stride_height": 3}
    explicit = EXPLICIT | strides | {"padding_top": 1, "padding_right": -1}
    tensors = {"input": t(1, 4, 5, 2), "filter": t(3, 3, 3, 2), "bias": t(3)}
    assert one(spec.TRANSPOSE_CONV_2D, **tensors, **explicit) == (1, 11, 12, 3)
    given = SAME | strides | {"output_shape": ints(1, 12, 10, 3)}
    assert one(spec.TRANSPOSE_CONV_2D, **tensors, **given) == (1, 12, 10, 3)
    given["output_shape"] = ints(1, 12, 10, 4)
    with pytest.raises(ShapeError, match="sizes 4 and 3"):
        one(spec.TRANSPOSE_CONV_2D, **tensors, **given)
