"""Pools of one to three dimensions in passes of two, against each window in float64."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import AVERAGE_POOL_2D, MAX_POOL_2D
from ep_nnapi.operators.lib.separable_pool import (
    AxisWindow,
    PoolPass,
    axis_windows,
    pool_passes,
    pooled,
    whole_image,
)
from tests.operators.lib.emitting import emitted, floats, node, value, written

WINDOWS = [
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


@pytest.mark.parametrize("axis", WINDOWS)
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
    padded, dilated = WINDOWS[4], WINDOWS[2]
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
    [WINDOWS[0]],
    [WINDOWS[3]],
    [WINDOWS[2]],
    [WINDOWS[0], WINDOWS[1]],
    [WINDOWS[3], WINDOWS[4]],
    [WINDOWS[2], WINDOWS[5]],
    [WINDOWS[4], WINDOWS[6], WINDOWS[0]],
    [WINDOWS[5], WINDOWS[3], WINDOWS[2]],
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
    a, b, c = WINDOWS[:3]
    (single,) = pool_passes([a], channels=4)
    assert (single.height, single.width) == (AxisWindow(4, 4), a)
    assert pool_passes([a, b], channels=4) == [PoolPass(a, b)]
    last_two, first = pool_passes([a, b, c], channels=4)
    assert last_two == PoolPass(b, c)
    image = b.out * c.out
    assert first == PoolPass(a, AxisWindow(image, image))
    with pytest.raises(Reject, match="the window has 4 dimensions; use at most 3") as caught:
        pool_passes([a] * 4, channels=4)
    assert caught.value.reason is Reason.RANK


def test_a_whole_image_needs_one() -> None:
    x = value("x", np.zeros((2, 3, 4, 5), np.float32))
    assert whole_image(x) == [AxisWindow(4, 1, 4), AxisWindow(5, 1, 5)]
    with pytest.raises(Reject, match="x has rank 2 and no image to pool") as caught:
        whole_image(value("x", np.zeros((2, 3), np.float32)))
    assert caught.value.reason is Reason.RANK


def windows_of(size: int, out: int, **attributes: object) -> list[AxisWindow]:
    x, y = (value(n, np.zeros((1, 1, s), np.float32)) for n, s in (("x", size), ("y", out)))
    return axis_windows(node([x], [y], **attributes), x, y)


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


def test_same_padding_of_windows_that_skip_elements() -> None:
    """At most one element behind the last window, which rounding leaves."""
    given = {"kernel_shape": (1,), "auto_pad": "SAME_UPPER"}
    assert windows_of(4, 2, **given, strides=(2,))
    with pytest.raises(Reject, match="auto_pad is SAME_UPPER of windows that skip") as caught:
        windows_of(6, 2, **given, strides=(3,))
    assert caught.value.reason is Reason.ATTRIBUTE


def test_input_and_output_are_both_quantized_or_neither() -> None:
    x = Value("x", DType.UINT8, (1, 1, 4, 4), Quantization((0.5,), (0,)))
    y = Value("y", DType.FLOAT, (1, 1, 4, 4))
    window = [AxisWindow(4, 4), AxisWindow(4, 4)]
    with pytest.raises(Reject, match="of x and y only one is quantized") as caught:
        emitted(lambda n: pooled(n, MAX_POOL_2D, x, window, y), node([x], [y]))
    assert caught.value.reason is Reason.QUANTIZATION
