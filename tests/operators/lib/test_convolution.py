"""Windows as NNAPI's operands, and convolutions that are refused."""

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
from tests.operators.lib.emitting import Emitted, constant, emitted, floats, node, value

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


def lowered(shape, weights, out, *, level: int = 8, **attributes: object) -> Emitted:
    x, w = value("x", np.zeros(shape, np.float32)), constant(np.zeros(weights, np.float32))
    y = value("y", np.zeros(out, np.float32))
    return emitted(convolve, node([x, w], [y], level=level, **attributes), y)


def groups(count: int) -> Emitted:
    shape, weights = (1, 2 * count, 1, 1), (2 * count, 2, 1, 1)
    return lowered(shape, weights, shape, level=2, group=count)


def test_groups_at_the_limit_and_past_it() -> None:
    assert groups(MAX_GROUPS).names.count("CONV_2D") == MAX_GROUPS
    with pytest.raises(Reject, match=f"group is {MAX_GROUPS + 1}; .* at most 64") as caught:
        groups(MAX_GROUPS + 1)
    assert caught.value.reason is Reason.SIZE
