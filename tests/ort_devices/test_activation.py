"""Activations with a slope on the devices of ONNX Runtime."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from tests.nnapi.build import one
from tests.ort_devices.expressions import differences, operators
from tests.ort_devices.networks import quantization


def prelu(code: OperandCode, slopes: np.ndarray, *, constant: bool = True) -> Model:
    """PRELU of [2, 3, 4], with stored slopes."""
    scale, zero = quantization(code)
    data = Data.of(slopes.astype(code.numpy)) if constant else None
    x = Operand(code, (2, 3, 4), scale, zero)
    out = replace(x, dimensions=np.broadcast_shapes((2, 3, 4), slopes.shape))
    return one(spec.PRELU, [x, Operand(code, slopes.shape, scale / 5, zero, value=data)], [out])


@pytest.mark.parametrize("slope", [0.25, -0.5, 0.0, 1.5])
@pytest.mark.parametrize("shape", [(1,), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("code", [F32, F16, Q8, Q8S], ids=str)
def test_one_slope_makes_it_a_leaky_relu(code, shape, slope):
    scale, zero = quantization(code)
    stored = round(slope / 0.01 + zero) if scale else slope
    model = prelu(code, np.full(shape, np.clip(stored, -128, 255 if code is not Q8S else 127)))
    found = operators(model)
    assert (found["LeakyRelu"], found["PRelu"]) == (1, 0)
    assert max(differences(model)) <= (1 if scale else 2e-3 if code is F16 else 1e-6)


@pytest.mark.parametrize(
    ("slopes", "constant"),
    [(np.full(4, 0.25), True), (np.full((1, 1, 1, 1), 0.25), True), (np.full(1, 0.25), False)],
    ids=["several slopes", "a rank more", "an input"],
)
def test_other_slopes_are_multiplied_by(slopes, constant):
    model = prelu(F32, slopes, constant=constant)
    found = operators(model)
    assert (found["LeakyRelu"], found["PRelu"]) == (0, 1)
    assert max(differences(model)) <= 1e-6
