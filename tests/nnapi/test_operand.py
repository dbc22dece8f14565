"""Rules for an operand of a finished model: type, shape, scales, zero point and value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Operand
from ep_nnapi.nnapi.spec import ADD, DEQUANTIZE, FULLY_CONNECTED
from ep_nnapi.nnapi.validate import validate
from tests.nnapi.build import (
    F32,
    I32,
    INT32,
    NONE,
    Q8,
    Q8C,
    Q8S,
    X,
    constant,
    one,
    refuses,
    relu,
    tensor,
)


@pytest.mark.parametrize(
    ("operand", "sentence"),
    [
        (Operand(INT32, (1,)), "operand 0 (INT32) is a scalar with dimensions [1]"),
        (tensor(F32, -1), "operand 0 (TENSOR_FLOAT32 [-1]) has a negative dimension"),
        (
            tensor(F32, 2**15, 2**15),
            "operand 0 (TENSOR_FLOAT32 [32768, 32768]) takes more than 4294967295 bytes",
        ),
        (
            tensor(F32, 2**15, 0, 2**15),
            "operand 0 (TENSOR_FLOAT32 [32768, 0, 32768]) takes more than 4294967295 bytes",
        ),
        (tensor(F32, 2, scale=0.5), "operand 0 (TENSOR_FLOAT32 [2]) has scale 0.5, it takes none"),
        (
            tensor(F32, 2, zero_point=1),
            "operand 0 (TENSOR_FLOAT32 [2]) has zero point 1, it takes 0",
        ),
        (tensor(Q8, 2), "operand 0 (TENSOR_QUANT8_ASYMM [2]) has scale 0, it takes a scale > 0"),
        (
            tensor(Q8, 2, scale=float("nan")),
            "operand 0 (TENSOR_QUANT8_ASYMM [2]) has scale nan, it takes a scale > 0",
        ),
        (
            tensor(Q8, 2, scale=0.5, zero_point=256),
            "operand 0 (TENSOR_QUANT8_ASYMM [2]) has zero point 256, it takes 0 to 255",
        ),
        (
            tensor(Q8S, 2, scale=0.5, zero_point=-129),
            "operand 0 (TENSOR_QUANT8_ASYMM_SIGNED [2]) has zero point -129, it takes -128 to 127",
        ),
        (
            tensor(OperandCode.TENSOR_QUANT16_ASYMM, 2, scale=0.5, zero_point=65536),
            "operand 0 (TENSOR_QUANT16_ASYMM [2]) has zero point 65536, it takes 0 to 65535",
        ),
        (
            tensor(OperandCode.TENSOR_QUANT16_SYMM, 2, scale=0.5, zero_point=1),
            "operand 0 (TENSOR_QUANT16_SYMM [2]) has zero point 1, it takes 0",
        ),
        (
            tensor(OperandCode.TENSOR_QUANT8_SYMM, 2, scale=-1.0),
            "operand 0 (TENSOR_QUANT8_SYMM [2]) has scale -1, it takes a scale > 0",
        ),
        (
            tensor(I32, 2, scale=-1.0),
            "operand 0 (TENSOR_INT32 [2]) has scale -1, it takes a scale >= 0",
        ),
        (
            tensor(F32, 2, channels=ChannelQuantization(0, (1.0, 1.0))),
            "operand 0 (TENSOR_FLOAT32 [2]) takes no scales per channel",
        ),
        (
            Operand(OperandCode.MODEL),
            "operand 0 (MODEL): models, and only models, are values of MODEL operands",
        ),
    ],
)
def test_operand_is_illegal_on_its_own(operand, sentence):
    refuses(relu(operand), sentence)


@pytest.mark.parametrize(
    "operand",
    [
        tensor(F32, 2**15, 2**15 - 1),
        tensor(F32, 0, 0),
        tensor(Q8, 2, scale=1e-30, zero_point=255),
        tensor(Q8S, 2, scale=0.5, zero_point=-128),
        tensor(Q8S, 2, scale=0.5, zero_point=127),
    ],
)
def test_operand_at_the_limits(operand):
    validate(relu(operand), 8)


def test_plain_integers_may_carry_a_scale():
    bias = constant(np.zeros(3, np.int32), scale=0.25)
    x, w = tensor(Q8, 2, 4, scale=0.5), tensor(Q8, 3, 4, scale=0.5)
    validate(one(FULLY_CONNECTED, [x, w, bias, NONE], [tensor(Q8, 2, 3, scale=1.0)]), 1)


@pytest.mark.parametrize(
    ("channels", "sentence"),
    [
        (None, "has no scales per channel"),
        (ChannelQuantization(2, (1.0, 1.0)), "has scales along dimension 2"),
        (ChannelQuantization(-1, (1.0, 1.0)), "has scales along dimension -1"),
        (ChannelQuantization(0, (1.0,)), "has 1 scales for 2 channels"),
        (ChannelQuantization(0, (1.0, 0.0)), "has a scale that is not > 0"),
        (ChannelQuantization(1, ()), "has 0 scales for 0 channels"),
    ],
)
def test_scales_per_channel(channels, sentence):
    x = Operand(Q8C, (2, 0), channels=channels)
    refuses(
        one(DEQUANTIZE, [x], [tensor(F32, 2, 0)]),
        f"operand 0 (TENSOR_QUANT8_SYMM_PER_CHANNEL [2, 0]) {sentence}",
    )


@pytest.mark.parametrize(
    ("operand", "sentence"),
    [
        (replace(X, value=Data.of(np.zeros(5, np.float32))), "takes 24 bytes, its constant has 20"),
        (
            tensor(F32, 2, 0, value=Data.of(np.zeros(0, np.float32))),
            "is a constant of unknown shape",
        ),
        (tensor(F32, value=Data.of(np.zeros(1, np.float32))), "is a constant of unknown shape"),
        (tensor(F32, 2, value=relu()), ": models, and only models, are values of MODEL operands"),
    ],
)
def test_values(operand, sentence):
    model = one(ADD, [X, operand, NONE], [X])
    with pytest.raises(SpecError, match=r"operand 1 \(TENSOR_FLOAT32 ") as caught:
        validate(model, 8)
    assert str(caught.value).endswith(sentence)
