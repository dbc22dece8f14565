"""Quantization parameters of sample operands."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.operand import check_type
from ep_nnapi.nnapi.profile.quantization import bias_scale, quantized
from ep_nnapi.nnapi.spec import BY_NAME

TENSORS = [code for code in OperandCode if code.tensor]


@pytest.mark.parametrize("code", TENSORS)
def test_every_tensor_is_legal(code: OperandCode):
    check_type(quantized(BY_NAME["CONV_2D"], "filter", Operand(code, (4, 2, 2, 4))), "filter")


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("LOGISTIC", OperandCode.TENSOR_QUANT8_ASYMM, (1 / 256, 0)),
        ("LOGISTIC", OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (1 / 256, -128)),
        ("TANH", OperandCode.TENSOR_QUANT8_ASYMM, (1 / 128, 128)),
        ("RELU", OperandCode.TENSOR_QUANT8_ASYMM, (0.5, 128)),
        ("RELU", OperandCode.TENSOR_FLOAT32, (0.0, 0)),
    ],
)
def test_outputs(name: str, code: OperandCode, found: tuple[float, int]):
    output = quantized(BY_NAME[name], "output", Operand(code, (2,)))
    assert (output.scale, output.zero_point) == found


def test_scale_of_a_bias():
    spec = BY_NAME["CONV_2D"]
    data, per_channel = (
        quantized(spec, "filter", Operand(code, (4, 2, 2, 4)))
        for code in (
            OperandCode.TENSOR_QUANT8_ASYMM,
            OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL,
        )
    )
    assert bias_scale(data, data) == 0.25
    assert bias_scale(data, per_channel) == 0
