"""Comparisons and logic of every shape, and choices between tensors."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.ops.lib.emit import MAX_FILL_CONSTANT
from tests.oracle import (
    FL2,
    FL3,
    FL8,
    accepts,
    boolean,
    emitted,
    f16,
    f32,
    i32,
    i64,
    matches,
    node,
    rejects,
)

SHAPES = {
    "equal": [(2, 3), (2, 3)],
    "scalar": [(2, 3), ()],
    "both": [(2, 1, 3), (4, 1)],
    "rank 5": [(2, 3, 1, 2, 2), (3, 1, 1, 1)],
    "rank 6": [(2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 2)],
}
ORDER = ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"]


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("given", [f32, f16, i32])
@pytest.mark.parametrize("op_type", ORDER)
def test_comparisons_match(op_type, given, shapes):
    matches(node(op_type, *(given(*s, low=-1, high=1) for s in shapes)), FL8)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("op_type", ["And", "Or", "Xor", "Equal"])
def test_logic_matches(op_type, shapes):
    matches(node(op_type, *(boolean(*s) for s in shapes)), FL8)


@pytest.mark.parametrize("shape", [(2, 3), (), (2, 1, 2, 3, 2)])
def test_not_matches(shape):
    matches(node("Not", boolean(*shape)), FL3)


@pytest.mark.parametrize("op_type", ORDER)
def test_comparison_levels(op_type):
    case = node(op_type, f32(2), f32(2))
    accepts(case, FL3)
    rejects(case, FL2, Reason.LEVEL, "needs feature level 3")
    rejects(node(op_type, i64(2), i64(2)), FL8, Reason.DTYPE, "INT64")


WHERES = {
    "equal": [(2, 3)] * 3,
    "scalars": [(2, 3), (), ()],
    "rows": [(2, 1), (3,), (1, 3)],
    "mask": [(1, 1, 4, 4), (2, 3, 4, 4), (1,)],
    "scalar mask": [(), (2, 3), (3,)],
    "rank 5": [(2, 1, 3, 1, 2), (1, 2, 1, 2, 1), (2,)],
}


@pytest.mark.parametrize("given", [f32, f16, i32, boolean])
@pytest.mark.parametrize("shapes", WHERES.values(), ids=WHERES)
def test_where_matches(shapes, given):
    condition, a, b = shapes
    matches(node("Where", boolean(*condition), given(*a), given(*b)), FL8)


@pytest.mark.parametrize(
    ("dtype", "number", "size", "target", "expected"),
    [
        (np.float32, -1e4, MAX_FILL_CONSTANT, FL8, ["SELECT"]),
        (np.float32, -1e4, MAX_FILL_CONSTANT + 1, FL8, ["FILL", "SELECT"]),
        (np.float32, -np.inf, MAX_FILL_CONSTANT, FL8, ["SELECT"]),
        (np.float32, -np.inf, MAX_FILL_CONSTANT + 1, FL8, ["FILL", "SELECT"]),
        (np.float16, 2.5, MAX_FILL_CONSTANT + 1, FL8, ["FILL", "SELECT"]),
        (np.int32, 7, MAX_FILL_CONSTANT + 1, FL8, ["FILL", "SELECT"]),
        (np.float32, -1e4, MAX_FILL_CONSTANT + 1, FL3, ["SELECT"]),
    ],
    ids=["small", "large", "small infinite", "large infinite", "half", "integer", "without FILL"],
)
def test_a_number_in_a_large_where_takes_no_memory(dtype, number, size, target, expected):
    """A masked attention has one for every pair of positions."""
    given = {np.float32: f32, np.float16: f16, np.int32: i32}[dtype]
    case = node("Where", boolean(1, size), given(1, size), np.array(number, dtype))
    assert emitted(case, target) == expected
    matches(case, target)


def test_where_with_constants_matches():
    low = np.array(-1e4, np.float32)
    case = node("Where", boolean(2, 1, 4, 4), f32(2, 3, 4, 4), low)
    assert emitted(case, FL3) == ["LOGICAL_AND", "SELECT"]
    matches(case, FL3)
    constant = np.array([[True, False, True]])
    matches(node("Where", constant, f32(2, 3), f32(2, 3)), FL3)
    rejects(case, FL2, Reason.LEVEL, "LOGICAL_AND")
