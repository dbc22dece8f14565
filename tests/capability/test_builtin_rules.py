"""The rules of ONNX Runtime's own provider: taken at the limit, left just past it."""

import numpy as np
import pytest

from ep_nnapi.capability.builtin_rules import RULES, builtin_rejection
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.options.target import NnapiFlag, Target
from tests.onnx_graph import graph_of
from tests.oracle import FL1, FL2, FL3, FL4, FL8, Case, f16, f32, i32, node

W = np.zeros((4, 3, 3, 3), np.float32)
SIZES = np.array([1, 3, 16, 16], np.int64)
EMPTY = np.array([], np.float32)


def first(case: Case):
    return graph_of(case.model).nodes[0]


TAKEN = {
    "add, rank 4": (node("Add", f32(1, 2, 3, 4), f32(4)), FL1),
    "sub": (node("Sub", f32(2), f32(2)), FL2),
    "relu, any rank": (node("Relu", f32(1, 1, 1, 1, 2)), FL1),
    "clip to relu6": (node("Clip", f32(2), np.array(0, np.float32), np.array(6, np.float32)), FL1),
    "conv": (node("Conv", f32(1, 3, 8, 8), W), FL2),
    "conv, dilated": (node("Conv", f32(1, 3, 8, 8), W, dilations=[2, 2]), FL3),
    "gemm": (node("Gemm", f32(1, 8), np.zeros((8, 4), np.float32), np.zeros(4, np.float32)), FL1),
    "softmax, last axis": (node("Softmax", f32(2, 3)), FL2),
    "softmax, another axis": (node("Softmax", f32(2, 3, 4), axis=1), FL3),
    "max of two": (node("Max", f32(2), f32(2)), FL3),
    "elu": (node("Elu", f32(2)), FL4),
    "resize, half pixel": (node("Resize", f32(1, 3, 8, 8), None, None, SIZES, mode="linear"), FL4),
    "gather by int32": (node("Gather", f32(3, 4), i32(2, low=0, high=2)), FL3),
}


@pytest.mark.parametrize(("case", "target"), TAKEN.values(), ids=TAKEN)
def test_taken_at_the_limit(case: Case, target: Target) -> None:
    assert builtin_rejection(first(case), target) is None


LEFT = {
    "no such operator": (node("HardSwish", f32(2)), FL8, Reason.OP, "HardSwish is not supported"),
    "level": (node("Sub", f32(2), f32(2)), FL1, Reason.LEVEL, "Sub needs feature level 2"),
    "opset": (node("Add", f32(2), f32(2), opset=6), FL8, Reason.OPSET, "older than opset 7"),
    "half floats": (node("Add", f16(2), f16(2)), FL8, Reason.DTYPE, "x0 is FLOAT16"),
    "sigmoid, rank 5": (node("Sigmoid", f32(2, 1, 2, 1, 2)), FL8, Reason.RANK, "has rank 5"),
    "sizes unknown": (node("Relu", f32("n", 2)), FL8, Reason.SHAPE, "'n'"),
    "clip to 1": (
        node("Clip", f32(2), np.array(0, np.float32), np.array(1, np.float32)),
        FL8,
        Reason.ATTRIBUTE,
        "range is [0.0, 1.0]",
    ),
    "conv, weights not constant": (
        node("Conv", f32(1, 3, 8, 8), f32(4, 3, 3, 3)),
        FL8,
        Reason.CONSTANT,
        "x1",
    ),
    "conv, dilated": (
        node("Conv", f32(1, 3, 8, 8), W, dilations=[2, 2]),
        FL2,
        Reason.LEVEL,
        "dilations",
    ),
    "max of three": (
        node("Max", f32(2), f32(2), f32(2)),
        FL8,
        Reason.ATTRIBUTE,
        "3 inputs, supported: 2",
    ),
    "pool, ceil": (
        node("MaxPool", f32(1, 1, 5, 5), kernel_shape=[2, 2], ceil_mode=1),
        FL8,
        Reason.ATTRIBUTE,
        "ceil_mode",
    ),
    "resize, half pixel": (
        node("Resize", f32(1, 3, 8, 8), None, None, SIZES, mode="linear"),
        FL3,
        Reason.ATTRIBUTE,
        "linear with half_pixel",
    ),
    "batches of matrices": (
        node("MatMul", f32(2, 3, 4), f32(2, 4, 5)),
        FL2,
        Reason.LEVEL,
        "batches",
    ),
    "pads not constant": (
        node("Pad", f32(2, 2), np.array([0, -1, 0, 0])),
        FL8,
        Reason.ATTRIBUTE,
        "negative",
    ),
}


@pytest.mark.parametrize(("case", "target", "reason", "detail"), LEFT.values(), ids=LEFT)
def test_left_just_past_it(case: Case, target: Target, reason: Reason, detail: str) -> None:
    found = builtin_rejection(first(case), target)
    assert found is not None
    assert found.reason is reason
    assert detail in found.detail
    assert found.detail.startswith("ONNX Runtime's own provider: ")


def test_use_nchw_needs_level_3() -> None:
    conv = first(node("Conv", f32(1, 3, 8, 8), W))
    found = builtin_rejection(conv, Target(2, NnapiFlag.USE_NCHW))
    assert found is not None
    assert found.reason is Reason.LEVEL
    assert builtin_rejection(conv, Target(3, NnapiFlag.USE_NCHW)) is None


def test_it_knows_its_54_operators() -> None:
    assert len(RULES) == 54
