"""Shape inference: what is known, what is not yet, and what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import Pending, ShapeError, Tensor, infer

WINDOW = {"stride_width": 1, "stride_height": 1, "activation": 0}
EXPLICIT = {f"padding_{side}": 0 for side in ("left", "right", "top", "bottom")} | WINDOW
SAME = {"padding": 1} | WINDOW
VALID = {"padding": 2} | WINDOW


def t(*dims):
    return Tensor(dims)


def ints(*numbers):
    return Tensor.of(np.array(numbers, np.int32))


def one(row, **operands):
    (found,) = infer(row, operands)
    return found


def test_what_is_not_asked_for_may_be_unknown():
    assert one(spec.RELU, input=t(2, None)) == (2, None)
    assert one(spec.RELU, input=Tensor(None)) is None
    assert one(spec.SOFTMAX, input=t(2, 3), beta=Pending.PENDING, axis=0) == (2, 3)
    assert one(spec.SOFTMAX, input=t(2, 3), beta=1.0, axis=Pending.PENDING) is None
    assert one(spec.RESHAPE, input=t(2, 3), shape=Tensor((1,))) is None


@pytest.mark.parametrize(
    ("keep", "expected"), [(1, (2, 1)), (100, (2, 1)), (0, (2,)), (-100, (2,))], ids=str
)
def test_a_mean_keeps_dimensions_if_told_a_positive_number(keep, expected):
    assert one(spec.MEAN, input=t(2, 3), axes=ints(1), keep_dims=keep) == expected


def test_several_outputs_are_unknown_together():
    unknown = infer(spec.SPLIT, {"input": t(4), "axis": 0, "num_splits": Pending.PENDING}, 2)
    assert unknown == (None, None)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((2, 3), (3,), (2, 3)),
        ((2, 1), (1, 5), (2, 5)),
        ((None, 3), (2, 1), (2, 3)),
        ((None, 3), (1, 3), (None, 3)),
        ((None,), (None,), (None,)),
        ((0, 3), (1, 3), (0, 3)),
        ((), (4,), (4,)),
    ],
    ids=str,
)
def test_broadcasting(first, second, expected):
    assert one(spec.ADD, input1=t(*first), input2=t(*second), activation=0) == expected


@pytest.mark.parametrize("sizes", [(2, 3), (0, 2)], ids=str)
def test_sizes_that_do_not_broadcast(sizes):
    with pytest.raises(ShapeError, match="do not broadcast"):
        one(spec.ADD, input1=t(sizes[0]), input2=t(sizes[1]), activation=0)


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
        (EXPLICIT | {"padding_left": 1, "padding_top": 1}, 7, 6),
        (VALID, 3, 1),
        (SAME, None, None),
    ],
    ids=["same", "same 2", "valid", "dilated", "explicit", "just fits", "unknown"],
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
    ],
    ids=["window", "channels", "stride", "padding", "scheme", "dilation", "rank"],
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
    with pytest.raises(ShapeError, match="5 filters in 2 groups"):
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


def test_a_pool_sees_more_than_padding():
    pool = {"input": t(1, 5, 5, 2), "filter_width": 2, "filter_height": 2} | EXPLICIT
    assert one(spec.MAX_POOL_2D, **pool | {"padding_left": 1}) == (1, 4, 5, 2)
    with pytest.raises(ShapeError, match="all padding"):
        one(spec.MAX_POOL_2D, **pool | {"padding_left": 2})


@pytest.mark.parametrize(
    ("dims", "expected"),
    [((4, 6), (4, 5)), ((2, 2, 6), (4, 5)), ((None, 6), (None, 5)), ((None, 2, 3), (None, 5))],
    ids=str,
)
def test_fully_connected_rows(dims, expected):
    weights = {"weights": t(5, 6), "bias": t(5), "activation": 0}
    assert one(spec.FULLY_CONNECTED, input=t(*dims), **weights) == expected


def test_fully_connected_rows_that_do_not_fill():
    with pytest.raises(ShapeError, match="14 elements do not fill rows of 6"):
        one(spec.FULLY_CONNECTED, input=t(2, 7), weights=t(5, 6), bias=t(5), activation=0)


@pytest.mark.parametrize(
    ("row", "operands", "expected"),
    [
        (spec.RESHAPE, {"input": t(None, 6), "shape": ints(-1, 2)}, (None, 2)),
        (spec.RESHAPE, {"input": t(2, 6), "shape": ints(-1, 2)}, (6, 2)),
        (spec.CONCATENATION, {"inputs": (t(2, None), t(2, 3)), "axis": 0}, (4, 3)),
        (spec.CONCATENATION, {"inputs": (t(None, 3), t(2, 3)), "axis": -2}, (None, 3)),
        (spec.PAD, {"input": t(2, None), "paddings": ints(1, 2, 0, 3)}, (5, None)),
        (spec.MEAN, {"input": t(2, None, 4), "axes": ints(2, 0), "keep_dims": 0}, (None,)),
        (spec.MEAN, {"input": t(2, None, 4), "axes": ints(-1), "keep_dims": 1}, (2, None, 1)),
        (spec.REDUCE_SUM, {"input": t(2, 3), "axes": ints(0, 1), "keep_dims": False}, (1,)),
        (spec.ARGMAX, {"input": t(5), "axis": 0}, (1,)),
        (spec.GATHER, {"input": t(2, 3), "axis": 1, "indices": t(4, None)}, (2, 4, None)),
        (spec.SQUEEZE, {"input": t(1, None), "axes": ints(0)}, (None,)),
        (spec.SQUEEZE, {"input": t(1, None)}, None),
        (spec.SLICE, {"input": t(None, 5), "begin": ints(1, 2), "size": ints(2, -1)}, (2, 3)),
        (spec.SPACE_TO_DEPTH, {"input": t(1, 4, None, 3), "block_size": 2}, (1, 2, None, 12)),
        (spec.FILL, {"dims": ints(2, 0), "value": 1.0}, (2, 0)),
        (spec.RANK, {"input": t(2, 3)}, ()),
        (spec.BATCH_MATMUL, {"input1": t(2, 3, None), "input2": t(2, 4, 5)}, (2, 3, 5)),
        (spec.PACK, {"axis": 1, "inputs": (t(2, 3), t(None, 3))}, (2, 2, 3)),
        (spec.TILE, {"input": t(2, None), "multiples": ints(3, 2)}, (6, None)),
    ],
    ids=str,
)
def test_shapes(row, operands, expected):
    assert one(row, **operands) == expected


@pytest.mark.parametrize(
    ("row", "operands", "message"),
    [
        (spec.TRANSPOSE, {"input": t(2, 3), "perm": ints(0, 0)}, "does not permute"),
        (spec.SQUEEZE, {"input": t(2, 3), "axes": ints(0)}, "sizes 2 and 1"),
        (spec.EXPAND_DIMS, {"input": t(2, 3), "axis": 3}, "axis 3 is outside"),
        (spec.SOFTMAX, {"input": t(2, 3), "axis": -3}, "axis -3 is outside"),
        (spec.CONCATENATION, {"inputs": (t(2, 3), t(2, 4)), "axis": 0}, "sizes 3 and 4"),
        (spec.CONCATENATION, {"inputs": (t(2), t(2, 4)), "axis": 0}, "ranks"),
        (spec.PAD, {"input": t(2), "paddings": ints(-1, 0)}, "negative"),
        (spec.SPLIT, {"input": t(5), "axis": 0, "num_splits": 2}, "no 2 equal parts"),
        (spec.TOPK_V2, {"input": t(3), "k": 4}, "4 of 3"),
        (spec.DEPTH_TO_SPACE, {"input": t(1, 2, 2, 6), "block_size": 2}, "depth 6"),
        (spec.FILL, {"dims": ints(-1), "value": 1.0}, "negative"),
        (spec.REVERSE, {"input": t(3), "axis": ints(1)}, "axis 1 is outside"),
        (spec.BATCH_MATMUL, {"input1": t(2, 3), "input2": t(2, 3)}, "sizes 3 and 2"),
        (spec.PACK, {"axis": 2, "inputs": (t(2),)}, "axis 2 is outside"),
        (spec.TILE, {"input": t(2), "multiples": ints(0)}, "not positive"),
    ],
    ids=str,
)
def test_shapes_that_cannot_be(row, operands, message):
    with pytest.raises(ShapeError, match=message):
        one(row, **operands)
