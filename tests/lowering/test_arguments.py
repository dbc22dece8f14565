"""Types of NNAPI's operands for arguments, and what messages say of them."""

import pytest

from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.lowering.arguments import View, nhwc, operand_code
from ep_nnapi.lowering.call import apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reject
from tests.lowering.values import IMAGE, STRIDES, X, Y, f32, u8


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
