"""Models of this package keep the rules of Android's kernels; each rule is noticed if broken.

Those of `spec.py`, to which lowerings keep, and those that tests inspect models by, agree.
"""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reject
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.profile.record import RecordingRuntime
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.nnapi.spec import F32, Q8S
from ep_nnapi.provider import devices
from models import zoo
from tests.nnapi.kernel_rules import violations
from tests.nnapi.profile.make import I32, Q8, model, tensor


def q8(*dims: int, scale: float = 0.5, zero: int = 0, code: OperandCode = Q8) -> Operand:
    return replace(tensor(*dims, code=code, zero=zero), scale=scale)


def dense(bias_scale: float) -> Model:
    """FULLY_CONNECTED with input scale 0.1 and weights scale 0.2."""
    weights = replace(tensor(3, 4, code=Q8, value=1), scale=0.2)
    bias = replace(tensor(3, code=I32, value=1), scale=bias_scale)
    return model("FULLY_CONNECTED", [q8(1, 4, scale=0.1), weights, bias, 0], q8(1, 3))


def added(output_scale: float) -> Model:
    image = q8(1, 4, scale=2.0)
    return model("ADD", [image, image, 0], q8(1, 4, scale=output_scale))


def summed(activation: int) -> Model:
    given = tensor(1, 4, code=I32)
    return model("ADD", [given, given, activation], given)


def softmax(beta: float) -> Model:
    return model("SOFTMAX", [tensor(1, 4), beta], tensor(1, 4))


def pooled(zero: int) -> Model:
    window = (2, 1, 1, 2, 2, 0)
    return model("MAX_POOL_2D", [q8(1, 4, 4, 1), *window], q8(1, 3, 3, 1, zero=zero))


def logistic(scale: float, zero: int = 0, code: OperandCode = Q8) -> Model:
    return model("LOGISTIC", [q8(1, 4, code=code)], q8(1, 4, scale=scale, zero=zero, code=code))


def tanh(scale: float) -> Model:
    return model("TANH", [q8(1, 4, scale=scale)], q8(1, 4, scale=1 / 128, zero=128))


def divided(code: OperandCode) -> Model:
    image = q8(1, 4, code=code) if code.quantized else tensor(1, 4, code=code)
    return model("DIV", [image, image, 0], image)


def depthwise(size: int, channels: int, code: OperandCode = Q8, stride: int = 2) -> Model:
    """A depthwise convolution of 3 x 3 with a padding of 1."""
    floats = code is OperandCode.TENSOR_FLOAT32
    taps = tensor(1, 3, 3, channels, code=code, value=1)
    bias = tensor(channels, code=code if floats else I32, value=1)
    bias = bias if floats else replace(bias, scale=0.25)
    given = (1, 1, 1, 1, stride, stride, 1, 0)
    after = (size - 1) // stride + 1
    result = replace(tensor(1, after, after, channels, code=code), scale=0.0 if floats else 4.0)
    return model(
        "DEPTHWISE_CONV_2D",
        [tensor(1, size, size, channels, code=code), taps, bias, *given],
        result,
    )


KEPT = [
    divided(OperandCode.TENSOR_FLOAT32),
    dense(float(np.float32(0.1) * np.float32(0.2))),
    added(2**-17),
    summed(0),
    softmax(1.0),
    pooled(0),
    logistic(1 / 256),
    logistic(1 / 256, -128, Q8S),
    tanh(2**-26),
]
BROKEN = {
    "DIV: Android has no kernel of TENSOR_QUANT8_ASYMM_SIGNED": divided(Q8S),
    "FULLY_CONNECTED: the bias scale is 0.0201": dense(0.0201),
    "ADD: the output scale is too small": added(2**-18),
    "ADD: integers take no fused activation": summed(1),
    "SOFTMAX: beta is not positive": softmax(0.0),
    "MAX_POOL_2D: the output's quantization is not that of the input": pooled(1),
    "LOGISTIC: the output's quantization is not 0.00390625 from 0": logistic(1 / 128),
    "LOGISTIC: the output's quantization is not 0.00390625 from -128": logistic(1 / 256, 0, Q8S),
    "TANH: the input scale is too small": tanh(2**-27),
}


@pytest.mark.parametrize("given", KEPT, ids=lambda m: m.operations[0].spec.name)
def test_a_rule_that_is_kept_at_the_limit(given: Model):
    assert violations(given) == []


@pytest.mark.parametrize(("message", "given"), BROKEN.items(), ids=BROKEN)
def test_a_rule_that_is_broken_just_past_it(message: str, given: Model):
    (found,) = violations(given)
    assert found.startswith(message)


def refused(given: Model, level: int = 8) -> str:
    """The reason for which lowerings do not emit the operation; "" for none."""
    operation, match = given.operations[0], given.match(0, 8)
    operands = [given.operands[i] for i in (*operation.inputs, *operation.outputs)]
    try:
        operation.spec.require_kernel(match, operands, level)
    except Reject as reject:
        return reject.detail
    return ""


@pytest.mark.parametrize("given", KEPT, ids=lambda m: m.operations[0].spec.name)
def test_lowerings_take_what_has_a_kernel(given: Model):
    assert refused(given) == ""


@pytest.mark.parametrize("message", ["DIV", "ADD: the output", "TANH"])
def test_lowerings_refuse_what_has_none(message: str):
    given = next(given for found, given in BROKEN.items() if found.startswith(message))
    assert "no kernel for" in refused(given)


@pytest.mark.parametrize(
    ("level", "code", "most"),
    [
        *((1, F32, 1024), (2, F32, 2048), (3, F32, 4832)),
        *((1, Q8, 1024), (2, Q8, 2048), (3, Q8, 2048)),
    ],
)
def test_depthwise_channels_that_a_level_finishes(level: int, code: OperandCode, most: int):
    assert refused(depthwise(4, most, code), level) == ""
    assert f"of {most + 1} channels" in refused(depthwise(4, most + 1, code), level)
    assert refused(depthwise(4, 10_000, code), 4) == refused(depthwise(4, 10_000, Q8S), 4) == ""


def rows_of(*shape: int, depth: int = 4, code: OperandCode = F32) -> Model:
    """FULLY_CONNECTED of three units on an input of this shape."""
    weights, bias = tensor(3, depth, code=code, value=1), tensor(3, code=code, value=1)
    return model("FULLY_CONNECTED", [tensor(*shape, code=code), weights, bias, 0], tensor(3, 3))


def test_rows_as_many_as_their_floats():
    for kept in (rows_of(3, 4), rows_of(5, 4), rows_of(1, 4), rows_of(1, 1, depth=1)):
        assert refused(kept, 1) == ""
    for square in (rows_of(4, 4), rows_of(2, 2, 4), rows_of(1, 2, 2, 4)):
        assert "of 4 rows of as many floats, which earlier kernels" in refused(square, 1)
        assert refused(square, 2) == ""


def test_8_bit_means():
    for code, level in ((F32, 2), (Q8, 3)):
        given = tensor(1, 4, code=code), tensor(1, code=I32, value=1), 1
        mean = model("MEAN", [*given], tensor(1, 1, code=code))
        assert refused(mean, level) == ""
    assert "of 8-bit numbers, which earlier kernels" in refused(mean, 2)


def padded(rank: int, code: OperandCode) -> Model:
    table = tensor(rank, 2, code=I32, value=1)
    return model("PAD", [tensor(*[2] * rank, code=code), table], tensor(*[4] * rank, code=code))


@pytest.mark.parametrize("code", [F32, Q8])
def test_ranks_that_are_padded(code: OperandCode):
    assert refused(padded(4, code), 2) == refused(padded(3, code), 3) == ""
    for rank in (1, 2, 3):
        assert f"of rank {rank}, which earlier kernels" in refused(padded(rank, code), 2)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_8_bit_depthwise_of_2_by_2(level: int):
    for kept in (depthwise(2, 15), depthwise(3, 16), depthwise(2, 16, stride=1)):
        assert refused(kept, level) == ""
    assert refused(depthwise(2, 16, F32), level) == refused(depthwise(2, 16), 4) == ""
    assert "write past the output" in refused(depthwise(2, 16), level)


class Inspecting(RecordingRuntime):
    """The host runtime; it inspects every model that it is asked about."""

    def __init__(self) -> None:
        super().__init__(HostRuntime([ReferenceDevice()]))
        self.found: list[str] = []

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        self.found += violations(model)
        return super().supported(model, device)


def broken_by(content: onnx.ModelProto) -> tuple[list[str], int]:
    """The violations of a network's NNAPI models, and the number of operations inspected."""
    runtime = Inspecting()
    with patch.dict(devices.RUNTIMES, {"host": lambda: runtime}):
        assert ep_nnapi.check(content.SerializeToString()).taken
    return runtime.found, len(runtime.exact)


@pytest.mark.parametrize("name", ["kws_dscnn", "mlp"])
def test_networks_keep_the_rules(name: str):
    assert broken_by(zoo.MODELS[name]())[0] == []


@pytest.mark.parametrize("scheme", ["u8u8", "u8s8", "s8s8"])
@pytest.mark.parametrize(
    "name", ["kws_dscnn", pytest.param("mobilenet_v3_large", marks=pytest.mark.long)]
)
def test_quantized_networks_keep_the_rules(name: str, scheme: str):
    pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    found, inspected = broken_by(zoo.quantized(name, scheme))
    assert found == []
    assert inspected > 10
