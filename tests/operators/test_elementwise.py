"""Arithmetic, comparisons and logic of every shape, and choices between tensors."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.node import MAX_FILL_CONSTANT
from tests import oracle
from tests.cases import each
from tests.oracle import FL, accepts, emitted, f16, f32, i32, matches, node, on_cpu, rejects

ROUNDING = 1e-6  # a few float32 operations on numbers below 10
HALVES = 4e-3  # one rounding to float16 of a number below 4

SHAPES = {
    "equal": [(2, 3, 4), (2, 3, 4)],
    "scalar": [(2, 3, 4), ()],
    "scalars": [(), ()],
    "row": [(2, 3, 4), (4,)],
    "column": [(2, 3, 4, 5), (3, 1, 1)],
    "both": [(1, 3, 1), (2, 1, 4)],
    "rank 5, equal": [(2, 3, 1, 2, 2), (2, 3, 1, 2, 2)],
    "rank 5, channels": [(2, 3, 4, 2, 2), (3, 1, 1, 1)],
    "rank 5, alternating": [(2, 3, 2, 3, 2), (1, 3, 1, 3, 1)],
    "rank 6, wide both": [(2, 1, 2, 1, 2, 3), (1, 3, 1, 3, 1, 1)],
}


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Max", "Min", "Sum"])
@each("shapes", SHAPES.values())
def test_matches_broadcast(op_type, shapes):
    matches(node(op_type, *(f32(*s) for s in shapes)), FL[8])


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_div_matches(shapes):
    a, b = shapes
    matches(node("Div", f32(*a), f32(*b, low=1)), FL[8], rtol=ROUNDING)


@pytest.mark.parametrize("op_type", ["Add", "Mul", "Sub", "Max"])
def test_constant_operands_and_halves(op_type):
    constant = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    matches(node(op_type, f32(2, 3, 4), constant), FL[8])
    matches(node(op_type, constant, f32(2, 1, 4)), FL[8])
    matches(node(op_type, f16(2, 3, 4), f16(4)), FL[8], atol=HALVES)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Max", "Min"])
def test_integers_match(op_type):
    matches(node(op_type, i32(2, 3), i32(3)), FL[8])


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
def test_any_number_of_tensors_matches(op_type, count):
    shapes = [(2, 1, 3), (4, 1), (3,), (), (2, 4, 3)][:count]
    case = node(op_type, *(f32(*s) for s in shapes))
    matches(case, FL[8], atol=ROUNDING, oracle=on_cpu)  # the evaluator's Mean does not broadcast


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
def test_tensors_of_one_shape_before_opset_8(op_type):
    case = node(op_type, *[f32(2, 3)] * 3, opset=7)
    matches(case, FL[8], atol=ROUNDING, oracle=on_cpu)


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
def test_the_versions_before_opset_6_are_refused(op_type):
    """They have the attribute consumed_inputs, and ONNX Runtime runs opset 7 at the oldest."""
    rejects(node(op_type, f32(2, 3), opset=5), FL[8], Reason.OPSET, f"older than {op_type}-6")


def test_add_and_mul_at_level_1():
    accepts(node("Add", f32(2, 3), f32(3)), FL[1])
    accepts(node("Mul", f32(2, 3), f32(3)), FL[1])


@pytest.mark.parametrize(
    ("op_type", "given", "low", "high"),
    [
        ("Div", f32(2, 3), FL[1], FL[2]),
        ("Max", f32(2, 3), FL[2], FL[3]),
        ("Min", f32(2, 3), FL[2], FL[3]),
        ("Add", f16(2, 3), FL[2], FL[3]),
        ("Add", i32(2, 3), FL[3], FL[4]),
    ],
)
def test_levels(op_type, given, low, high):
    case = node(op_type, given, given)
    accepts(case, high)
    rejects(case, low, Reason.LEVEL, "needs feature level")


def test_sub_and_div_by_a_constant_at_level_1():
    constant = np.array([0.3, -1.7, 3], np.float32)
    assert emitted(node("Sub", f32(2, 3), f32(3)), FL[1]) == ["MUL", "ADD"]
    for given in ((f32(2, 3), f32(3)), (f32(2, 3), constant), (constant, f32(2, 3))):
        matches(node("Sub", *given), FL[1])
    assert emitted(node("Div", f32(2, 3), constant), FL[1]) == ["MUL"]
    matches(node("Div", f32(2, 3), constant), FL[1], rtol=ROUNDING)


def test_types_beyond_nnapi_are_refused():
    double = np.ones(3, np.float64)
    rejects(node("Add", double, double), FL[8], Reason.DTYPE, "DOUBLE")


@pytest.mark.parametrize("shapes", [[(40,), (40,)], [(40,), (1,)], [(2, 20), (20,)]])
def test_integer_division_cuts_the_fraction_off(shapes):
    a, b = shapes
    dividend = node("Div", i32(*a, low=-40, high=40), i32(*b, low=1, high=7))
    matches(dividend, FL[8])
    divisor = np.array([-3, 7, -1, 5] * 10, np.int32)[: b[-1]]
    matches(node("Div", i32(*a, low=-40, high=40), divisor), FL[8])


def test_least_integer_is_divided():
    least = np.array([-(2**31)] * 3, np.int32)
    case = node("Div", i32(3, low=2, high=9), np.array([1, 2, -3], np.int32))
    matches(case, FL[8])
    reference = [np.array([-(2**31), -(2**30), 715827882], np.int32)]
    matches(node("Div", least, i32(3)), FL[8], feeds={"x1": [1, 2, -3]}, reference=reference)


@pytest.mark.parametrize("shapes", [[(30,), (30,)], [(3, 10), (1,)]])
def test_mod_has_the_divisors_sign(shapes):
    a, b = shapes
    divisor = np.array([-3, 7, -1, 5, 4] * 6, np.int32)[: b[-1]]
    matches(node("Mod", i32(*a, low=-40, high=40), divisor), FL[8])


def test_mod_of_floats_is_refused():
    rejects(node("Mod", f32(3), f32(3), fmod=1), FL[8], Reason.ATTRIBUTE, "fmod is 1")


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1, 1.7])
def test_pow_by_a_constant_matches(exponent):
    case = node("Pow", f32(2, 3, low=0.1), np.array(exponent, np.float32))
    matches(case, FL[8], rtol=2e-6)  # exp(e log b) in float32


def test_pow_matches():
    matches(node("Pow", f32(2, 3, low=0.1), f32(3)), FL[8], rtol=2e-6)
    matches(node("Pow", f32(2, 3), np.array(2, np.int64)), FL[8], rtol=2e-6)
    matches(node("Pow", f32(2, 3), np.array([2, 3, 4], np.int64)), FL[8], rtol=2e-6)
    matches(node("Pow", f32(2, 1, 2, 1, 2, low=0.1), f32(2, 1, 2)), FL[8], rtol=2e-6)


def test_pow_by_two_is_a_product_at_level_1():
    assert emitted(node("Pow", f32(2, 3), np.array(2, np.float32)), FL[1]) == ["MUL"]
    accepts(node("Pow", f32(2, 3), f32(2, 3)), FL[3])
    rejects(node("Pow", f32(2, 3), f32(2, 3)), FL[2], Reason.LEVEL, "POW")


def test_pow_by_an_exponent_beyond_float_is_refused():
    odd = np.array([2**24 + 1, 3, 4], np.int64)
    rejects(node("Pow", f32(2, 3), odd), FL[8], Reason.CONSTANT, "FLOAT does not hold")


PAIRS_OF_SHAPES = {
    "equal": [(2, 3), (2, 3)],
    "scalar": [(2, 3), ()],
    "both": [(2, 1, 3), (4, 1)],
    "rank 5": [(2, 3, 1, 2, 2), (3, 1, 1, 1)],
    "rank 6": [(2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 2)],
}
ORDER = ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"]


@each("shapes", PAIRS_OF_SHAPES.values())
@pytest.mark.parametrize("given", [oracle.f32, oracle.f16, oracle.i32])
@pytest.mark.parametrize("op_type", ORDER)
def test_comparisons_match(op_type, given, shapes):
    oracle.matches(oracle.node(op_type, *(given(*s, low=-1, high=1) for s in shapes)), oracle.FL[8])


@pytest.mark.parametrize("shapes", PAIRS_OF_SHAPES.values(), ids=PAIRS_OF_SHAPES)
@pytest.mark.parametrize("op_type", ["And", "Or", "Xor", "Equal"])
def test_logic_matches(op_type, shapes):
    oracle.matches(oracle.node(op_type, *(oracle.boolean(*s) for s in shapes)), oracle.FL[8])


@pytest.mark.parametrize("shape", [(2, 3), (), (2, 1, 2, 3, 2)])
def test_not_matches(shape):
    oracle.matches(oracle.node("Not", oracle.boolean(*shape)), oracle.FL[3])


@pytest.mark.parametrize("op_type", ORDER)
def test_comparison_levels(op_type):
    case = oracle.node(op_type, oracle.f32(2), oracle.f32(2))
    oracle.accepts(case, oracle.FL[3])
    oracle.rejects(case, oracle.FL[2], Reason.LEVEL, "needs feature level 3")
    oracle.rejects(
        oracle.node(op_type, oracle.i64(2), oracle.i64(2)), oracle.FL[8], Reason.DTYPE, "INT64"
    )


WHERES = {
    "equal": [(2, 3)] * 3,
    "scalars": [(2, 3), (), ()],
    "rows": [(2, 1), (3,), (1, 3)],
    "mask": [(1, 1, 4, 4), (2, 3, 4, 4), (1,)],
    "scalar mask": [(), (2, 3), (3,)],
    "rank 5": [(2, 1, 3, 1, 2), (1, 2, 1, 2, 1), (2,)],
}


@pytest.mark.parametrize("given", [oracle.f32, oracle.f16, oracle.i32, oracle.boolean])
@pytest.mark.parametrize("shapes", WHERES.values(), ids=WHERES)
def test_where_matches(shapes, given):
    condition, a, b = shapes
    oracle.matches(
        oracle.node("Where", oracle.boolean(*condition), given(*a), given(*b)), oracle.FL[8]
    )


@pytest.mark.parametrize(
    ("dtype", "number", "size", "target", "expected"),
    [
        (np.float32, -1e4, MAX_FILL_CONSTANT, oracle.FL[8], ["SELECT"]),
        (np.float32, -1e4, MAX_FILL_CONSTANT + 1, oracle.FL[8], ["FILL", "SELECT"]),
        (np.float32, -np.inf, MAX_FILL_CONSTANT, oracle.FL[8], ["SELECT"]),
        (np.float32, -np.inf, MAX_FILL_CONSTANT + 1, oracle.FL[8], ["FILL", "SELECT"]),
        (np.float16, 2.5, MAX_FILL_CONSTANT + 1, oracle.FL[8], ["FILL", "SELECT"]),
        (np.int32, 7, MAX_FILL_CONSTANT + 1, oracle.FL[8], ["FILL", "SELECT"]),
        (np.float32, -1e4, MAX_FILL_CONSTANT + 1, oracle.FL[3], ["SELECT"]),
    ],
    ids=["small", "large", "small infinite", "large infinite", "half", "integer", "without FILL"],
)
def test_a_number_in_a_large_where_takes_no_memory(dtype, number, size, target, expected):
    """A masked attention has one for every pair of positions."""
    given = {np.float32: oracle.f32, np.float16: oracle.f16, np.int32: oracle.i32}[dtype]
    case = oracle.node("Where", oracle.boolean(1, size), given(1, size), np.array(number, dtype))
    assert oracle.emitted(case, target) == expected
    oracle.matches(case, target)


def test_where_with_constants_matches():
    low = np.array(-1e4, np.float32)
    case = oracle.node("Where", oracle.boolean(2, 1, 4, 4), oracle.f32(2, 3, 4, 4), low)
    assert oracle.emitted(case, oracle.FL[3]) == ["LOGICAL_AND", "SELECT"]
    oracle.matches(case, oracle.FL[3])
    constant = np.array([[True, False, True]])
    oracle.matches(oracle.node("Where", constant, oracle.f32(2, 3), oracle.f32(2, 3)), oracle.FL[3])
    oracle.rejects(case, oracle.FL[2], Reason.LEVEL, "LOGICAL_AND")
