"""Pools of one to three dimensions, against ONNX's reference and each window in float64."""

from itertools import product

import numpy as np
import pytest

from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import AVERAGE_POOL_2D, MAX_POOL_2D
from ep_nnapi.operators.pooling import (
    AxisWindow,
    PoolPass,
    axis_windows,
    pool_passes,
    pooled,
    whole_image,
)
from tests.operators.lib import emitting
from tests.operators.lib.emitting import floats, value, written
from tests.oracle import FL, NCHW3, accepts, emitted, f16, f32, matches, node, on_cpu, rejects

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
    matches(node("MaxPool", f32(*shape), **attributes), FL[8], oracle=on_cpu)


@pytest.mark.parametrize("padding_counts", [0, 1])
@pytest.mark.parametrize("window", EVERY)
def test_average_pool_matches(window, padding_counts):
    shape, attributes = EVERY[window]
    case = node("AveragePool", f32(*shape), count_include_pad=padding_counts, **attributes)
    matches(case, FL[8], atol=SUMS, oracle=on_cpu)


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
    matches(case, FL[8], atol=SUMS, oracle=on_cpu)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("window", EVERY)
def test_lp_pool_matches(window, p):
    shape, attributes = EVERY[window]
    case = node("LpPool", f32(*shape), p=p, **attributes)
    matches(case, FL[8], rtol=1e-5, oracle=on_cpu)  # x^p in float32


@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 5), (2, 3, 2, 3, 4)])
@pytest.mark.parametrize("target", [FL[1], FL[8], NCHW3])
@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pools_match(op_type, target, shape):
    matches(node(op_type, f32(*shape)), target, atol=SUMS, rtol=SUMS, oracle=on_cpu)


@pytest.mark.parametrize("p", [1, 3])
def test_global_norms_match(p):
    matches(node("GlobalLpPool", f32(2, 3, 4, 5), p=p), FL[8], rtol=1e-5, oracle=on_cpu)


@pytest.mark.parametrize("opset", [7, 10, 11, 19, 22])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_every_opset_matches(op_type, opset):
    case = node(op_type, f32(1, 2, 7, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1], opset=opset)
    matches(case, FL[8], atol=SUMS, oracle=on_cpu)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "GlobalAveragePool"])
def test_halves_and_nchw_match(op_type):
    window = {} if op_type.startswith("Global") else {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    matches(node(op_type, f32(1, 2, 7, 8), **window), NCHW3, atol=SUMS, oracle=on_cpu)
    matches(node(op_type, f16(1, 2, 7, 8), **window), FL[3], atol=HALVES)


def test_windows_are_one_operation_at_level_1():
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    assert emitted(node("MaxPool", f32(1, 2, 8, 8), **window), FL[1]) == ["MAX_POOL_2D"]
    assert emitted(node("AveragePool", f32(1, 2, 8, 8), **window), FL[1]) == ["AVERAGE_POOL_2D"]
    counting = node("AveragePool", f32(1, 2, 8, 8), count_include_pad=1, **window)
    assert emitted(counting, FL[1]) == ["AVERAGE_POOL_2D", "MUL"]


def test_global_average_is_a_reduction_where_the_level_has_it():
    case = node("GlobalAveragePool", f32(1, 2, 8, 8))
    assert emitted(case, FL[1]) == ["AVERAGE_POOL_2D"]
    assert emitted(case, FL[2]) == ["MEAN"]


@pytest.mark.parametrize("more", [{}, {"dilations": [2, 2]}])
def test_padding_is_below_every_number(more):
    least = np.full((1, 1, 4, 4), np.finfo(np.float32).min, np.float32)
    case = node("MaxPool", f32(1, 1, 4, 4), kernel_shape=[2, 2], pads=[1, 1, 1, 1], **more)
    matches(case, FL[8], feeds={"x0": least}, oracle=on_cpu)


def test_one_dimension_is_not_transposed():
    case = node("MaxPool", f32(2, 3, 9), kernel_shape=[3])
    assert emitted(case, FL[1]) == ["RESHAPE", "MAX_POOL_2D", "RESHAPE"]


def test_dilations_need_level_3():
    case = node("MaxPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], dilations=[2, 2], pads=[1] * 4)
    accepts(case, FL[3])
    rejects(case, FL[2], Reason.LEVEL, "PAD_V2")


def test_indices_are_refused():
    case = node("MaxPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], outputs=2)
    rejects(case, FL[8], Reason.ATTRIBUTE, "Indices")


def test_four_dimensions_are_refused():
    case = node("MaxPool", f32(1, 2, 3, 3, 3, 3), kernel_shape=[2, 2, 2, 2])
    rejects(case, FL[8], Reason.RANK, "the window has 4 dimensions; use at most 3")
    accepts(node("MaxPool", f32(1, 2, 3, 3, 3), kernel_shape=[2, 2, 2]), FL[8])


def test_windows_in_the_padding_are_refused():
    """Shape inference counts them, ONNX and ONNX Runtime do not."""
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    rejects(
        node("MaxPool", f32(1, 2, 6, 8), strides=[2, 3], **window), FL[8], Reason.SHAPE, "after"
    )
    accepts(node("MaxPool", f32(1, 2, 6, 7), strides=[2, 3], **window), FL[8])


def test_windows_that_do_not_fit_are_refused():
    window = {"kernel_shape": [3, 3], "dilations": [1, 3]}
    accepts(node("MaxPool", f32(1, 2, 7, 7), **window), FL[8])
    rejects(node("MaxPool", f32(1, 2, 7, 5), **window), FL[8], Reason.SHAPE, "negative size")


def test_padding_of_windows_that_skip_elements_is_refused():
    """ONNX Runtime crops the image for LpPool, and fails for the others."""
    window = {"kernel_shape": [1, 1], "auto_pad": "SAME_UPPER"}
    accepts(node("LpPool", f32(1, 2, 8, 8), strides=[2, 2], **window), FL[8])
    skipping = node("LpPool", f32(1, 2, 9, 9), strides=[3, 3], **window)
    rejects(
        skipping, FL[8], Reason.ATTRIBUTE, "auto_pad is SAME_UPPER of windows that skip elements"
    )


def test_other_norms_need_level_3():
    accepts(node("LpPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], p=2), FL[1])
    accepts(node("LpPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], p=3), FL[3])
    rejects(node("LpPool", f32(1, 2, 8, 8), kernel_shape=[2, 2], p=3), FL[2], Reason.LEVEL, "POW")


def test_any_number_but_0_counts_padding():
    """As in ONNX Runtime."""
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 5}
    matches(node("AveragePool", f32(1, 2, 5, 6), **window), FL[8], atol=SUMS, oracle=on_cpu)


AXIS_WINDOWS = [
    AxisWindow(7, 5, 3),
    AxisWindow(7, 3, 3, stride=2),
    AxisWindow(7, 3, 3, dilation=2),
    AxisWindow(6, 4, 3, stride=2, before=1, after=2, padded=1),
    AxisWindow(5, 5, 3, before=1, after=1, padded=1),
    AxisWindow(5, 3, 2, dilation=3, before=1, after=0),
    AxisWindow(4, 2, 2, stride=3, after=1, padded=0),
]


def taps(axis: AxisWindow, position: int) -> list[int]:
    """Indexes of a window's elements, which may be before or behind the image."""
    begin = position * axis.stride - axis.before
    return [begin + k * axis.dilation for k in range(axis.kernel)]


@pytest.mark.parametrize("axis", AXIS_WINDOWS)
def test_elements_are_counted(axis: AxisWindow) -> None:
    spans = [taps(axis, i) for i in range(axis.out)]
    assert axis.extent == spans[0][-1] - spans[0][0] + 1
    inside = [sum(0 <= t < axis.size for t in span) for span in spans]
    assert axis.taps_in_image().tolist() == inside
    end = axis.size + axis.padded
    padded = [sum(-axis.before <= t < end for t in span) for span in spans]
    assert axis.taps_in_padded_image().tolist() == padded


def test_nnapi_averages_the_image_but_all_of_a_dilated_window() -> None:
    """Explicit padding is part of a dilated window."""
    padded, dilated = AXIS_WINDOWS[4], AXIS_WINDOWS[2]
    height, width = PoolPass(padded, padded).averaged_counts()
    assert height.tolist() == width.tolist() == [2, 3, 3, 3, 2]
    height, width = PoolPass(padded, dilated).averaged_counts()
    assert (height.tolist(), width.tolist()) == ([3] * 5, [3] * 3)


def by_windows(reduce, x: np.ndarray, windows: list[AxisWindow]) -> np.ndarray:
    """Each window's elements inside the image, reduced."""
    y = np.empty((*x.shape[:2], *(w.out for w in windows)), np.float32)
    for position in product(*(range(w.out) for w in windows)):
        inside = [
            [t for t in taps(w, i) if 0 <= t < w.size]
            for w, i in zip(windows, position, strict=True)
        ]
        block = x.astype(np.float64)[np.ix_(*map(range, x.shape[:2]), *inside)]
        y[(..., *position)] = reduce(block, axis=tuple(range(2, x.ndim)))
    return y


def average_of_the_image(p: PoolPass) -> tuple[np.ndarray, np.ndarray]:
    """Factors of an average without padding."""
    counts = (p.height.taps_in_image(), p.width.taps_in_image())
    height, width = (a / c for a, c in zip(p.averaged_counts(), counts, strict=True))
    return height, width


IMAGES = [
    [AXIS_WINDOWS[0]],
    [AXIS_WINDOWS[3]],
    [AXIS_WINDOWS[2]],
    [AXIS_WINDOWS[0], AXIS_WINDOWS[1]],
    [AXIS_WINDOWS[3], AXIS_WINDOWS[4]],
    [AXIS_WINDOWS[2], AXIS_WINDOWS[5]],
    [AXIS_WINDOWS[4], AXIS_WINDOWS[6], AXIS_WINDOWS[0]],
    [AXIS_WINDOWS[5], AXIS_WINDOWS[3], AXIS_WINDOWS[2]],
]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("windows", IMAGES, ids=len)
def test_pools_match(windows: list[AxisWindow], channels: int) -> None:
    x = floats(2, channels, *(w.size for w in windows))
    exact = by_windows(np.max, x, windows)
    found = written(lambda n, x, y: pooled(n, MAX_POOL_2D, x, windows, y), x, like=exact)
    np.testing.assert_array_equal(found, exact)
    exact = by_windows(np.mean, x, windows)
    found = written(
        lambda n, x, y: pooled(n, AVERAGE_POOL_2D, x, windows, y, average_of_the_image),
        x,
        like=exact,
    )
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)  # two roundings a pass


def test_passes_take_two_axes_each() -> None:
    a, b, c = AXIS_WINDOWS[:3]
    (single,) = pool_passes([a], channels=4)
    assert (single.height, single.width) == (AxisWindow(4, 4), a)
    assert pool_passes([a, b], channels=4) == [PoolPass(a, b)]
    last_two, first = pool_passes([a, b, c], channels=4)
    assert last_two == PoolPass(b, c)
    image = b.out * c.out
    assert first == PoolPass(a, AxisWindow(image, image))


def test_a_whole_image_needs_one() -> None:
    x = value("x", np.zeros((2, 3, 4, 5), np.float32))
    assert whole_image(x) == [AxisWindow(4, 1, 4), AxisWindow(5, 1, 5)]
    with pytest.raises(Reject, match="x has rank 2 and no image to pool") as caught:
        whole_image(value("x", np.zeros((2, 3), np.float32)))
    assert caught.value.reason is Reason.RANK


def windows_of(size: int, out: int, **attributes: object) -> list[AxisWindow]:
    x, y = (value(n, np.zeros((1, 1, s), np.float32)) for n, s in (("x", size), ("y", out)))
    return axis_windows(emitting.node([x], [y], **attributes), x, y)


def test_attributes_of_a_window() -> None:
    given = {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0)}
    assert windows_of(6, 3, **given) == [AxisWindow(6, 3, 3, 2, 1, 1, 0, 0)]
    ceil = windows_of(6, 4, **given, ceil_mode=1)
    assert ceil == [AxisWindow(6, 4, 3, 2, 1, 1, 2, 0)]  # two elements that are no padding


REFUSED = {
    "ceil_mode": (5, 3, {"ceil_mode": 2}, Reason.ATTRIBUTE, "ceil_mode is 2; ONNX has 0 and 1"),
    "kernel_shape": (5, 3, {"kernel_shape": (3, 3)}, Reason.ATTRIBUTE, r"\[3, 3\] for x of rank 3"),
    "too large": (2, 0, {}, Reason.SHAPE, r"a window of \[3\] does not fit x"),
    "behind the image": (
        6,
        4,
        {"strides": (3,), "pads": (0, 9), "kernel_shape": (1,)},
        Reason.SHAPE,
        r"y has shape \[1, 1, 4\], of which windows begin after the image",
    ),
}


@pytest.mark.parametrize(("size", "out", "given", "reason", "says"), REFUSED.values(), ids=REFUSED)
def test_windows_that_onnx_or_nnapi_lacks(size, out, given, reason, says) -> None:
    attributes = {"kernel_shape": (3,), **given}
    with pytest.raises(Reject, match=says) as caught:
        windows_of(size, out, **attributes)
    assert caught.value.reason is reason


def test_input_and_output_are_both_quantized_or_neither() -> None:
    x = Value("x", DType.UINT8, (1, 1, 4, 4), Quantization((0.5,), (0,)))
    y = Value("y", DType.FLOAT, (1, 1, 4, 4))
    window = [AxisWindow(4, 4), AxisWindow(4, 4)]
    with pytest.raises(Reject, match="of x and y only one is quantized") as caught:
        emitting.emitted(lambda n: pooled(n, MAX_POOL_2D, x, window, y), emitting.node([x], [y]))
    assert caught.value.reason is Reason.QUANTIZATION
