"""Trigonometric and other composed functions: the documented error bounds hold."""

import numpy as np
import pytest
from scipy import special

from tests.oracle import (
    FL8,
    f32,
    matches,
    node,
)

EXACT = (0.0, 0.0)
ROUNDED = (1e-6, 1e-6)  # a few float32 operations
FUNCTIONS = {
    "Abs": ((-9, 9), {}, EXACT),
    "Neg": ((-9, 9), {}, EXACT),
    "Floor": ((-9, 9), {}, EXACT),
    "Ceil": ((-9, 9), {}, EXACT),
    "Round": ((-9, 9), {}, EXACT),
    "Sign": ((-9, 9), {}, EXACT),
    "Exp": ((-9, 9), {}, ROUNDED),
    "Log": ((0.01, 9), {}, ROUNDED),
    "Sqrt": ((0, 9), {}, ROUNDED),
    "Reciprocal": ((0.1, 9), {}, ROUNDED),
    "Sin": ((-99, 99), {}, ROUNDED),
    "Cos": ((-99, 99), {}, ROUNDED),
    "Erf": ((-6, 6), {}, ROUNDED),
    "Sinh": ((-9, 9), {}, ROUNDED),
    "Cosh": ((-9, 9), {}, ROUNDED),
    "Atan": ((-99, 99), {}, ROUNDED),
    "Asin": ((-1, 1), {}, ROUNDED),
    "Acos": ((-1, 1), {}, ROUNDED),
    "Asinh": ((-99, 99), {}, ROUNDED),
    "Acosh": ((1, 99), {}, ROUNDED),
    "Atanh": ((-0.99, 0.99), {}, ROUNDED),
    "Relu": ((-2, 2), {}, EXACT),
    "Sigmoid": ((-9, 9), {}, ROUNDED),
    "Tanh": ((-9, 9), {}, ROUNDED),
    "HardSigmoid": ((-9, 9), {"alpha": 0.3, "beta": 0.4}, ROUNDED),
    "HardSwish": ((-9, 9), {}, ROUNDED),
    "Elu": ((-9, 9), {"alpha": 0.7}, ROUNDED),
    "LeakyRelu": ((-9, 9), {"alpha": 0.3}, EXACT),
    "Selu": ((-9, 9), {}, ROUNDED),
    "Celu": ((-9, 9), {"alpha": 0.7}, ROUNDED),
    "ThresholdedRelu": ((-9, 9), {"alpha": 0.7}, EXACT),
    "Shrink": ((-2, 2), {"bias": 0.3, "lambd": 0.7}, EXACT),
    "Softplus": ((-30, 30), {}, ROUNDED),
    "Softsign": ((-9, 9), {}, ROUNDED),
    "Mish": ((-30, 30), {}, ROUNDED),
    "Gelu": ((-9, 9), {}, ROUNDED),
}


def of(op_type, given, **more):
    return node(op_type, given, **FUNCTIONS[op_type][1], **more)


DENSE = {
    "Erf": (special.erf, (-12, 12), 2e-7, 0),
    "Cos": (np.cos, (-500, 500), 3e-7, 0),
    "Atan": (np.arctan, (-40, 40), 4e-7, 0),
    "Asin": (np.arcsin, (-1, 1), 4e-7, 0),
    "Acos": (np.arccos, (-1, 1), 6e-7, 0),
    "Sinh": (np.sinh, (-89, 89), 6e-7, 4e-7),
    "Cosh": (np.cosh, (-89, 89), 0, 4e-7),
    "Asinh": (np.arcsinh, (-40, 40), 2e-7, 2e-7),
    "Acosh": (np.arccosh, (1, 40), 2e-7, 2e-7),
    "Atanh": (np.arctanh, (-0.999, 0.999), 2e-7, 2e-7),
    "Softplus": (lambda x: np.logaddexp(0, x), (-100, 100), 1.2e-7, 1.2e-7),
    "Mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), (-80, 100), 0, 6e-7),
    "Gelu": (lambda x: x * special.ndtr(x), (-4, 4), 4e-7, 0),
}


@pytest.mark.parametrize("op_type", DENSE)
def test_bounds_of_composed_functions(op_type):
    function, (low, high), atol, rtol = DENSE[op_type]
    numbers = np.linspace(low, high, 200_001, dtype=np.float32)
    reference = [function(numbers.astype(np.float64)).astype(np.float32)]
    case = of(op_type, f32(len(numbers)))
    matches(case, FL8, atol=atol, rtol=rtol + 6e-8, reference=reference, feeds={"x0": numbers})


def test_extremes_of_inverse_functions():
    numbers = np.array([0, 1e-30, 1e18, -1e30, 3e38, np.inf, -np.inf], np.float32)
    matches(node("Atan", f32(7)), FL8, rtol=3e-7, feeds={"x0": numbers})
    matches(node("Asinh", f32(5)), FL8, rtol=3e-7, feeds={"x0": numbers[:5]}, atol=1e-7)
