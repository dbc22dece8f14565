"""Activations with a slope on the devices of ONNX Runtime."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8S
from tests.ort_devices.expressions import differences, operators
from tests.ort_devices.networks import Network

ZEROS = {Q8: 128, Q8S: 0}


def prelu(code: OperandCode, slopes: np.ndarray, *, constant: bool = True) -> Model:
    """PRELU of [2, 3, 4], with stored slopes."""
    net = Network()
    given = {"scale": 0.05, "zero_point": ZEROS[code]} if code in ZEROS else {}
    of_slopes = {**given, "scale": 0.01} if given else {}
    x = net.add(Operand(code, (2, 3, 4), **given))
    if constant:
        alpha = net.tensor(slopes, code, **of_slopes)
    else:
        alpha = net.add(Operand(code, slopes.shape, **of_slopes))
    shape = np.broadcast_shapes((2, 3, 4), slopes.shape)
    y = net.operation(spec.PRELU, [x, alpha], Operand(code, shape, **given))
    return net.model([x] if constant else [x, alpha], [y])


@pytest.mark.parametrize("slope", [0.25, -0.5, 0.0, 1.5])
@pytest.mark.parametrize("shape", [(1,), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("code", [F32, F16, Q8, Q8S], ids=str)
def test_one_slope_makes_it_a_leaky_relu(code, shape, slope):
    stored = slope if code in (F32, F16) else round(slope / 0.01 + ZEROS[code])
    model = prelu(code, np.full(shape, np.clip(stored, -128, 255 if code is not Q8S else 127)))
    found = operators(model)
    assert (found["LeakyRelu"], found["PRelu"]) == (1, 0)
    assert max(differences(model)) <= (1 if code in ZEROS else 2e-3 if code is F16 else 1e-6)


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
