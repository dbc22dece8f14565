"""Convolutions, and transposed ones against each input element adding the filter."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.convolution import MAX_GROUPS, transpose_convolve
from tests.operators.lib import emitting
from tests.operators.lib.emitting import Emitted, constant, floats, value, written
from tests.oracle import FL, NCHW3, accepts, emitted, f16, f32, matches, node, on_cpu, rejects

SUMS = {"atol": 2e-5, "rtol": 1e-5, "oracle": on_cpu}
# sums of at most 72 float32 products below 4, in another order; the evaluator takes seconds
HALVES = 5e-2  # one rounding to float16 of a number below 64
RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.uniform(-2, 2, shape).astype(np.float32)


# name -> x, w, attributes
PLAIN = {
    "1x1": ((1, 4, 5, 6), (3, 4, 1, 1), {}),
    "3x3": ((2, 4, 7, 8), (3, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strides": ((2, 4, 9, 10), (3, 4, 3, 2), {"strides": [2, 3]}),
    "pads": ((1, 2, 7, 8), (3, 2, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "same upper": ((1, 2, 7, 8), (3, 2, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((1, 2, 7, 8), (3, 2, 3, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "valid": ((1, 2, 7, 8), (3, 2, 3, 4), {"auto_pad": "VALID"}),
}
DEPTHWISE = {
    "depthwise": ((1, 4, 7, 8), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "multiplied": ((1, 4, 7, 8), (8, 1, 3, 3), {"group": 4}),
}
GROUPED = {
    "grouped": ((1, 4, 7, 8), (6, 2, 3, 3), {"group": 2}),
    "grouped, 3": ((2, 6, 5, 5), (3, 2, 3, 3), {"group": 3, "strides": [2, 2]}),
}
DILATED = {
    "dilated": ((1, 2, 9, 9), (3, 2, 3, 3), {"dilations": [2, 3]}),
    "dilated depthwise": ((1, 4, 9, 9), (4, 1, 3, 3), {"group": 4, "dilations": [2, 2]}),
    "dilated groups": ((1, 4, 9, 9), (4, 2, 3, 3), {"group": 2, "dilations": [2, 2]}),
}
LINES = {
    "line": ((2, 4, 9), (3, 4, 3), {"pads": [1, 1]}),
    "strided line": ((2, 4, 9), (3, 4, 3), {"strides": [2], "auto_pad": "SAME_LOWER"}),
    "depthwise line": ((2, 4, 9), (4, 1, 3), {"group": 4}),
    "dilated line": ((2, 4, 9), (3, 4, 3), {"dilations": [3]}),
}
# padding as large as the kernel, which NNAPI refuses
WIDE = {
    "1x1 padded": ((1, 4, 5, 6), (3, 4, 1, 1), {"pads": [1, 1, 1, 1]}),
    "padded beyond": ((1, 4, 5, 6), (3, 4, 3, 3), {"pads": [3, 0, 1, 4], "strides": [2, 1]}),
    "padded depthwise": ((1, 4, 5, 6), (4, 1, 2, 2), {"group": 4, "pads": [2, 2, 2, 2]}),
    "padded dilated": ((1, 2, 9, 9), (3, 2, 3, 3), {"dilations": [2, 2], "pads": [5, 0, 0, 0]}),
    "padded line": ((2, 4, 9), (3, 4, 3), {"pads": [0, 3]}),
}
ALL = PLAIN | DEPTHWISE | GROUPED | DILATED | LINES | WIDE


@pytest.mark.parametrize("target", [FL[2], FL[3], NCHW3, FL[8]], ids=["2", "3", "NCHW", "8"])
@pytest.mark.parametrize(("x", "w", "attributes"), ALL.values(), ids=ALL)
def test_conv_matches(x, w, attributes, target):
    matches(node("Conv", f32(*x), drawn(*w), drawn(w[0]), **attributes), target, **SUMS)


@pytest.mark.parametrize("opset", [8, 11, 22])
def test_conv_of_every_opset_matches(opset):
    x, w, attributes = PLAIN["pads"]
    matches(node("Conv", f32(*x), drawn(*w), opset=opset, **attributes), FL[1], **SUMS)


@pytest.mark.parametrize("name", ["3x3", "depthwise", "grouped", "line"])
def test_conv_by_a_computed_filter_matches(name):
    x, w, attributes = ALL[name]
    matches(node("Conv", f32(*x), f32(*w), f32(w[0]), **attributes), FL[3], **SUMS)


@pytest.mark.parametrize("name", ["3x3", "depthwise", "grouped"])
def test_conv_of_halves_matches(name):
    x, w, attributes = ALL[name]
    halves = drawn(*w).astype(np.float16), drawn(w[0]).astype(np.float16)
    case = node("Conv", f16(*x), *halves, **attributes)
    # the formula in float32: the CPU provider has float16 kernels of its own on some processors
    floats = node("Conv", f32(*x), *(a.astype(np.float32) for a in halves), **attributes)
    feeds = {name: a.astype(np.float32) for name, a in case.draw(0).items()}
    want = [y.astype(np.float16) for y in on_cpu(floats.model, feeds)]
    matches(case, FL[3], atol=HALVES, reference=want)


def conv(name):
    x, w, attributes = ALL[name]
    return node("Conv", f32(*x), drawn(*w), **attributes)


def test_conv_takes_the_cheapest_form():
    assert emitted(conv("3x3"), FL[1]) == ["CONV_2D"]
    assert emitted(conv("depthwise"), FL[1]) == ["DEPTHWISE_CONV_2D"]
    assert emitted(conv("grouped"), FL[3]) == ["GROUPED_CONV_2D"]
    assert emitted(conv("grouped"), FL[2]).count("CONV_2D") == 2
    assert emitted(conv("dilated"), FL[1]) == ["CONV_2D"]
    assert emitted(conv("dilated groups"), FL[3]) == ["GROUPED_CONV_2D"]


WIDEST = {FL[1]: 1024, FL[2]: 2048, FL[3]: 4832}


def depthwise(channels, size=3, multiplier=1, **attributes):
    taps, shift = drawn(channels * multiplier, 1, 2, 2), drawn(channels * multiplier)
    return node("Conv", f32(1, channels, size, size), taps, shift, group=channels, **attributes)


@pytest.mark.parametrize("target", WIDEST, ids=lambda t: t.feature_level)
def test_depthwise_channels_are_split_where_androids_kernel_never_ends(target):
    most = WIDEST[target]
    assert emitted(depthwise(most), target) == ["DEPTHWISE_CONV_2D"]
    wide = depthwise(most + 1)
    if target == FL[1]:  # has nothing that takes a part of the channels
        rejects(wide, target, Reason.LEVEL, "of 1025 channels, which earlier kernels of Android's")
    else:
        assert emitted(wide, target).count("DEPTHWISE_CONV_2D") == 2
        matches(wide, target, **SUMS)
    many = depthwise(8 * most + 1, size=2)
    rejects(many, target, Reason.LEVEL, f"of {8 * most + 1} channels")
    profiled = replace(target, profiled=True)
    assert emitted(wide, profiled) == emitted(wide, FL[8]) == ["DEPTHWISE_CONV_2D"]


@pytest.mark.parametrize("target", [FL[2], NCHW3], ids=["2", "NCHW"])
def test_parts_of_depthwise_channels_match(target):
    wide = depthwise(2500, multiplier=2, pads=[1, 0, 1, 0], strides=[2, 1])
    assert emitted(wide, target).count("DEPTHWISE_CONV_2D") == (4 if target == FL[2] else 2)
    matches(wide, target, **SUMS)


def test_dilation_is_an_operand_where_the_level_has_it():
    for level, taps in ((FL[2], 5 * 7), (FL[3], 3 * 3)):
        (judged,) = accepts(conv("dilated"), level)
        taken = judged.calls[0].named()["filter"]
        assert taken.shape[1] * taken.shape[2] == taps


def test_padding_below_the_dilated_kernel_needs_no_operation():
    """At the limit, and just past it."""
    for pads, names in (([4, 4, 4, 4], ["CONV_2D"]), ([4, 4, 4, 5], ["PAD", "CONV_2D"])):
        given = node("Conv", f32(1, 2, 9, 9), drawn(3, 2, 3, 3), dilations=[2, 2], pads=pads)
        assert emitted(given, FL[3]) == names
    rejects(conv("1x1 padded"), FL[1], Reason.LEVEL, "PAD needs feature level 2")


def test_conv_refusals():
    solid = node("Conv", f32(1, 2, 5, 5, 5), drawn(3, 2, 3, 3, 3))
    rejects(solid, FL[8], Reason.RANK, "x0 has rank 5")
    rejects(conv("grouped"), FL[1], Reason.LEVEL, "STRIDED_SLICE")
    rejects(conv("line"), FL[1], Reason.LEVEL, "TRANSPOSE")
    many = node("Conv", f32(1, 130, 5, 5), drawn(130, 2, 3, 3), group=65)
    accepts(many, FL[3])
    rejects(many, FL[2], Reason.SIZE, "group is 65")
    dynamic = node("Conv", f32(1, 2, 9, 9), f32(3, 2, 3, 3), dilations=[2, 2])
    accepts(dynamic, FL[3])
    rejects(dynamic, FL[2], Reason.CONSTANT, "x1 must be constant")


TRANSPOSED = {
    "plain": ((1, 4, 5, 6), (4, 3, 3, 3), {}),
    "doubled": ((2, 4, 5, 6), (4, 3, 2, 2), {"strides": [2, 2]}),
    "pads": ((1, 2, 5, 6), (2, 3, 4, 3), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "more": ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [2, 2], "output_padding": [1, 1]}),
    "more, cut": (
        (1, 2, 5, 6),
        (2, 3, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    "shape": ((1, 2, 5, 6), (2, 3, 3, 3), {"strides": [2, 2], "output_shape": [10, 12]}),
    "odd shape": ((1, 2, 5, 6), (2, 3, 4, 4), {"strides": [2, 2], "output_shape": [9, 13]}),
    "larger shape": ((1, 2, 3, 3), (2, 3, 2, 2), {"strides": [3, 3], "output_shape": [10, 9]}),
    "same upper": ((1, 2, 5, 6), (2, 3, 3, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "same lower": ((1, 2, 5, 6), (2, 3, 3, 4), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "valid": ((1, 2, 5, 6), (2, 3, 3, 3), {"auto_pad": "VALID"}),
    "gaps": ((1, 2, 4, 4), (2, 3, 1, 1), {"strides": [3, 3]}),
    "dilated": ((1, 2, 5, 6), (2, 3, 3, 3), {"dilations": [2, 3]}),
    "groups": ((1, 4, 5, 6), (4, 3, 3, 3), {"group": 2}),
    "depthwise": ((1, 3, 5, 6), (3, 1, 4, 4), {"group": 3, "strides": [2, 2]}),
    "line": ((2, 4, 9), (4, 3, 4), {"strides": [2], "pads": [1, 1]}),
}


@pytest.mark.parametrize("target", [FL[3], NCHW3, FL[8]], ids=["3", "NCHW", "8"])
@pytest.mark.parametrize(("x", "w", "attributes"), TRANSPOSED.values(), ids=TRANSPOSED)
def test_conv_transpose_matches(x, w, attributes, target):
    channels = w[1] * attributes.get("group", 1)
    case = node("ConvTranspose", f32(*x), drawn(*w), drawn(channels), **attributes)
    matches(case, target, **SUMS)


@pytest.mark.parametrize("opset", [1, 11, 22])
def test_conv_transpose_without_bias_matches(opset):
    case = node("ConvTranspose", f32(1, 4, 5, 6), drawn(4, 3, 2, 2), opset=max(opset, 8))
    matches(case, FL[3], **SUMS)


def test_conv_transpose_by_a_computed_filter_matches():
    matches(node("ConvTranspose", f32(1, 4, 5, 6), f32(4, 3, 2, 2)), FL[3], **SUMS)


@pytest.mark.parametrize("shape", [(), (2,), (4, 1)])
@pytest.mark.parametrize(
    ("op_type", "filters"), [("Conv", (4, 1, 3, 3)), ("ConvTranspose", (2, 2, 3, 3))]
)
def test_a_bias_of_another_shape_is_refused(op_type, filters, shape):
    """Shape inference does not look at it."""
    case = node(op_type, f32(1, 2, 5, 6), drawn(*filters), drawn(*shape), group=2)
    rejects(case, FL[8], Reason.SHAPE, f"x2 is {list(shape)}; the bias of x1 is [4]")


def test_conv_transpose_refusals():
    x, w = f32(1, 2, 5, 6), drawn(2, 3, 3, 3)
    plain = node("ConvTranspose", x, w)
    assert emitted(plain, FL[3]) == ["TRANSPOSE_CONV_2D"]
    rejects(plain, FL[2], Reason.LEVEL, "TRANSPOSE_CONV_2D")
    solid = node("ConvTranspose", f32(1, 2, 5, 5, 5), drawn(2, 3, 3, 3, 3))
    rejects(solid, FL[8], Reason.RANK, "x0 has rank 5")
    dynamic = node("ConvTranspose", x, f32(2, 3, 3, 3), dilations=[2, 2])
    rejects(dynamic, FL[8], Reason.CONSTANT, "x1 must be constant")
    most = node("ConvTranspose", f32(1, 64, 2, 2), drawn(64, 1, 2, 2), group=64)
    accepts(most, FL[3])
    more = node("ConvTranspose", f32(1, 65, 2, 2), drawn(65, 1, 2, 2), group=65)
    rejects(more, FL[8], Reason.SIZE, "group is 65")


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
    return emitting.emitted(
        transpose_convolve, emitting.node([x, w], [y], level=3, **attributes), y
    )


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
