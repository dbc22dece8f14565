"""Normalization and softmax against ONNX's reference."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.capability.node import judge
from ep_nnapi.nnapi.errors import Reason
from tests.cases import each
from tests.oracle import FL, NCHW3, accepts, emitted, f16, f32, matches, node, on_cpu, rejects

SOFTMAX_ROUNDED = {"atol": 1e-6, "rtol": 1e-6, "oracle": on_cpu}
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


@pytest.mark.parametrize("target", [FL[1], FL[2], FL[3], FL[8]], ids=["1", "2", "3", "8"])
@pytest.mark.parametrize("opset", [9, 11, 13])
@each(("shape", "axis"), CASES)
def test_softmax_matches(shape, axis, opset, target):
    if target is FL[1] and opset == 13 and axis not in (-1, len(shape) - 1):
        return  # level 1 has no TRANSPOSE
    matches(node("Softmax", f32(*shape), axis=axis, opset=opset), target, **SOFTMAX_ROUNDED)


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize(("shape", "axis"), CASES, ids=str)
def test_log_softmax_matches(shape, axis, opset):
    matches(node("LogSoftmax", f32(*shape), axis=axis, opset=opset), FL[3], **SOFTMAX_ROUNDED)


def test_default_axes():
    shape = (2, 3, 4)
    for op_type in ("Softmax", "LogSoftmax"):
        matches(
            node(op_type, f32(*shape), opset=11), FL[8], **SOFTMAX_ROUNDED
        )  # 1, and all after it
        matches(node(op_type, f32(*shape), opset=13), FL[8], **SOFTMAX_ROUNDED)  # the last


def test_halves_match():
    for op_type in ("Softmax", "LogSoftmax"):
        matches(node(op_type, f16(2, 3, 4)), FL[3], atol=2e-3)  # one rounding of a number up to 4


def test_softmax_is_one_operation_where_the_level_takes_the_axis():
    assert emitted(node("Softmax", f32(1, 2, 3, 5), axis=1), FL[3]) == ["SOFTMAX"]
    assert emitted(node("Softmax", f32(2, 5)), FL[1]) == ["SOFTMAX"]
    assert emitted(node("Softmax", f32(2, 3, 5)), FL[2]) == ["RESHAPE", "SOFTMAX", "RESHAPE"]


def test_softmax_along_another_axis_takes_a_permute_below_level_3():
    case = node("Softmax", f32(2, 3, 5), axis=1)
    accepts(case, FL[2])
    rejects(case, FL[1], Reason.LEVEL, "TRANSPOSE")


def test_log_softmax_levels():
    accepts(node("LogSoftmax", f32(2, 3)), FL[3])
    rejects(node("LogSoftmax", f32(2, 3)), FL[2], Reason.LEVEL, "LOG_SOFTMAX")


def test_axis_outside_is_refused():
    (judged,) = accepts(node("Softmax", f32(2, 3), axis=1), FL[8])
    outside = replace(judged.node, attributes={"axis": 2})
    assert judge(outside, FL[8]).detail == "axis is 2, the rank is 2"


ROUNDED = {"atol": 3e-6, "rtol": 1e-5}  # a mean, a square, a root in float32
HALVES = 8e-3  # one rounding to float16 of a number up to 8
RNG = np.random.default_rng(0)


def drawn(*shape, low=-2.0, dtype=np.float32):
    return RNG.uniform(low, 2, shape).astype(dtype)


def statistics(channels, dtype=np.float32):
    """scale, B, mean, var"""
    return [drawn(channels, low=low, dtype=dtype) for low in (-2, -2, -2, 0.1)]


SHAPES = [(4, 3), (2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 2, 3), (1, 3, 2, 1, 2, 3)]


@pytest.mark.parametrize("opset", [8, 9, 14, 15])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch_normalization_matches(shape, opset):
    case = node("BatchNormalization", f32(*shape), *statistics(3), opset=opset)
    matches(case, FL[1], **ROUNDED, oracle=on_cpu)  # the evaluator's of 9 and before is wrong


def test_batch_normalization_is_a_product_and_a_sum():
    case = node("BatchNormalization", f32(2, 3, 4, 5), *statistics(3), epsilon=0.01)
    assert emitted(case, FL[1]) == ["MUL", "ADD"]
    matches(case, FL[1], **ROUNDED)
    matches(case, NCHW3, **ROUNDED)


def test_batch_normalization_by_computed_statistics_matches():
    given = [f32(3), f32(3), f32(3), f32(3, low=0.1)]
    matches(node("BatchNormalization", f32(2, 3, 4, 5), *given), FL[3], **ROUNDED)
    matches(node("BatchNormalization", f32(2, 3, 2, 2, 2), *given), FL[3], **ROUNDED)


def test_batch_normalization_of_halves_matches():
    halves = statistics(3, np.float16)
    case = node("BatchNormalization", f16(2, 3, 4, 5), *halves)
    matches(case, FL[3], atol=3e-2, oracle=on_cpu)  # three roundings of numbers up to 16


def test_batch_normalization_in_training_is_refused():
    x, given = f32(2, 3, 4, 5), statistics(3)
    training = node("BatchNormalization", x, *given, outputs=3, training_mode=1)
    rejects(training, FL[8], Reason.ATTRIBUTE, "training mode")
    rejects(node("BatchNormalization", x, *given, outputs=5, opset=9), FL[8], Reason.ATTRIBUTE, "")


@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
def test_instance_normalization_matches(shape):
    case = node("InstanceNormalization", f32(*shape), drawn(3), drawn(3))
    matches(case, FL[3], **ROUNDED)
    matches(node("InstanceNormalization", f32(*shape), f32(3), f32(3)), FL[8], **ROUNDED)


def test_instance_normalization_levels_and_layout():
    case = node("InstanceNormalization", f32(2, 3, 4, 5), drawn(3), drawn(3), epsilon=0.1)
    assert emitted(case, FL[3]) == ["INSTANCE_NORMALIZATION", "MUL", "ADD"]
    matches(case, NCHW3, **ROUNDED)
    rejects(case, FL[2], Reason.LEVEL, "INSTANCE_NORMALIZATION")


@pytest.mark.parametrize("axis", [-1, 1, 2, 0])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 2, 3)], ids=str)
def test_layer_normalization_matches(shape, axis):
    rest = shape[axis:]
    matches(node("LayerNormalization", f32(*shape), drawn(*rest), axis=axis), FL[3], **ROUNDED)
    case = node("LayerNormalization", f32(*shape), drawn(*rest), drawn(*rest), axis=axis)
    matches(case, FL[3], **ROUNDED)
    last = node("LayerNormalization", f32(*shape), drawn(*rest), f32(shape[-1]), axis=axis)
    matches(last, FL[8], **ROUNDED)


@pytest.mark.parametrize(
    ("shape", "axis", "rest"), [((2, 3), -1, (1, 2, 3)), ((1, 2, 1, 2, 3), -1, (2, 3))], ids=str
)
def test_layer_normalization_with_a_scale_of_more_axes(shape, axis, rest):
    """At rank 5 only the normalized axes are kept apart from the others."""
    accepts(node("LayerNormalization", f32(*shape), drawn(*rest[1:]), axis=axis), FL[3])
    for more in ([drawn(*rest)], [drawn(shape[-1]), drawn(*rest)]):
        case = node("LayerNormalization", f32(*shape), *more, axis=axis, opset=17)
        rejects(case, FL[3], Reason.SHAPE, f"has rank {len(rest)}")


def test_layer_normalization_gives_mean_and_deviation():
    case = node("LayerNormalization", f32(2, 3, 4), drawn(3, 4), axis=1, outputs=3)
    matches(case, FL[3], **ROUNDED)


def test_layer_normalization_of_halves_matches():
    ones = np.ones(8, np.float16)
    case = node("LayerNormalization", f16(4, 8, low=-200, high=200), ones)
    matches(case, FL[3], atol=HALVES, oracle=on_cpu)  # the evaluator squares in halves


def test_layer_normalization_levels():
    case = node("LayerNormalization", f32(2, 3), drawn(3))
    accepts(case, FL[3])
    rejects(case, FL[2], Reason.LEVEL, "RSQRT")


@pytest.mark.parametrize("shape", [(2, 6, 4), (2, 6, 4, 3), (2, 6, 2, 2, 2)], ids=str)
def test_group_normalization_matches(shape):
    x, same = f32(*shape), [helper.make_tensor_type_proto(TensorProto.FLOAT, shape)]
    attributes = {"num_groups": 3, "output_types": same}  # which ONNX does not infer
    by_channel = node("GroupNormalization", x, drawn(6), drawn(6), **attributes)
    matches(by_channel, FL[3], **ROUNDED, oracle=on_cpu)
    by_group = node("GroupNormalization", x, drawn(3), drawn(3), opset=18, **attributes)
    matches(by_group, FL[3], **ROUNDED)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 2, 2, 2)], ids=str)
def test_rms_normalization_matches(shape, axis):
    case = node("RMSNormalization", f32(*shape), drawn(*shape[axis:]), axis=axis, opset=23)
    matches(case, FL[3], **ROUNDED)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn_matches(size):
    case = node("LRN", f32(2, 7, 3, 4), size=size, alpha=0.3, beta=0.6, bias=1.5)
    matches(case, FL[2], **ROUNDED, oracle=on_cpu)
    matches(case, NCHW3, **ROUNDED, oracle=on_cpu)


def test_lrn_limits():
    accepts(node("LRN", f32(2, 7, 3, 4), size=3), FL[1])
    rejects(node("LRN", f32(2, 7, 3, 4), size=4), FL[8], Reason.ATTRIBUTE, "size is 4")
    rejects(node("LRN", f32(2, 7, 3), size=3), FL[8], Reason.RANK, "rank 3")


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4), 1), ((5,), 0), ((2, 2, 3, 2, 2), 2)])
def test_lp_normalization_matches(shape, axis, p):
    matches(node("LpNormalization", f32(*shape), axis=axis, p=p), FL[3], **ROUNDED, oracle=on_cpu)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization_of_short_vectors(p):
    """Squares of the last numbers are 0, and so is what their norm divides; p = 1 has none."""
    case = node("LpNormalization", f32(5, 2), p=p)
    short = [[0, 0], [1e-9, -1e-9], [3e-12, 4e-12], [1e-30, 2e-30], [4e-42, -8e-42]]
    matches(case, FL[3], rtol=1e-5, feeds={"x0": short}, oracle=on_cpu)
    rejects(case, FL[2], Reason.LEVEL, "REDUCE_SUM")


@pytest.mark.parametrize("axes", [[0, 2, 3], [1], [0, 1], [-1]])
def test_mean_variance_normalization_matches(axes):
    case = node("MeanVarianceNormalization", f32(2, 3, 4, 5), axes=axes)
    wide = case.draw()["x0"].astype(np.float64)
    centred = wide - wide.mean(tuple(axes), keepdims=True)
    exact = centred / (wide.std(tuple(axes), keepdims=True) + 1e-9)
    matches(case, FL[3], **ROUNDED, reference=[exact.astype(np.float32)])


def test_mean_variance_normalization_beyond_rank_4_is_refused():
    case = node("MeanVarianceNormalization", f32(1, 2, 3, 2, 2), axes=[0, 2])
    rejects(case, FL[8], Reason.RANK, "rank 5")
