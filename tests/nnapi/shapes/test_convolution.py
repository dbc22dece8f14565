"""Shapes of convolutions: extents for every padding, stride and dilation."""

from random import Random

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.shapes.convolution import AxisGeometry, WindowGeometry, image_dims, nhwc_dims
from ep_nnapi.nnapi.shapes.operands import ShapeError, Tensor
from ep_nnapi.nnapi.shapes.scratch import require_scratch
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.nnapi.spec import MAX_POOL_2D
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


# Windows in NNAPI's padding schemes, against counting positions one by one

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


def test_images_are_in_either_layout():
    assert nhwc_dims(t(1, 2, 3, 4), nchw=True) == (1, 3, 4, 2)
    assert nhwc_dims(t(1, 2, 3, 4), nchw=False) == (1, 2, 3, 4)
    assert image_dims(1, 3, 4, 2, nchw=True) == (1, 2, 3, 4)
    with pytest.raises(ShapeError, match="rank 4, not 3"):
        nhwc_dims(t(1, 2, 3), nchw=False)


# Shapes of pools


def test_a_pool_sees_more_than_padding():
    pool = {"input": t(1, 5, 5, 2), "filter_width": 2, "filter_height": 2} | EXPLICIT
    assert one(spec.MAX_POOL_2D, **pool | {"padding_left": 1}) == (1, 4, 5, 2)
    with pytest.raises(ShapeError, match="padding of 2 is not below"):
        one(spec.MAX_POOL_2D, **pool | {"padding_left": 2})


# Limits on scratch memory: at the limit, and just past it

SCRATCH_WINDOW = {
    **dict.fromkeys(("padding_left", "padding_right", "padding_bottom"), 0),
    **{"stride_width": 1, "stride_height": 1, "filter_width": 1, "activation": 0},
}


def pool(padding: int) -> dict[str, object]:
    """An image of one pixel padded above to a column of 1 + `padding` pixels, all pooled."""
    return {
        "input": Tensor((1, 1, 1, 1)),
        "padding_top": padding,
        "filter_height": 1,
        **SCRATCH_WINDOW,
    }


def test_64_ki_elements_are_always_allowed():
    require_scratch(MAX_POOL_2D, pool(2**16 - 1), 0)


def test_beyond_it_16_elements_for_each_of_the_operands():
    require_scratch(MAX_POOL_2D, pool(2**16 + 32 - 1), 2)
    with pytest.raises(Reject, match="POOL_2D needs scratch memory of 65569") as caught:
        require_scratch(MAX_POOL_2D, pool(2**16 + 32), 2)
    assert caught.value.reason is Reason.SIZE
    require_scratch(MAX_POOL_2D, pool(2**16 + 32), 2, times=2)


def test_unknown_sizes_pass():
    require_scratch(MAX_POOL_2D, {**pool(2**30), "input": Tensor((1, None, 1, 1))}, 0)


def test_padding_of_a_size_is_a_condition_of_each_trace_that_asks() -> None:
    for _ in range(2):
        trace = Trace()
        left = trace.size("w", 8) % 2
        assert WindowGeometry.of(**EXPLICIT | {"padding_left": left}).width.before == 0
        assert [c.holds({"w": w}) for c in trace.conditions for w in (8, 9, 10)] == [1, 0, 1]
