"""Reductions along axes."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.nnapi.errors import Reason
from tests.cases import each
from tests.oracle import (
    FL,
    accepts,
    boolean,
    emitted,
    evaluated,
    f16,
    f32,
    i32,
    i64,
    matches,
    node,
    on_cpu,
    rejects,
)

ROUNDED = {"atol": 2e-6, "rtol": 1e-5}  # a sum or product of at most 60 float32 numbers below 4
HALVES = {"atol": 8e-3, "rtol": 2e-3}  # one rounding to float16 of a number below 16
OPS = ["Max", "Min", "Mean", "Prod", "Sum", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]

AXES = {
    "all": ((2, 3, 4), None),
    "last": ((2, 3, 4), [-1]),
    "first": ((4, 3), [0]),
    "image": ((2, 3, 4, 5), [2, 3]),
    "channels": ((2, 3, 4, 5), [1]),
    "one and three": ((2, 3, 4, 5), [3, 1]),
    "vector": ((5,), [0]),
    "scalar": ((), None),
    "size 1": ((2, 1, 3), [1]),
    "rank 5, joined": ((2, 3, 2, 2, 2), [2, 3, 4]),
    "rank 5, apart": ((2, 3, 2, 3, 2), [0, 2, 4]),
    "rank 6, apart": ((2, 2, 3, 2, 3, 2), [1, 3, 5]),
    "rank 5, all": ((2, 2, 3, 2, 2), None),
    "rank 5, ones between": ((2, 1, 3, 1, 4), [2]),
    "rank 7, apart": ((2, 2, 2, 2, 2, 2, 2), [1, 3, 5]),
}


def positive(op_type, shape):
    low = 0.5 if op_type in ("LogSum", "Prod") else -2.0
    return f32(*shape, low=low)


@each("keepdims", [0, 1])
@each("axes", AXES)
@pytest.mark.parametrize("op_type", OPS)
def test_axes_match(op_type, axes, keepdims):
    shape, along = AXES[axes]
    x = positive(op_type, shape)
    given = {"axes": along} if along is not None else {}
    attribute = node(f"Reduce{op_type}", x, opset=11, keepdims=keepdims, **given)
    matches(attribute, FL[3], **ROUNDED, oracle=on_cpu)
    inputs = (x,) if along is None else (x, np.array(along, np.int64))
    case = node(f"Reduce{op_type}", *inputs, opset=18, keepdims=keepdims)
    matches(case, FL[3], **ROUNDED, oracle=on_cpu)


@pytest.mark.parametrize("op_type", OPS)
def test_no_axes_match(op_type):
    x, none = positive(op_type, (2, 3)), np.array([], np.int64)
    matches(node(f"Reduce{op_type}", x, none, noop_with_empty_axes=0), FL[8], **ROUNDED)
    matches(node(f"Reduce{op_type}", x, none, noop_with_empty_axes=1), FL[8], **ROUNDED)
    matches(node(f"Reduce{op_type}", x, None, noop_with_empty_axes=1), FL[8], **ROUNDED)
    other = node(f"Reduce{op_type}", x, none, noop_with_empty_axes=2)
    rejects(other, FL[8], Reason.ATTRIBUTE, "noop_with_empty_axes is 2; ONNX has 0, 1")


@pytest.mark.parametrize("op_type", OPS)
def test_halves_match(op_type):
    low = 0.5 if op_type in ("LogSum", "Prod") else -2.0
    case = node(f"Reduce{op_type}", f16(3, 4, low=low), np.array([1]))
    wide = [e.astype(np.float32) for e in case.draw().values()]
    matches(case, FL[8], **HALVES, reference=_halved(op_type, wide[0]))


def _halved(op_type, x):
    """Computed in float32, rounded once."""
    case = node(f"Reduce{op_type}", f32(3, 4), np.array([1]))
    return [np.asarray(y).astype(np.float16) for y in evaluated(case.model, {"x0": x})]


@pytest.mark.parametrize("op_type", ["Sum", "Max", "Min", "Prod", "L1", "SumSquare"])
@each(("shape", "axes"), [((3, 7), [0]), ((2, 5, 3), [1]), ((2, 3, 2, 2, 5), [4])])
@each("keepdims", [0, 1])
def test_integers_match(op_type, shape, axes, keepdims):
    case = node(f"Reduce{op_type}", i32(*shape), np.array(axes), keepdims=keepdims)
    matches(case, FL[8], oracle=on_cpu)  # the evaluator's SumSquare changes the type


def test_integers_overflow_as_everywhere():
    case = node("ReduceSum", i32(5), np.array([0]))
    large = np.full(5, 2**30, np.int32)
    matches(case, FL[8], feeds={"x0": large}, reference=[large.sum(keepdims=True, dtype=np.int32)])


@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_booleans_match(op_type):
    case = node(f"Reduce{op_type}", boolean(4, 3), np.array([1]), opset=20)
    matches(case, FL[3])


@pytest.mark.parametrize("value", [-np.inf, np.inf, 200.0, -200.0])
def test_log_sum_exp_does_not_overflow(value):
    x = np.array([[value, 1], [value, value]], np.float32)
    case = node("ReduceLogSumExp", f32(2, 2), np.array([1]))
    matches(case, FL[3], feeds={"x0": x}, oracle=on_cpu, rtol=1e-6)


def test_log_sum_exp_of_integers_is_refused():
    case = node("ReduceLogSumExp", i32(2, 2), np.array([1]))
    rejects(case, FL[8], Reason.DTYPE, "x0 is INT32")


def test_reductions_are_one_operation():
    for op_type, name in [("Mean", "MEAN"), ("Sum", "REDUCE_SUM"), ("Max", "REDUCE_MAX")]:
        case = node(f"Reduce{op_type}", f32(2, 3, 4, 5), np.array([2, 3]))
        assert emitted(case, FL[3]) == [name]
    joined = node("ReduceMean", f32(2, 2, 3, 2, 2), np.array([2]))
    assert emitted(joined, FL[3]) == ["RESHAPE", "MEAN", "RESHAPE"]
    apart = node("ReduceMean", f32(2, 2, 2, 2, 2), np.array([0, 2, 4]))
    assert emitted(apart, FL[3]).count("MEAN") == 2


def test_levels():
    axes = np.array([1])
    accepts(node("ReduceMean", f32(2, 3), axes), FL[2])
    rejects(node("ReduceMean", f32(2, 3), axes), FL[1], Reason.LEVEL, "MEAN")
    rejects(node("ReduceMax", f32(2, 3), axes), FL[2], Reason.LEVEL, "REDUCE_MAX")
    rejects(node("ReduceSum", f32(2, 3), axes), FL[1], Reason.LEVEL, "MEAN")
    accepts(node("ReduceSum", i32(2, 3), axes), FL[4])
    rejects(node("ReduceSum", i32(2, 3), axes), FL[3], Reason.LEVEL, "ADD")
    accepts(node("ReduceSum", i32(2, 3), axes, keepdims=0), FL[6])
    rejects(node("ReduceSum", i32(2, 3), axes, keepdims=0), FL[4], Reason.LEVEL, "RESHAPE")


@pytest.mark.parametrize("rank", range(1, 5))
def test_level_2_keeps_axes_of_the_mean_of_all(rank):
    """Android 9 accepts a MEAN that removes all of them, and refuses to run it."""
    case = node("ReduceMean", f32(*range(2, 2 + rank)), keepdims=0, opset=17)
    calls = [call for call in accepts(case, FL[2])[0].calls if call.spec.name == "MEAN"]
    assert [call.named()["keep_dims"] for call in calls] == [1]
    matches(case, FL[2], **ROUNDED)
    assert emitted(case, FL[3]) == ["MEAN"]


def test_sum_by_the_mean_at_level_2():
    case = node("ReduceSum", f32(2, 30), np.array([1]))
    assert emitted(case, FL[2]) == ["MEAN", "MUL"]
    matches(case, FL[2], **ROUNDED)


def test_what_is_not_computed_is_refused():
    rejects(node("ReduceSum", i64(2, 3), np.array([1])), FL[8], Reason.DTYPE, "INT64")
    rejects(node("ReduceMean", i32(2, 3), np.array([1])), FL[8], Reason.DTYPE, "TENSOR_INT32")


def test_computed_axes_are_refused():
    output = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 1])
    case = node("ReduceMax", f32(2, 3), i64(1), output_types=[output])
    rejects(case, FL[8], Reason.CONSTANT, "must be constant")
