"""The rules of ONNX Runtime's own provider: taken at the limit, left just past it."""

from collections.abc import Callable

import numpy as np
import pytest

from ep_nnapi.capability import builtin as checks
from ep_nnapi.capability.builtin import RULES, builtin_rejection
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.options.target import NnapiFlag, Target
from tests.onnx_graph import graph_of
from tests.oracle import FL, Case, f16, f32, i32, ints, node

Check = Callable[[Node], None]
LINEAR = {"mode": "linear", "nearest_mode": "floor"}
CHECK_SIZES = ints(1, 2, 8, 8)


def resize(mode: str) -> Case:
    return node(
        "Resize",
        f32(1, 2, 4, 4),
        None,
        None,
        CHECK_SIZES,
        coordinate_transformation_mode=mode,
        **LINEAR,
    )


def clip(low: float, high: float) -> Case:
    return node("Clip", f32(2), np.array(low, np.float32), np.array(high, np.float32))


def gemm(bias: np.ndarray, **attributes: object) -> Case:
    return node("Gemm", f32(2, 3), np.ones((3, 4), np.float32), bias, **attributes)


def conv(group: int, *, dilation: int) -> Case:
    weights = np.ones((4, 4 // group, 3, 3), np.float32)
    return node("Conv", f32(1, 4, 9, 9), weights, group=group, dilations=[dilation] * 2)


ROW, COLUMN = np.ones(4, np.float32), np.ones((2, 1), np.float32)
PASSED = {
    "Clip as Relu6": (checks.activation_range, clip(0, 6), FL[4]),
    "Clip as Relu1": (checks.activation_range, clip(-1, 1), FL[4]),
    "Gemm with a row": (checks.gemm, gemm(ROW), FL[4]),
    "dilations at level 3": (checks.convolution, conv(1, dilation=2), FL[3]),
    "a grouped convolution": (checks.convolution, conv(2, dilation=1), FL[2]),
    "a depthwise, dilated one": (checks.convolution, conv(4, dilation=2), FL[3]),
    "matrices": (checks.matmul, node("MatMul", f32(2, 3), np.ones((3, 4), np.float32)), FL[2]),
    "batches at level 3": (checks.matmul, node("MatMul", f32(5, 2, 3), f32(5, 3, 4)), FL[3]),
    "Resize, asymmetric": (checks.resize, resize("asymmetric"), FL[3]),
    "Resize, half_pixel at level 4": (checks.resize, resize("half_pixel"), FL[4]),
    "INT32 indices": (checks.gather, node("Gather", f32(3, 4), i32(2, low=0, high=2)), FL[3]),
    "equal parts": (checks.split, node("Split", f32(4), outputs=2, num_outputs=2), FL[3]),
    "Cast to FLOAT": (checks.cast, node("Cast", i32(2), to=1), FL[3]),
    "pads of 0": (checks.pad, node("Pad", f32(2), ints(0, 1), np.array(0, np.float32)), FL[3]),
}
LEFT_BY_CHECKS = {
    "another range": (checks.activation_range, clip(0, 5), FL[4], Reason.ATTRIBUTE, "[0.0, 5.0]"),
    "a column": (checks.gemm, gemm(COLUMN), FL[4], Reason.SHAPE, "is not of shape [4]"),
    "alpha": (checks.gemm, gemm(ROW, alpha=2.0), FL[4], Reason.ATTRIBUTE, "alpha is not 1"),
    "dilations": (checks.convolution, conv(1, dilation=2), FL[2], Reason.LEVEL, "feature level 3"),
    "both": (
        checks.convolution,
        conv(2, dilation=2),
        FL[3],
        Reason.ATTRIBUTE,
        "dilations in a grouped convolution",
    ),
    "batches": (
        checks.matmul,
        node("MatMul", f32(5, 2, 3), f32(5, 3, 4)),
        FL[2],
        Reason.LEVEL,
        "feature level 3",
    ),
    "broadcast batches": (
        checks.matmul,
        node("MatMul", f32(5, 2, 3), f32(1, 3, 4)),
        FL[3],
        Reason.RANK,
        "batches of equal shape",
    ),
    "half_pixel": (
        checks.resize,
        resize("half_pixel"),
        FL[3],
        Reason.ATTRIBUTE,
        "linear with half_pixel is not supported",
    ),
    "Cast to INT64": (checks.cast, node("Cast", i32(2), to=7), FL[3], Reason.DTYPE, "INT32 only"),
    "unequal parts": (
        checks.split,
        node("Split", f32(5), ints(2, 3), outputs=2),
        FL[3],
        Reason.ATTRIBUTE,
        "equal parts only",
    ),
    "negative pads": (
        checks.pad,
        node("Pad", f32(3), ints(-1, 0)),
        FL[3],
        Reason.ATTRIBUTE,
        "pads are negative",
    ),
}


def lowered(case: Case, target: Target) -> Node:
    (only,) = graph_of(case.model).nodes
    return Node(only, target)


@pytest.mark.parametrize(("check", "case", "target"), PASSED.values(), ids=PASSED)
def test_supported(check: Check, case: Case, target: Target) -> None:
    check(lowered(case, target))


@pytest.mark.parametrize(
    ("check", "case", "target", "reason", "detail"), LEFT_BY_CHECKS.values(), ids=LEFT_BY_CHECKS
)
def test_rejected_just_past_it(
    check: Check, case: Case, target: Target, reason: Reason, detail: str
) -> None:
    with pytest.raises(Reject) as rejected:
        check(lowered(case, target))
    assert rejected.value.reason is reason
    assert detail in rejected.value.detail


W = np.zeros((4, 3, 3, 3), np.float32)
SIZES = np.array([1, 3, 16, 16], np.int64)
EMPTY = np.array([], np.float32)


def first(case: Case):
    return graph_of(case.model).nodes[0]


TAKEN = {
    "add, rank 4": (node("Add", f32(1, 2, 3, 4), f32(4)), FL[1]),
    "sub": (node("Sub", f32(2), f32(2)), FL[2]),
    "relu, any rank": (node("Relu", f32(1, 1, 1, 1, 2)), FL[1]),
    "clip to relu6": (
        node("Clip", f32(2), np.array(0, np.float32), np.array(6, np.float32)),
        FL[1],
    ),
    "conv": (node("Conv", f32(1, 3, 8, 8), W), FL[2]),
    "conv, dilated": (node("Conv", f32(1, 3, 8, 8), W, dilations=[2, 2]), FL[3]),
    "gemm": (node("Gemm", f32(1, 8), np.zeros((8, 4), np.float32), np.zeros(4, np.float32)), FL[1]),
    "softmax, last axis": (node("Softmax", f32(2, 3)), FL[2]),
    "softmax, another axis": (node("Softmax", f32(2, 3, 4), axis=1), FL[3]),
    "max of two": (node("Max", f32(2), f32(2)), FL[3]),
    "elu": (node("Elu", f32(2)), FL[4]),
    "resize, half pixel": (
        node("Resize", f32(1, 3, 8, 8), None, None, SIZES, mode="linear"),
        FL[4],
    ),
    "gather by int32": (node("Gather", f32(3, 4), i32(2, low=0, high=2)), FL[3]),
}


@pytest.mark.parametrize(("case", "target"), TAKEN.values(), ids=TAKEN)
def test_taken_at_the_limit(case: Case, target: Target) -> None:
    assert builtin_rejection(first(case), target) is None


LEFT = {
    "no such operator": (node("HardSwish", f32(2)), FL[8], Reason.OP, "HardSwish is not supported"),
    "level": (node("Sub", f32(2), f32(2)), FL[1], Reason.LEVEL, "Sub needs feature level 2"),
    "opset": (node("Add", f32(2), f32(2), opset=6), FL[8], Reason.OPSET, "older than opset 7"),
    "half floats": (node("Add", f16(2), f16(2)), FL[8], Reason.DTYPE, "x0 is FLOAT16"),
    "sigmoid, rank 5": (node("Sigmoid", f32(2, 1, 2, 1, 2)), FL[8], Reason.RANK, "has rank 5"),
    "sizes unknown": (node("Relu", f32("n", 2)), FL[8], Reason.SHAPE, "'n'"),
    "clip to 1": (
        node("Clip", f32(2), np.array(0, np.float32), np.array(1, np.float32)),
        FL[8],
        Reason.ATTRIBUTE,
        "range is [0.0, 1.0]",
    ),
    "conv, weights not constant": (
        node("Conv", f32(1, 3, 8, 8), f32(4, 3, 3, 3)),
        FL[8],
        Reason.CONSTANT,
        "x1",
    ),
    "conv, dilated": (
        node("Conv", f32(1, 3, 8, 8), W, dilations=[2, 2]),
        FL[2],
        Reason.LEVEL,
        "dilations",
    ),
    "max of three": (
        node("Max", f32(2), f32(2), f32(2)),
        FL[8],
        Reason.ATTRIBUTE,
        "3 inputs, supported: 2",
    ),
    "pool, ceil": (
        node("MaxPool", f32(1, 1, 5, 5), kernel_shape=[2, 2], ceil_mode=1),
        FL[8],
        Reason.ATTRIBUTE,
        "ceil_mode",
    ),
    "resize, half pixel": (
        node("Resize", f32(1, 3, 8, 8), None, None, SIZES, mode="linear"),
        FL[3],
        Reason.ATTRIBUTE,
        "linear with half_pixel",
    ),
    "batches of matrices": (
        node("MatMul", f32(2, 3, 4), f32(2, 4, 5)),
        FL[2],
        Reason.LEVEL,
        "batches",
    ),
    "pads not constant": (
        node("Pad", f32(2, 2), np.array([0, -1, 0, 0])),
        FL[8],
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
