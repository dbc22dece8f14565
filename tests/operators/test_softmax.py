"""Softmax along any axis, of any rank, at every level."""

from dataclasses import replace

import pytest

from ep_nnapi.capability.node import judge
from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL1,
    FL2,
    FL3,
    FL8,
    accepts,
    emitted,
    f16,
    f32,
    matches,
    node,
    on_cpu,
    rejects,
)

ROUNDED = {"atol": 1e-6, "rtol": 1e-6, "oracle": on_cpu}
# exp and a sum in float32; the evaluator knows no rows of several axes
CASES = [
    ((5,), 0),
    ((2, 5), -1),
    ((2, 5), 0),
    ((2, 3, 5), 1),
    ((2, 3, 5), 2),
    ((1, 2, 3, 4), 0),
    ((2, 3, 4, 5), 1),
    ((2, 3, 4, 5), -1),
    ((2, 3, 2, 2, 3), 2),
    ((2, 3, 2, 2, 3), 4),
]


@pytest.mark.parametrize("target", [FL1, FL2, FL3, FL8], ids=["1", "2", "3", "8"])
@pytest.mark.parametrize("opset", [9, 11, 13])
@pytest.mark.parametrize(("shape", "axis"), CASES, ids=str)
def test_softmax_matches(shape, axis, opset, target):
    if target is FL1 and opset == 13 and axis not in (-1, len(shape) - 1):
        pytest.skip("level 1 has no TRANSPOSE")
    matches(node("Softmax", f32(*shape), axis=axis, opset=opset), target, **ROUNDED)


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize(("shape", "axis"), CASES, ids=str)
def test_log_softmax_matches(shape, axis, opset):
    matches(node("LogSoftmax", f32(*shape), axis=axis, opset=opset), FL3, **ROUNDED)


def test_default_axes():
    shape = (2, 3, 4)
    for op_type in ("Softmax", "LogSoftmax"):
        matches(node(op_type, f32(*shape), opset=11), FL8, **ROUNDED)  # 1, and all after it
        matches(node(op_type, f32(*shape), opset=13), FL8, **ROUNDED)  # the last


def test_halves_match():
    for op_type in ("Softmax", "LogSoftmax"):
        matches(node(op_type, f16(2, 3, 4)), FL3, atol=2e-3)  # one rounding of a number up to 4


def test_softmax_is_one_operation_where_the_level_takes_the_axis():
    assert emitted(node("Softmax", f32(1, 2, 3, 5), axis=1), FL3) == ["SOFTMAX"]
    assert emitted(node("Softmax", f32(2, 5)), FL1) == ["SOFTMAX"]
    assert emitted(node("Softmax", f32(2, 3, 5)), FL2) == ["RESHAPE", "SOFTMAX", "RESHAPE"]


def test_softmax_along_another_axis_takes_a_permute_below_level_3():
    case = node("Softmax", f32(2, 3, 5), axis=1)
    accepts(case, FL2)
    rejects(case, FL1, Reason.LEVEL, "TRANSPOSE")


def test_log_softmax_levels():
    accepts(node("LogSoftmax", f32(2, 3)), FL3)
    rejects(node("LogSoftmax", f32(2, 3)), FL2, Reason.LEVEL, "LOG_SOFTMAX")


def test_axis_outside_is_refused():
    (judged,) = accepts(node("Softmax", f32(2, 3), axis=1), FL8)
    outside = replace(judged.node, attributes={"axis": 2})
    assert judge(outside, FL8).detail == "axis is 2, the rank is 2"
