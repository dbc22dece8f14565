"""Transposed convolutions, against each input element adding the filter in float64."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.transpose_conv_2d import MAX_GROUPS, transpose_convolve
from tests.operators.lib.emitting import Emitted, constant, emitted, floats, node, value, written


def transposed(
    x, w, b, *, strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0), output_padding=(0, 0), group=1
):
    """ONNX's definition in float64; x [N, C, H, W], w [C, O / group, kH, kW]."""
    sizes = [
        (i - 1) * s + (k - 1) * d + 1 + more
        for i, s, k, d, more in zip(
            x.shape[2:], strides, w.shape[2:], dilations, output_padding, strict=True
        )
    ]
    filters = w.shape[1]
    full = np.zeros((x.shape[0], filters * group, *sizes))
    for c, i, j in product(range(x.shape[1]), range(x.shape[2]), range(x.shape[3])):
        first = c // (x.shape[1] // group) * filters
        for k, m in product(range(w.shape[2]), range(w.shape[3])):
            row, column = i * strides[0] + k * dilations[0], j * strides[1] + m * dilations[1]
            added = np.outer(x[:, c, i, j].astype(np.float64), w[c, :, k, m])
            full[:, first : first + filters, row, column] += added
    top, left, bottom, right = pads
    cropped = full[:, :, top : sizes[0] - bottom, left : sizes[1] - right]
    return (cropped + b[:, None, None]).astype(np.float32)


def convolve(n, *values):
    yield from transpose_convolve(n, values[-1])


CASES = {
    "plain": ((2, 3, 3, 4), (3, 2, 2, 3), {}),
    "strides": ((1, 2, 3, 4), (2, 3, 3, 3), {"strides": (2, 3)}),
    "stride above the kernel": ((1, 1, 3, 3), (1, 1, 2, 2), {"strides": (3, 3)}),
    "pads": ((1, 2, 4, 4), (2, 3, 3, 3), {"strides": (2, 2), "pads": (1, 0, 1, 2)}),
    "dilations": ((1, 2, 3, 3), (2, 2, 2, 3), {"dilations": (3, 2)}),
    "output_padding": (
        (1, 2, 3, 3),
        (2, 1, 3, 3),
        {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)},
    ),
    "larger than the full result": (
        (1, 1, 2, 2),
        (1, 1, 2, 2),
        {"strides": (2, 2), "output_padding": (1, 1)},
    ),
    "groups": ((1, 4, 3, 3), (4, 2, 2, 2), {"group": 2}),
    "depthwise": ((1, 3, 3, 3), (3, 1, 2, 2), {"group": 3, "strides": (2, 2)}),
}


@pytest.mark.parametrize(("shape", "weights", "attributes"), CASES.values(), ids=CASES)
def test_matches(shape, weights, attributes) -> None:
    x, w = floats(*shape), floats(*weights)[::-1].copy()
    b = floats(weights[1] * attributes.get("group", 1))
    exact = transposed(x, w, b, **attributes)
    given = [constant(w), constant(b, name="b")]
    found = written(convolve, x, like=exact, constants=given, level=3, **attributes)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)  # sums in float32


def test_one_dimension_is_an_image_of_height_1() -> None:
    x, w = floats(2, 3, 5), floats(3, 4, 3)
    exact = transposed(
        x[:, :, None], w[:, :, None], np.zeros(4), strides=(1, 2), pads=(0, 1, 0, 0)
    )[:, :, 0]
    attributes = {"strides": (2,), "pads": (1, 0)}
    found = written(convolve, x, like=exact, constants=[constant(w)], **attributes)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)


def test_pads_follow_from_a_given_output_size() -> None:
    """Of an odd total, output_shape crops one more at the begin, SAME_UPPER at the end."""
    x, w = floats(1, 1, 3, 3), floats(1, 1, 3, 3)
    for given, pads in (
        ({"output_shape": (6, 6)}, (1, 1, 0, 0)),
        ({"auto_pad": "SAME_LOWER"}, (1, 1, 0, 0)),
        ({"auto_pad": "SAME_UPPER"}, (0, 0, 1, 1)),
        ({"auto_pad": "VALID"}, (0, 0, 0, 0)),
    ):
        exact = transposed(x, w, np.zeros(1), strides=(2, 2), pads=pads)
        attributes = {"strides": (2, 2), **given}
        found = written(convolve, x, like=exact, constants=[constant(w)], **attributes)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5, err_msg=str(given))


def lowered(shape, weights, out, **attributes: object) -> Emitted:
    x, w = value("x", np.zeros(shape, np.float32)), constant(np.zeros(weights, np.float32))
    y = value("y", np.zeros(out, np.float32))
    return emitted(transpose_convolve, node([x, w], [y], level=3, **attributes), y)


def test_groups_at_the_limit_and_past_it() -> None:
    def groups(count: int) -> Emitted:
        return lowered((1, count, 2, 2), (count, 1, 1, 1), (1, count, 2, 2), group=count)

    assert groups(MAX_GROUPS).names.count("TRANSPOSE_CONV_2D") == MAX_GROUPS
    with pytest.raises(Reject, match=f"group is {MAX_GROUPS + 1}; at most 64") as caught:
        groups(MAX_GROUPS + 1)
    assert caught.value.reason is Reason.SIZE


REFUSED = {
    "no group": ((1, 4, 3, 3), (4, 1, 1, 1), 0, Reason.ATTRIBUTE, "group is 0"),
    "channels": ((1, 4, 3, 3), (3, 1, 1, 1), 1, Reason.SHAPE, r"w of shape .* does not fit x"),
    "groups": ((1, 4, 3, 3), (4, 1, 1, 1), 3, Reason.SHAPE, "in 3 groups does not fit x"),
    "rank": ((1, 4, 3, 3, 3), (4, 1, 1, 1, 1), 1, Reason.RANK, "x has rank 5"),
    "ranks": ((1, 4, 3, 3), (4, 1, 1), 1, Reason.RANK, "two-dimensional"),
}


@pytest.mark.parametrize(("x", "w", "group", "reason", "says"), REFUSED.values(), ids=REFUSED)
def test_refused(x, w, group: int, reason: Reason, says: str) -> None:
    with pytest.raises(Reject, match=says) as caught:
        lowered(x, w, (1, 1, 3, 3), group=group)
    assert caught.value.reason is reason
