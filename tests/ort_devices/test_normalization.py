"""Softmax of quantized tensors on the devices of ONNX Runtime."""

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F32, Q8, Q8S
from ep_nnapi.ort_devices.operation import PORTABLE
from tests.nnapi.build import one
from tests.ort_devices.expressions import differences, operators

ZEROS = {F32: 0, Q8: 0, Q8S: -128}


def softmax(
    code: OperandCode, moved: int = 0, beta: float = 1.0, shape: tuple[int, int] = (3, 200)
) -> Model:
    """A softmax along the last axis; `moved` is the distance of the zero point from the least."""
    given, result = (0.05, ZEROS[code] + moved), (1 / 256, ZEROS[code])
    x, out = (Operand(code, shape, *((0.0, 0) if code is F32 else q)) for q in (given, result))
    return one(spec.SOFTMAX, [x, beta], [out])


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
