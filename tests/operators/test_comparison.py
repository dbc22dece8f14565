"""Comparisons and logic of every shape, and choices between tensors."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.emit import MAX_FILL_CONSTANT
from tests import oracle

SHAPES = {
    "equal": [(2, 3), (2, 3)],
    "scalar": [(2, 3), ()],
    "both": [(2, 1, 3), (4, 1)],
    "rank 5": [(2, 3, 1, 2, 2), (3, 1, 1, 1)],
    "rank 6": [(2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 2)],
}
ORDER = ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"]


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("given", [oracle.f32, oracle.f16, oracle.i32])
@pytest.mark.parametrize("op_type", ORDER)
def test_comparisons_match(op_type, given, shapes):
    oracle.matches(oracle.node(op_type, *(given(*s, low=-1, high=1) for s in shapes)), oracle.FL8)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("op_type", ["And", "Or", "Xor", "Equal"])
def test_logic_matches(op_type, shapes):
    oracle.matches(oracle.node(op_type, *(oracle.boolean(*s) for s in shapes)), oracle.FL8)


@pytest.mark.parametrize("shape", [(2, 3), (), (2, 1, 2, 3, 2)])
def test_not_matches(shape):
    oracle.matches(oracle.node("Not", oracle.boolean(*shape)), oracle.FL3)


@pytest.mark.parametrize("op_type", ORDER)
def test_comparison_levels(op_type):
    case = oracle.node(op_type, oracle.f32(2), oracle.f32(2))
    oracle.accepts(case, oracle.FL3)
    oracle.rejects(case, oracle.FL2, Reason.LEVEL, "needs feature level 3")
    oracle.rejects(
        oracle.node(op_type, oracle.i64(2), oracle.i64(2)), oracle.FL8, Reason.DTYPE, "INT64"
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
        oracle.node("Where", oracle.boolean(*condition), given(*a), given(*b)), oracle.FL8
    )


@pytest.mark.parametrize(
    ("dtype", "number", "size", "target", "expected"),
    [
        (np.float32, -1e4, MAX_FILL_CONSTANT, oracle.FL8, ["SELECT"]),
        (np.float32, -1e4, MAX_FILL_CONSTANT + 1, oracle.FL8, ["FILL", "SELECT"]),
        (np.float32, -np.inf, MAX_FILL_CONSTANT, oracle.FL8, ["SELECT"]),
        (np.float32, -np.inf, MAX_FILL_CONSTANT + 1, oracle.FL8, ["FILL", "SELECT"]),
        (np.float16, 2.5, MAX_FILL_CONSTANT + 1, oracle.FL8, ["FILL", "SELECT"]),
        (np.int32, 7, MAX_FILL_CONSTANT + 1, oracle.FL8, ["FILL", "SELECT"]),
        (np.float32, -1e4, MAX_FILL_CONSTANT + 1, oracle.FL3, ["SELECT"]),
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
    assert oracle.emitted(case, oracle.FL3) == ["LOGICAL_AND", "SELECT"]
    oracle.matches(case, oracle.FL3)
    constant = np.array([[True, False, True]])
    oracle.matches(oracle.node("Where", constant, oracle.f32(2, 3), oracle.f32(2, 3)), oracle.FL3)
    oracle.rejects(case, oracle.FL2, Reason.LEVEL, "LOGICAL_AND")
