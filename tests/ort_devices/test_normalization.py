"""Softmax of quantized tensors on the devices of ONNX Runtime."""

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.operation import PORTABLE
from tests.ort_devices.expressions import differences, operators
from tests.ort_devices.networks import Network

ZEROS = {Q8: 0, Q8S: -128}


def softmax(
    code: OperandCode, moved: int = 0, beta: float = 1.0, shape: tuple[int, int] = (3, 200)
) -> Model:
    """A softmax along the last axis; `moved` is the distance of the zero point from the least."""
    coded = code in ZEROS
    given = {"scale": 0.05, "zero_point": ZEROS[code] + moved} if coded else {}
    result = {"scale": 1 / 256, "zero_point": ZEROS[code]} if coded else {}
    net = Network()
    x = net.add(Operand(code, shape, **given))
    out = Operand(code, shape, **result)
    return net.model([x], [net.operation(spec.SOFTMAX, [x, net.scalar(beta)], out)])


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("moved", [0, 1, 128, 255])
@pytest.mark.parametrize("code", [Q8, Q8S], ids=str)
def test_a_softmax_of_quantized_numbers_needs_no_zero_point(code, moved, beta):
    model = softmax(code, moved, beta)
    assert operators(model)["DequantizeLinear"] == 0
    assert max(differences(model)) <= 1  # a tie, rounded to even and away from zero


@pytest.mark.parametrize(("shape", "whole"), [((4, 100), 1), ((4, 101), 0)])
@pytest.mark.parametrize("code", [Q8, Q8S], ids=str)
def test_onnx_runtime_has_a_kernel_for_the_whole_of_a_small_softmax(code, shape, whole):
    model = softmax(code, moved=100, shape=shape)
    assert operators(model)["DequantizeLinear"] == whole
    assert max(differences(model)) <= 1


def test_providers_without_kernels_for_groups_dequantize():
    assert operators(softmax(Q8), PORTABLE)["DequantizeLinear"] == 1


def test_a_softmax_of_real_numbers_is_one_node():
    assert operators(softmax(F32)) == {"Softmax": 1}
