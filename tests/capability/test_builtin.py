"""The rules of ONNX Runtime's own provider: taken at the limit, left just past it."""

import numpy as np
import pytest

from ep_nnapi.capability.builtin import RULES, builtin_rejection
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.options.target import NnapiFlag, Target
from tests.onnx_graph import graph_of
from tests.oracle import FL, Case, f16, f32, i32, ints, node

SHAPE, ATTRIBUTE, LEVEL, RANK = Reason.SHAPE, Reason.ATTRIBUTE, Reason.LEVEL, Reason.RANK


def resize(transform: str) -> Case:
    """Linear, between pixels that are rounded down where they are not."""
    given = f32(1, 2, 4, 4), None, None, ints(1, 2, 8, 8)
    modes = {"mode": "linear", "nearest_mode": "floor"}
    return node("Resize", *given, coordinate_transformation_mode=transform, **modes)


def clip(low: float, high: float) -> Case:
    return node("Clip", f32(2), np.array(low, np.float32), np.array(high, np.float32))


def gemm(bias: np.ndarray, **attributes: object) -> Case:
    return node("Gemm", f32(2, 3), np.ones((3, 4), np.float32), bias, **attributes)


def conv(group: int = 1, dilation: int = 1) -> Case:
    weights = np.ones((4, 4 // group, 3, 3), np.float32)
    return node("Conv", f32(1, 4, 9, 9), weights, group=group, dilations=[dilation] * 2)


def matmul(batches: int, others: int) -> Case:
    return node("MatMul", f32(batches, 2, 3), f32(others, 3, 4))


ROW, COLUMN = np.ones(4, np.float32), np.ones((2, 1), np.float32)
MATRICES = node("MatMul", f32(2, 3), np.ones((3, 4), np.float32))
POOL = node("MaxPool", f32(1, 1, 5, 5), kernel_shape=[2, 2], ceil_mode=1)
COMPUTED = node("Conv", f32(1, 3, 8, 8), f32(4, 3, 3, 3))
UNEQUAL = node("Split", f32(5), ints(2, 3), outputs=2)


def first(case: Case):
    return graph_of(case.model).nodes[0]


TAKEN = {
    "add, rank 4": (node("Add", f32(1, 2, 3, 4), f32(4)), FL[1]),
    "sub": (node("Sub", f32(2), f32(2)), FL[2]),
    "relu, any rank": (node("Relu", f32(1, 1, 1, 1, 2)), FL[1]),
    "clip to relu6": (clip(0, 6), FL[1]),
    "clip to relu1": (clip(-1, 1), FL[4]),
    "conv": (conv(), FL[2]),
    "conv, dilated": (conv(dilation=2), FL[3]),
    "conv in groups": (conv(2), FL[2]),
    "conv, depthwise and dilated": (conv(4, dilation=2), FL[3]),
    "gemm, bias a row": (gemm(ROW), FL[1]),
    "matrices": (MATRICES, FL[2]),
    "batches of matrices": (matmul(5, 5), FL[3]),
    "softmax, last axis": (node("Softmax", f32(2, 3)), FL[2]),
    "softmax, another axis": (node("Softmax", f32(2, 3, 4), axis=1), FL[3]),
    "max of two": (node("Max", f32(2), f32(2)), FL[3]),
    "elu": (node("Elu", f32(2)), FL[4]),
    "resize, asymmetric": (resize("asymmetric"), FL[3]),
    "resize, half pixel": (resize("half_pixel"), FL[4]),
    "gather by int32": (node("Gather", f32(3, 4), i32(2, low=0, high=2)), FL[3]),
    "split into equal parts": (node("Split", f32(4), outputs=2, num_outputs=2), FL[3]),
    "cast to float": (node("Cast", f32(2), to=1), FL[3]),
    "pads of 0": (node("Pad", f32(2), ints(0, 1), np.array(0, np.float32)), FL[3]),
}


@pytest.mark.parametrize(("case", "target"), TAKEN.values(), ids=TAKEN)
def test_taken_at_the_limit(case: Case, target: Target) -> None:
    assert builtin_rejection(first(case), target) is None


LEFT = {
    "no such operator": (node("HardSwish", f32(2)), FL[8], Reason.OP, "HardSwish is not supported"),
    "level": (node("Sub", f32(2), f32(2)), FL[1], LEVEL, "Sub needs feature level 2"),
    "opset": (node("Add", f32(2), f32(2), opset=6), FL[8], Reason.OPSET, "older than opset 7"),
    "half floats": (node("Add", f16(2), f16(2)), FL[8], Reason.DTYPE, "x0 is FLOAT16"),
    "sigmoid, rank 5": (node("Sigmoid", f32(2, 1, 2, 1, 2)), FL[8], RANK, "has rank 5"),
    "sizes unknown": (node("Relu", f32("n", 2)), FL[8], SHAPE, "'n'"),
    "clip to 5": (clip(0, 5), FL[4], ATTRIBUTE, "range is [0.0, 5.0]"),
    "gemm, bias a column": (gemm(COLUMN), FL[4], SHAPE, "is not of shape [4]"),
    "gemm, alpha": (gemm(ROW, alpha=2.0), FL[4], ATTRIBUTE, "alpha is not 1"),
    "conv, weights not constant": (COMPUTED, FL[8], Reason.CONSTANT, "x1"),
    "conv, dilated": (conv(dilation=2), FL[2], LEVEL, "dilations"),
    "conv, both": (conv(2, 2), FL[3], ATTRIBUTE, "dilations in a grouped convolution"),
    "batches": (matmul(5, 5), FL[2], LEVEL, "feature level 3"),
    "broadcast batches": (matmul(5, 1), FL[3], RANK, "batches of equal shape"),
    "max of three": (node("Max", *[f32(2)] * 3), FL[8], ATTRIBUTE, "3 inputs, supported: 2"),
    "pool, ceil": (POOL, FL[8], ATTRIBUTE, "ceil_mode"),
    "resize": (resize("half_pixel"), FL[3], ATTRIBUTE, "linear with half_pixel is not supported"),
    "cast to int64": (node("Cast", f32(2), to=7), FL[3], Reason.DTYPE, "INT32 only"),
    "unequal parts": (UNEQUAL, FL[3], ATTRIBUTE, "equal parts only"),
    "negative pads": (node("Pad", f32(3), ints(-1, 0)), FL[3], ATTRIBUTE, "pads are negative"),
}


@pytest.mark.parametrize(("case", "target", "reason", "detail"), LEFT.values(), ids=LEFT)
def test_left_just_past_it(case: Case, target: Target, reason: Reason, detail: str) -> None:
    found = builtin_rejection(first(case), target)
    assert found is not None
    assert found.reason is reason
    assert detail in found.detail
    assert found.detail.startswith("ONNX Runtime's own provider: ")


def test_use_nchw_needs_level_3() -> None:
    given = first(conv())
    found = builtin_rejection(given, Target(2, NnapiFlag.USE_NCHW))
    assert found is not None
    assert found.reason is Reason.LEVEL
    assert builtin_rejection(given, Target(3, NnapiFlag.USE_NCHW)) is None


def test_it_knows_its_54_operators() -> None:
    assert len(RULES) == 54
