"""Functions of one tensor, and the documented error bounds of composed ones."""

import numpy as np
import pytest
from scipy import special

from ep_nnapi.nnapi.errors import Reason
from tests import oracle
from tests.cases import each
from tests.oracle import FL, f32, matches, node, rejects

EXACT = (0.0, 0.0)
ROUNDED = (1e-6, 1e-6)  # a few float32 operations
# op type -> (range, attributes, (atol, rtol) against float32's exact result)
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
SHAPES = [(3,), (2, 3), (2, 3, 4, 5), (), (2, 1, 2, 3, 2), (1, 2, 1, 2, 1, 2)]
HALVES = 2e-3  # one rounding to float16, relative to max(1, |y|)


def of(op_type, given, **more):
    return oracle.node(op_type, given, **FUNCTIONS[op_type][1], **more)


@each("shape", SHAPES)
@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_matches(op_type, shape):
    (low, high), _, (atol, rtol) = FUNCTIONS[op_type]
    if (op_type, shape) == ("Softsign", ()):
        pytest.skip("the evaluator cannot; compared with the CPU provider below")
    oracle.matches(
        of(op_type, oracle.f32(*shape, low=low, high=high)), oracle.FL[8], atol=atol, rtol=rtol
    )


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_halves_match(op_type):
    (low, high), _, _ = FUNCTIONS[op_type]
    case = of(op_type, oracle.f16(2, 50, low=low, high=high))
    exact = of(op_type, oracle.f32(2, 50, low=low, high=high))
    feeds = {"x0": case.draw()["x0"].astype(np.float32)}
    reference = [r.astype(np.float16) for r in exact.evaluate(feeds)]
    oracle.matches(case, oracle.FL[8], atol=HALVES, rtol=HALVES, reference=reference)


# the lowest level, and the operations there
LOWEST = {
    "Abs": (oracle.FL[1], ["RELU", "MUL", "ADD"]),
    "Neg": (oracle.FL[1], ["MUL"]),
    "Ceil": (oracle.FL[1], ["MUL", "FLOOR", "MUL"]),
    "Sign": (oracle.FL[1], ["MUL", "MUL"]),
    "HardSigmoid": (oracle.FL[1], ["MUL", "ADD", "MUL"]),
    "HardSwish": (oracle.FL[1], ["ADD", "MUL", "MUL"]),
    "LeakyRelu": (oracle.FL[1], ["MUL", "MUL", "MUL", "RELU", "ADD"]),
    "Softsign": (oracle.FL[2], ["RELU", "MUL", "ADD", "ADD", "DIV"]),
    "Elu": (oracle.FL[2], ["MUL", "TANH", "ADD", "MUL", "DIV", "RELU", "ADD"]),
    "Celu": (
        oracle.FL[3],
        ["MINIMUM", "MUL", "MUL", "TANH", "ADD", "MUL", "DIV", "RELU", "ADD", "RELU"],
    ),
}


@pytest.mark.parametrize("op_type", LOWEST)
def test_composed_where_the_level_lacks_the_operation(op_type):
    lowest, operations = LOWEST[op_type]
    (low, high), _, (atol, rtol) = FUNCTIONS[op_type]
    case = of(op_type, oracle.f32(2, 50, low=low, high=high))
    assert oracle.emitted(case, lowest)[: len(operations)] == operations
    oracle.matches(case, lowest, atol=atol, rtol=rtol)


@pytest.mark.parametrize("op_type", ["Relu", "Sigmoid", "Tanh", "Floor", "Erf", "Gelu"])
def test_at_level_1(op_type):
    oracle.accepts(of(op_type, oracle.f32(2, 3)), oracle.FL[1])


@pytest.mark.parametrize(
    "op_type", ["Exp", "Log", "Sqrt", "Sin", "Cos", "Round", "Softplus", "ThresholdedRelu"]
)
def test_levels(op_type):
    case = of(op_type, oracle.f32(2, 3))
    oracle.accepts(case, oracle.FL[3])
    oracle.rejects(case, oracle.FL[2], Reason.LEVEL, "needs feature level 3")


@pytest.mark.parametrize("op_type", ["Abs", "Neg", "Sign", "Relu"])
def test_integers_match(op_type):
    case = oracle.node(op_type, oracle.i32(2, 30))
    oracle.matches(case, oracle.FL[4])
    if op_type != "Abs":
        oracle.accepts(case, oracle.FL[3])
    oracle.rejects(case, oracle.FL[2], Reason.LEVEL, "needs feature level")


def test_other_types_are_refused():
    oracle.rejects(oracle.node("Abs", np.ones(3)), oracle.FL[8], Reason.DTYPE, "DOUBLE")


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_the_absolute_value_of_unsigned_integers_is_refused(dtype):
    """-1 is no number of such a type."""
    refused = f"is {np.dtype(dtype).name.upper()}; Abs is computed in floats"
    oracle.rejects(oracle.node("Abs", np.ones(3, dtype)), oracle.FL[8], Reason.DTYPE, refused)


TIES = [0.5, -0.5, 1.5, 2.5, -1.5, 0.49999997, -0.49999997, 8388609, 1e30, -0.0]


def test_round_ties_match():
    oracle.matches(oracle.node("Round", oracle.f32(len(TIES))), oracle.FL[8], feeds={"x0": TIES})


def test_sign_of_the_least_numbers():
    numbers = np.array([1e-45, -1e-45, 1.2e-38, -3e38, 0, np.inf, -np.inf], np.float32)
    oracle.matches(oracle.node("Sign", oracle.f32(7)), oracle.FL[1], feeds={"x0": numbers})
    halves = np.array([6e-8, -6e-8, 0, 65504, -np.inf], np.float16)
    oracle.matches(oracle.node("Sign", oracle.f16(5)), oracle.FL[3], feeds={"x0": halves})


def test_sign_of_wide_integers_is_refused():
    oracle.rejects(oracle.node("Sign", oracle.i64(4)), oracle.FL[8], Reason.DTYPE, "x0 is INT64")


SPECIAL = np.array([1, np.nan, np.inf, -np.inf, 0], np.float32)


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("negative", [0, 1])
def test_is_inf_matches(positive, negative):
    case = oracle.node("IsInf", oracle.f32(5), detect_positive=positive, detect_negative=negative)
    oracle.matches(case, oracle.FL[8], feeds={"x0": SPECIAL})


def test_is_nan_matches():
    oracle.matches(oracle.node("IsNaN", oracle.f32(5)), oracle.FL[3], feeds={"x0": SPECIAL})
    oracle.rejects(oracle.node("IsNaN", oracle.f32(5)), oracle.FL[2], Reason.LEVEL, "NOT_EQUAL")


def test_shrink_with_a_negative_limit_is_refused():
    oracle.rejects(
        oracle.node("Shrink", oracle.f32(3), lambd=-1.0),
        oracle.FL[8],
        Reason.ATTRIBUTE,
        "lambd is -1",
    )


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
    matches(case, FL[8], atol=atol, rtol=rtol + 6e-8, reference=reference, feeds={"x0": numbers})


@pytest.mark.parametrize("op_type", ["Sinh", "Asinh", "Atanh", "Atan", "Asin", "Erf", "Gelu"])
def test_small_numbers_keep_their_relative_precision(op_type):
    """Numbers with a normal square: the results are about as small, and none is lost."""
    function = DENSE[op_type][0]
    sizes = np.geomspace(1e-19, 0.5, 20_001)
    numbers = np.concatenate([-sizes, sizes]).astype(np.float32)
    reference = [function(numbers.astype(np.float64)).astype(np.float32)]
    case = node(op_type, f32(len(numbers)))
    matches(case, FL[8], rtol=1e-6, reference=reference, feeds={"x0": numbers})  # Gelu: 8e-7


def test_small_numbers_of_elu_below_its_level():
    numbers = -np.geomspace(1e-30, 20, 20_001, dtype=np.float32)
    reference = [(0.7 * np.expm1(numbers.astype(np.float64))).astype(np.float32)]
    case = node("Elu", f32(len(numbers)), alpha=0.7)
    matches(case, FL[2], rtol=6e-7, reference=reference, feeds={"x0": numbers})
    rejects(case, FL[1], Reason.LEVEL, "DIV needs feature level 2")


def test_extremes_of_inverse_functions():
    numbers = np.array([0, 1e-30, 1e18, -1e30, 3e38, np.inf, -np.inf], np.float32)
    matches(node("Atan", f32(7)), FL[8], rtol=3e-7, feeds={"x0": numbers})
    matches(node("Asinh", f32(7)), FL[8], rtol=3e-7, feeds={"x0": numbers})
