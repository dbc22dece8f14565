"""Operations applied to values by name."""

import numpy as np
import pytest

from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.call import View, apply, nhwc, operand_code
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode, OperandCode
from ep_nnapi.nnapi.errors import Reason, Reject, SpecError


def f32(name, *dims):
    return Value(name, DType.FLOAT, dims)


def u8(name, *dims, scale=0.1, zero_point=0):
    return Value(name, DType.UINT8, dims, Quantization((scale,), (zero_point,)))


X, Y, Z = f32("x", 1, 4), f32("y", 1, 4), f32("z", 1, 4)
IMAGE, MADE = f32("x", 1, 3, 8, 8), f32("y", 1, 2, 8, 8)
PADS = {f"padding_{side}": 1 for side in ("left", "right", "top", "bottom")}
STRIDES = {"stride_width": 1, "stride_height": 1}


def names(call):
    return [p.name for p in call.params]


def test_position_then_names_in_the_specified_order():
    call = apply(spec.ADD, X, activation=FuseCode.RELU, input2=Y, out=Z)
    assert names(call) == ["input1", "input2", "activation"]
    assert call.inputs == (X, Y, FuseCode.RELU)
    assert call.outputs == (Z,)


def test_activation_is_none_unless_named():
    assert apply(spec.ADD, X, Y, out=Z).inputs[2] is FuseCode.NONE


def test_none_is_left_out_and_shortens_the_list():
    assert names(apply(spec.SOFTMAX, X, beta=1.0, axis=None, out=Y)) == ["input", "beta"]
    assert names(apply(spec.TRANSPOSE, X, None, out=Y)) == ["input", "perm"]


def test_the_form_follows_the_names():
    weights, bias = f32("w", 2, 3, 3, 3), f32("b", 2)
    explicit = apply(spec.CONV_2D, nhwc(IMAGE), weights, bias, **PADS, **STRIDES, out=nhwc(MADE))
    assert names(explicit)[3:] == [*PADS, *STRIDES, "activation"]
    implicit = apply(spec.CONV_2D, nhwc(IMAGE), weights, bias, padding=1, **STRIDES, out=nhwc(MADE))
    assert names(implicit)[3:] == ["padding", *STRIDES, "activation"]
    assert explicit.match(1).level == implicit.match(1).level == 1


def test_a_later_operand_keeps_the_ones_before_it():
    weights, bias = f32("w", 2, 3, 3, 3), f32("b", 2)
    dilated = {"layout": False, "dilation_width": 2, "dilation_height": 2}
    call = apply(
        spec.CONV_2D, nhwc(IMAGE), weights, bias, padding=2, **STRIDES, **dilated, out=nhwc(MADE)
    )
    assert names(call)[-3:] == list(dilated)
    assert call.match(8).level == 3


def test_optional_operands_inside_the_list_stay_as_none():
    gates = [p.name for p in spec.LSTM.input_params[0][1:18]]
    given = {name: X for name in gates if not name.endswith("input_weights")}
    call = apply(
        spec.LSTM,
        X,
        **given,
        output_state_in=X,
        cell_state_in=X,
        activation=4,
        cell_clip=0.0,
        projection_clip=0.0,
        out=[Y] * 4,
    )
    assert len(call.inputs) == 23
    assert call.inputs[1] is None
    assert call.match(1).level == 1


def test_repeated_operands():
    call = apply(spec.CONCATENATION, [X, Y, Z], axis=1, out=f32("o", 1, 12))
    assert names(call) == ["inputs", "inputs", "inputs", "axis"]
    assert call.named() == {"inputs": (X, Y, Z), "axis": 1}
    assert apply(spec.CONCATENATION, X, axis=1, out=Y).inputs == (X, 1)
    assert len(apply(spec.SPLIT, X, axis=1, num_splits=2, out=[Y, Z]).match(3).outputs) == 2


def test_constants_become_values_named_after_their_operand():
    axes = Constant.of(np.array([1, 0], np.int32))
    (_, perm) = apply(spec.TRANSPOSE, X, perm=axes, out=Y).inputs
    assert (perm.name, perm.dtype, perm.shape) == ("constant perm", DType.INT32, (2,))
    assert perm.constant is axes


@pytest.mark.parametrize(
    ("given", "named"),
    [((X,), {}), ((X, Y, 0, 0), {}), ((X, Y), {"stride": 1}), ((X, Y), {"input2": Y}), ((), {})],
)
def test_names_that_no_form_has_are_the_callers_defect(given, named):
    with pytest.raises(SpecError, match="ADD has no signature with"):
        apply(spec.ADD, *given, **named, out=Z)


def test_a_repeated_operand_takes_at_least_one_and_others_just_one():
    with pytest.raises(SpecError, match="CONCATENATION has no signature"):
        apply(spec.CONCATENATION, [], axis=0, out=Z)
    with pytest.raises(SpecError, match="operand input takes one value, not 2"):
        apply(spec.RELU, [X, Y], out=Z)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (f32("x"), OperandCode.TENSOR_FLOAT32),
        (Value("x", DType.FLOAT16, ()), OperandCode.TENSOR_FLOAT16),
        (Value("x", DType.INT64, ()), None),
        (Value("x", DType.UINT8, ()), None),
        (u8("x"), OperandCode.TENSOR_QUANT8_ASYMM),
        (
            Value("x", DType.INT8, (2,), Quantization((0.1,), (3,))),
            OperandCode.TENSOR_QUANT8_ASYMM_SIGNED,
        ),
        (
            Value("x", DType.INT8, (2,), Quantization((0.1, 0.2), (0, 0), axis=0)),
            OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        ),
        (Value("x", DType.INT8, (2,), Quantization((0.1, 0.2), (0, 1), axis=0)), None),
        (Value("x", DType.INT32, (2,), Quantization((0.1,), (0,))), OperandCode.TENSOR_INT32),
    ],
)
def test_tensor_types_of_values(value, code):
    assert operand_code(value) is code


def test_python_numbers_are_scalars():
    assert apply(spec.SOFTMAX, X, beta=1.0, out=Y).match(1).inputs[1].name == "beta"


def test_a_number_of_the_wrong_kind_is_refused():
    with pytest.raises(Reject, match=r"1 is a int, SOFTMAX.beta takes FLOAT32 here"):
        apply(spec.SOFTMAX, X, beta=1, out=Y).match(8)


def test_messages_name_the_value():
    with pytest.raises(Reject) as caught:
        apply(spec.DEPTH_TO_SPACE, f32("x", 1, 1, 1), block_size=2, out=f32("y", 1, 1, 1)).match(8)
    assert caught.value.detail == "x is TENSOR_FLOAT32 of rank 3, DEPTH_TO_SPACE.input takes rank 4"


def test_rank_zero_is_held_as_one_number():
    assert apply(spec.RELU, f32("x"), out=f32("y")).match(1).level == 1


def test_views_are_seen_as_they_lie():
    assert nhwc(IMAGE).shape == (1, 8, 8, 3)
    per_channel = Quantization((0.1,) * 3, (0,) * 3, axis=1)
    weights = Value("w", DType.INT8, (4, 3, 2, 2), per_channel)
    bias = Value("b", DType.INT32, (3,))
    x, y = nhwc(u8("x", 1, 3, 8, 8)), nhwc(u8("y", 1, 3, 8, 8))
    with pytest.raises(Reject, match=r"CONV_2D.filter takes scales along dimension 0, not along"):
        apply(spec.CONV_2D, x, nhwc(weights), bias, padding=1, **STRIDES, out=y).match(8)

    turned = View(weights, (1, 2, 3, 0))
    assert apply(spec.CONV_2D, x, turned, bias, padding=1, **STRIDES, out=y).match(8).level == 3


def test_rules_see_quantization():
    x, y = u8("x", 1, 4, zero_point=3), u8("y", 1, 4, zero_point=3)
    paddings = Constant.of(np.zeros((2, 2), np.int32))
    with pytest.raises(Reject, match="PAD with zero point 3 needs feature level 3"):
        apply(spec.PAD, x, paddings, out=y).match(2)
    with pytest.raises(Reject, match="MUL takes an output scale > ") as caught:
        apply(
            spec.MUL, u8("a", 4, scale=1.0), u8("b", 4, scale=1.0), out=u8("c", 4, scale=1.0)
        ).match(8)
    assert caught.value.reason is Reason.QUANTIZATION


def test_booleans_and_choice_of_scalar_form():
    a, b = f32("a", 2, 3), f32("b", 3, 2)
    assert apply(spec.BATCH_MATMUL, a, b, out=f32("c", 2, 2)).match(6).level == 6
    with pytest.raises(Reject):
        apply(spec.BATCH_MATMUL, a, b, adj_x=0, out=f32("c", 2, 2)).match(8)
    by_scale = apply(spec.RESIZE_BILINEAR, IMAGE, width_scale=2.0, height_scale=2.0, out=MADE)
    assert by_scale.match(8).level == 3
