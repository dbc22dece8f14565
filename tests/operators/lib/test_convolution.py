"""Windows as NNAPI's operands, and convolutions against sums of products in float64."""

from itertools import product

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.convolution import (
    MAX_GROUPS,
    Pads,
    Window,
    convolve,
    pads,
    planar,
    same_pads,
    window,
)
from tests.operators.lib.emitting import Emitted, constant, emitted, floats, node, value, written

IMAGE = value("x", floats(1, 2, 7, 8))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "expected"),
    [(7, 3, 1, (1, 1)), (7, 2, 1, (0, 1)), (7, 3, 2, (1, 1)), (8, 3, 2, (0, 1)), (4, 1, 3, (0, 0))],
)
def test_same_padding_gives_the_size_divided_by_the_stride(size, kernel, stride, expected):
    assert same_pads(size, kernel, stride, 1, upper=True) == expected
    assert same_pads(size, kernel, stride, 1, upper=False) == expected[::-1]
    assert (size + sum(expected) - kernel) // stride + 1 == -(-size // stride)


def test_implicit_padding_is_preferred_where_it_is_the_same():
    same = Window((3, 3), (1, 1), (1, 1), Pads(1, 1, 1, 1), (7, 8))
    assert same.operands()["padding"] == PaddingCode.SAME
    valid = Window((3, 3), (2, 1), (1, 1), Pads(), (7, 8))
    assert valid.operands() == {"padding": PaddingCode.VALID, "stride_width": 1, "stride_height": 2}


@pytest.mark.parametrize("dilations", [(1, 1), (2, 2)])
def test_other_padding_is_explicit(dilations: tuple[int, int]):
    found = Window((3, 3), (1, 1), dilations, Pads(0, 1, 2, 0), (7, 8)).operands()
    sides = [found[f"padding_{side}"] for side in ("left", "right", "top", "bottom")]
    assert sides == [0, 1, 2, 0]


def test_pads_of_a_node_are_in_the_order_of_onnx():
    n = node([IMAGE], pads=(1, 2, 3, 4))
    assert window(n, (3, 3)).pads == Pads(left=2, right=4, top=1, bottom=3)
    assert pads(node([IMAGE], auto_pad="VALID"), (7, 8), (3, 3), (1, 1), (1, 1)) == (0,) * 4


def test_a_window_of_one_dimension_has_height_1():
    n = node([value("x", floats(1, 2, 9))], strides=(2,), pads=(1, 0))
    assert window(n, (3,)) == Window((1, 3), (1, 2), (1, 1), Pads(left=1), (1, 9))
    assert planar((5,), 0) == (0, 5)


def test_three_dimensions_are_refused():
    with pytest.raises(Reject, match="x has rank 5") as caught:
        window(node([value("x", floats(1, 1, 2, 2, 2))]), (2, 2, 2))
    assert caught.value.reason is Reason.RANK


def test_negative_pads_are_refused():
    with pytest.raises(Reject, match="pads") as caught:
        window(node([IMAGE], pads=(0, -1, 0, 0)), (3, 3))
    assert caught.value.reason is Reason.ATTRIBUTE


def convolved(x, w, b, *, strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0), group=1):
    """ONNX's definition in float64; x [N, C, H, W], w [O, C / group, kH, kW]."""
    top, left, bottom, right = pads
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    high, wide = ((k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True))
    rows = (padded.shape[2] - high) // strides[0] + 1
    columns = (padded.shape[3] - wide) // strides[1] + 1
    y = np.empty((x.shape[0], w.shape[0], rows, columns))
    channels, filters = x.shape[1] // group, w.shape[0] // group
    for o, r, c in product(range(w.shape[0]), range(rows), range(columns)):
        first = o // filters * channels
        top, left = r * strides[0], c * strides[1]
        patch = padded[
            :,
            first : first + channels,
            top : top + high : dilations[0],
            left : left + wide : dilations[1],
        ]
        y[:, o, r, c] = (patch * w[o]).sum(axis=(1, 2, 3)) + b[o]
    return y.astype(np.float32)


def conv(n, *values):
    yield from convolve(n, values[-1])


CASES = {
    "plain": ((2, 3, 5, 6), (4, 3, 3, 2), {}),
    "strides": ((1, 2, 7, 8), (3, 2, 3, 3), {"strides": (2, 3)}),
    "pads": ((1, 2, 5, 5), (3, 2, 3, 3), {"pads": (1, 2, 0, 1)}),
    "same": ((1, 2, 5, 5), (3, 2, 3, 3), {"pads": (1, 1, 1, 1)}),
    "dilations": ((1, 2, 7, 8), (3, 2, 2, 3), {"dilations": (3, 2)}),
    "depthwise": ((1, 3, 5, 5), (3, 1, 3, 3), {"group": 3}),
    "depthwise, two filters each": ((1, 3, 5, 5), (6, 1, 3, 3), {"group": 3}),
    "depthwise and dilated": ((1, 3, 7, 7), (3, 1, 3, 3), {"group": 3, "dilations": (2, 2)}),
    "groups": ((1, 4, 5, 5), (6, 2, 3, 3), {"group": 2}),
    "groups and dilated": ((1, 4, 7, 7), (4, 2, 3, 3), {"group": 2, "dilations": (2, 2)}),
    "one pixel": ((1, 1, 1, 1), (1, 1, 1, 1), {}),
}


@pytest.mark.parametrize("level", [2, 3, 8])
@pytest.mark.parametrize(("shape", "weights", "attributes"), CASES.values(), ids=CASES)
def test_matches(shape, weights, attributes, level: int) -> None:
    x, w, b = floats(*shape), floats(*weights)[::-1].copy(), floats(weights[0])
    exact = convolved(x, w, b, **attributes)
    given = [constant(w), constant(b, name="b")]
    found = written(conv, x, like=exact, constants=given, level=level, **attributes)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)  # sums in float32


def test_one_dimension_is_an_image_of_height_1() -> None:
    x, w = floats(2, 3, 9), floats(4, 3, 3)
    exact = convolved(
        x[:, :, None], w[:, :, None], np.zeros(4), strides=(1, 2), dilations=(1, 2), pads=(0, 1) * 2
    )[:, :, 0]
    attributes = {"strides": (2,), "dilations": (2,), "pads": (1, 1)}
    found = written(conv, x, like=exact, constants=[constant(w)], **attributes)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)


def lowered(shape, weights, out, *, level: int = 8, **attributes: object) -> Emitted:
    x, w = value("x", np.zeros(shape, np.float32)), constant(np.zeros(weights, np.float32))
    y = value("y", np.zeros(out, np.float32))
    return emitted(convolve, node([x, w], [y], level=level, **attributes), y)


@pytest.mark.parametrize(
    ("group", "dilations", "level", "operations"),
    [
        (1, (1, 1), 1, ["CONV_2D"]),
        (1, (2, 2), 3, ["CONV_2D"]),
        (4, (1, 1), 1, ["DEPTHWISE_CONV_2D"]),
        (4, (2, 2), 3, ["DEPTHWISE_CONV_2D"]),
        (2, (1, 1), 3, ["GROUPED_CONV_2D"]),
        (2, (2, 2), 3, ["GROUPED_CONV_2D"]),  # which has no dilation: zeros in the filter
    ],
)
def test_one_operation_where_the_level_has_it(group, dilations, level, operations) -> None:
    side = 7 - 2 * dilations[0]
    attributes = {"group": group, "dilations": dilations}
    made = lowered(
        (1, 4, 7, 7), (4, 4 // group, 3, 3), (1, 4, side, side), level=level, **attributes
    )
    assert made.names == operations


def test_below_level_3_dilated_filters_get_zeros_and_groups_an_operation_each() -> None:
    (call,) = lowered((1, 1, 7, 7), (1, 1, 3, 3), (1, 1, 3, 3), level=2, dilations=(2, 2)).calls
    assert call.named()["filter"].value.shape == (1, 1, 5, 5)
    made = lowered((1, 4, 7, 7), (4, 2, 3, 3), (1, 4, 5, 5), level=2, group=2)
    assert made.names.count("CONV_2D") == 2
    assert made.names[-1] == "CONCATENATION"


def groups(count: int) -> Emitted:
    shape, weights = (1, 2 * count, 1, 1), (2 * count, 2, 1, 1)
    return lowered(shape, weights, shape, level=2, group=count)


def test_groups_at_the_limit_and_past_it() -> None:
    assert groups(MAX_GROUPS).names.count("CONV_2D") == MAX_GROUPS
    with pytest.raises(Reject, match=f"group is {MAX_GROUPS + 1}; .* at most 64") as caught:
        groups(MAX_GROUPS + 1)
    assert caught.value.reason is Reason.SIZE


REFUSED = {
    "no group": ((1, 4, 3, 3), (4, 4, 1, 1), (1, 4, 3, 3), 0, Reason.ATTRIBUTE, "group is 0"),
    "channels": (
        (1, 4, 3, 3),
        (4, 3, 1, 1),
        (1, 4, 3, 3),
        1,
        Reason.SHAPE,
        r"w of shape \[4, 3, 1, 1\] in 1 groups does not fit x of shape \[1, 4, 3, 3\]",
    ),
    "filters": ((1, 4, 3, 3), (3, 2, 1, 1), (1, 3, 3, 3), 2, Reason.SHAPE, "does not fit x"),
    "output": (
        (1, 4, 3, 3),
        (2, 4, 1, 1),
        (1, 4, 3, 3),
        1,
        Reason.SHAPE,
        r"y is declared as \[1, 4, 3, 3\]; Conv computes \[1, 2\], ...",
    ),
    "rank": ((1, 4, 3, 3, 3), (2, 4, 1, 1, 1), (1, 2, 3, 3, 3), 1, Reason.RANK, "x has rank 5"),
}


@pytest.mark.parametrize(("x", "w", "y", "group", "reason", "says"), REFUSED.values(), ids=REFUSED)
def test_refused(x, w, y, group: int, reason: Reason, says: str) -> None:
    with pytest.raises(Reject, match=says) as caught:
        lowered(x, w, y, group=group)
    assert caught.value.reason is reason
