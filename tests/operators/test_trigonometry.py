"""Trigonometric and other composed functions: the documented error bounds hold."""

import numpy as np
import pytest
from scipy import special

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import FL1, FL2, FL8, f32, matches, node, rejects

# op type -> (the function in float64, range, atol, rtol against float32's exact result)
DENSE = {
    "Erf": (special.erf, (-12, 12), 2e-7, 0),
    "Cos": (np.cos, (-500, 500), 3e-7, 0),
    "Atan": (np.arctan, (-40, 40), 4e-7, 0),
    "Asin": (np.arcsin, (-1, 1), 4e-7, 0),
    "Acos": (np.arccos, (-1, 1), 6e-7, 0),
    "Sinh": (np.sinh, (-89, 89), 0, 7e-7),
    "Cosh": (np.cosh, (-89, 89), 0, 4e-7),
    "Asinh": (np.arcsinh, (-40, 40), 0, 8e-7),
    "Acosh": (np.arccosh, (1, 40), 2e-7, 2e-7),
    "Atanh": (np.arctanh, (-0.999, 0.999), 0, 6e-7),
    "Softplus": (lambda x: np.logaddexp(0, x), (-87, 100), 0, 5e-7),
    "Mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), (-80, 100), 0, 6e-7),
    "Gelu": (lambda x: x * special.ndtr(x), (-4, 4), 4e-7, 0),
}


@pytest.mark.parametrize("op_type", DENSE)
def test_bounds_of_composed_functions(op_type):
    function, (low, high), atol, rtol = DENSE[op_type]
    numbers = np.linspace(low, high, 200_001, dtype=np.float32)
    reference = [function(numbers.astype(np.float64)).astype(np.float32)]
    case = node(op_type, f32(len(numbers)))
    matches(case, FL8, atol=atol, rtol=rtol + 6e-8, reference=reference, feeds={"x0": numbers})


@pytest.mark.parametrize("op_type", ["Sinh", "Asinh", "Atanh", "Atan", "Asin", "Erf", "Gelu"])
def test_small_numbers_keep_their_relative_precision(op_type):
    """Numbers with a normal square: the results are about as small, and none is lost."""
    function = DENSE[op_type][0]
    sizes = np.geomspace(1e-19, 0.5, 20_001)
    numbers = np.concatenate([-sizes, sizes]).astype(np.float32)
    reference = [function(numbers.astype(np.float64)).astype(np.float32)]
    case = node(op_type, f32(len(numbers)))
    matches(case, FL8, rtol=1e-6, reference=reference, feeds={"x0": numbers})  # Gelu: 8e-7


def test_small_numbers_of_elu_below_its_level():
    numbers = -np.geomspace(1e-30, 20, 20_001, dtype=np.float32)
    reference = [(0.7 * np.expm1(numbers.astype(np.float64))).astype(np.float32)]
    case = node("Elu", f32(len(numbers)), alpha=0.7)
    matches(case, FL2, rtol=6e-7, reference=reference, feeds={"x0": numbers})
    rejects(case, FL1, Reason.LEVEL, "DIV needs feature level 2")


def test_extremes_of_inverse_functions():
    numbers = np.array([0, 1e-30, 1e18, -1e30, 3e38, np.inf, -np.inf], np.float32)
    matches(node("Atan", f32(7)), FL8, rtol=3e-7, feeds={"x0": numbers})
    matches(node("Asinh", f32(7)), FL8, rtol=3e-7, feeds={"x0": numbers})
