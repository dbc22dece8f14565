"""Pools over windows and over whole images."""

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import (
    FL1,
    FL2,
    FL3,
    FL8,
    NCHW3,
    accepts,
    emitted,
    f16,
    f32,
    matches,
    node,
    on_cpu,
    rejects,
)

SUMS = 2e-6  # a window's sum of at most 75 float32 numbers below 2, in another order
HALVES = 2e-3  # one rounding to float16 of a number below 4

WINDOWS = {
    "plain": ((1, 3, 8, 9), {"kernel_shape": [2, 3]}),
    "strides": ((2, 3, 9, 10), {"kernel_shape": [3, 2], "strides": [2, 3]}),
    "pads": ((1, 2, 7, 8), {"kernel_shape": [3, 3], "pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "same upper": ((1, 2, 7, 8), {"kernel_shape": [3, 2], "auto_pad": "SAME_UPPER"}),
    "same lower": (
        (1, 2, 7, 8),
        {"kernel_shape": [2, 4], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ),
    "valid": ((1, 2, 7, 8), {"kernel_shape": [3, 3], "auto_pad": "VALID", "strides": [2, 2]}),
    "one": ((1, 2, 4, 4), {"kernel_shape": [1, 1], "strides": [2, 2]}),
    "1-D": ((2, 3, 11), {"kernel_shape": [4], "strides": [3], "pads": [1, 2]}),
    "3-D": (
        (2, 2, 5, 6, 7),
        {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 1, 0, 0, 1, 1]},
    ),
}
CEILED = {
    "ceil": ((1, 2, 6, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    "ceil, pads": (
        (1, 2, 6, 8),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    "ceil, 1-D": ((1, 2, 8), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
}
DILATED = {
    "dilations": ((1, 2, 9, 8), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
    "dilations, strides": (
        (2, 2, 9, 10),
        {"kernel_shape": [2, 2], "dilations": [2, 3], "strides": [2, 3], "pads": [1, 0, 1, 1]},
    ),
    "dilations, ceil": (
        (1, 2, 9, 10),
        {"kernel_shape": [2, 3], "dilations": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    ),
    "dilations, 1-D": ((1, 2, 9), {"kernel_shape": [3], "dilations": [2], "pads": [1, 1]}),
}
EVERY = WINDOWS | CEILED | DILATED


@pytest.mark.parametrize("window", EVERY)
def test_max_pool_matches(window):
    shape, attributes = EVERY[window]
    matches(node("MaxPool", f32(*shape), **attributes), FL8, oracle=on_cpu)


@pytest.mark.parametrize("padding_counts", [0, 1])
@pytest.mark.parametrize("window", EVERY)
def test_average_pool_matches(window, padding_counts):
    shape, attributes = EVERY[window]
    case = node("AveragePool", f32(*shape), count_include_pad=padding_counts, **attributes)
    matches(case, FL8, atol=SUMS, oracle=on_cpu)


@pytest.mark.parametrize("opset", [7, 11, 18, 19])
@pytest.mark.parametrize(
    ("size", "window"),
    [
        (1, {"kernel_shape": [2, 2], "strides": [2, 2]}),
        (2, {"kernel_shape": [3, 2], "strides": [3, 2]}),
        (1, {"kernel_shape": [4, 4], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        (2, {"kernel_shape": [5, 3], "strides": [4, 1], "pads": [0, 1, 1, 1]}),
    ],
)
def test_windows_that_are_larger_than_the_padded_image(size, window, opset):
    """ONNX Runtime computes one row of them, and counts them wholly before opset 19."""
    case = node("AveragePool", f32(1, 2, size, 9), count_include_pad=1, opset=opset, **window)
    matches(case, FL8, atol=SUMS, oracle=on_cpu)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("window", EVERY)
def test_lp_pool_matches(window, p):
    shape, attributes = EVERY[window]
    case = node("LpPool", f32(*shape), p=p, **attributes)
    matches(case, FL8, rtol=1e-5, oracle=on_cpu)  # x^p in float32


@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 5), (2, 3, 2, 3, 4)])
@pytest.mark.parametrize("target", [FL1, FL8, NCHW3])
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pools_match(op_type, target, shape):
    matches(node(op_type, f32(*shape)), target, atol=SUMS, rtol=SUMS, oracle=on_cpu)


@pytest.mark.parametrize("p", [1, 3])
def test_global_norms_match(p):
    matches(node("GlobalLpPool", f32(2, 3, 4, 5), p=p), FL8, rtol=1e-5, oracle=on_cpu)


@pytest.mark.parametrize("opset", [7, 10, 11, 19, 22])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_every_opset_matches(op_type, opset):
    case = node(op_type, f32(1, 2, 7, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1], opset=opset)
    matches(case, FL8, atol=SUMS, oracle=on_cpu)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "GlobalAveragePool"])
def test_halves_and_nchw_match(op_type):
    window = {} if op_type.startswith("Global") else {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    matches(node(op_type, f32(1, 2, 7, 8), **window), NCHW3, atol=SUMS, oracle=on_cpu)
    matches(node(op_type, f16(1, 2, 7, 8), **window), FL3, atol=HALVES)


def test_windows_are_one_operation_at_level_1():
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    assert emitted(node("MaxPool", f32(1, 2, 8, 8), **window), FL1) == ["MAX_POOL_2D"]
    assert emitted(node("AveragePool", f32(1, 2, 8, 8), **window), FL1) == ["AVERAGE_POOL_2D"]
    counting = node("AveragePool", f32(1, 2, 8, 8), count_include_pad=1, **window)
    assert emitted(counting, FL1) == ["AVERAGE_POOL_2D", "MUL"]


def test_global_average_is_a_reduction_where_the_level_has_it():
    case = node("GlobalAveragePool", f32(1, 2, 8, 8))
    assert emitted(case, FL1) == ["AVERAGE_POOL_2D"]
    assert emitted(case, FL2) == ["MEAN"]


@pytest.mark.parametrize("more", [{}, {"dilations": [2, 2]}])
def test_padding_is_below_every_number(more):
    least = np.full((1, 1, 4, 4), np.finfo(np.float32).min, np.float32)
    case = node("MaxPool", f32(1, 1, 4, 4), kernel_shape=[2, 2], pads=[1, 1, 1, 1], **more)
    matches(case, FL8, feeds={"x0": least}, oracle=on_cpu)


def test_one_dimension_is_not_transposed():
    case = node("MaxPool", f32(2, 3, 9), kernel_shape=[3])
    assert emitted(case, FL1) == ["RESHAPE", "MAX_POOL_2D", "RESHAPE"]


def test_dilations_need_level_3():
    case = node("MaxPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], dilations=[2, 2], pads=[1] * 4)
    accepts(case, FL3)
    rejects(case, FL2, Reason.LEVEL, "PAD_V2")


def test_indices_are_refused():
    case = node("MaxPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], outputs=2)
    rejects(case, FL8, Reason.ATTRIBUTE, "Indices")


def test_four_dimensions_are_refused():
    case = node("MaxPool", f32(1, 2, 3, 3, 3, 3), kernel_shape=[2, 2, 2, 2])
    rejects(case, FL8, Reason.RANK, "use at most 3")
    accepts(node("MaxPool", f32(1, 2, 3, 3, 3), kernel_shape=[2, 2, 2]), FL8)


def test_windows_in_the_padding_are_refused():
    """Shape inference counts them, ONNX and ONNX Runtime do not."""
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    rejects(node("MaxPool", f32(1, 2, 6, 8), strides=[2, 3], **window), FL8, Reason.SHAPE, "after")
    accepts(node("MaxPool", f32(1, 2, 6, 7), strides=[2, 3], **window), FL8)


def test_windows_that_do_not_fit_are_refused():
    window = {"kernel_shape": [3, 3], "dilations": [1, 3]}
    accepts(node("MaxPool", f32(1, 2, 7, 7), **window), FL8)
    rejects(node("MaxPool", f32(1, 2, 7, 5), **window), FL8, Reason.SHAPE, "negative size")


def test_padding_of_windows_that_skip_elements_is_refused():
    """ONNX Runtime crops the image for LpPool, and fails for the others."""
    window = {"kernel_shape": [1, 1], "auto_pad": "SAME_UPPER"}
    accepts(node("LpPool", f32(1, 2, 8, 8), strides=[2, 2], **window), FL8)
    skipping = node("LpPool", f32(1, 2, 9, 9), strides=[3, 3], **window)
    rejects(skipping, FL8, Reason.ATTRIBUTE, "skip elements")


def test_other_norms_need_level_3():
    accepts(node("LpPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], p=2), FL1)
    accepts(node("LpPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], p=3), FL3)
    rejects(node("LpPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], p=3), FL2, Reason.LEVEL, "POW")


def test_any_number_but_0_counts_padding():
    """As in ONNX Runtime."""
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 5}
    matches(node("AveragePool", f32(1, 2, 5, 6), **window), FL8, atol=SUMS, oracle=on_cpu)
