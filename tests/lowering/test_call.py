"""Operations applied to values by name."""

import numpy as np
import pytest

from ep_nnapi.graph.value import Constant
from ep_nnapi.lowering.call import apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from tests.lowering.values import IMAGE, MADE, f32, u8


def test_rules_see_quantization():
    x, y = u8("x", 1, 4, zero_point=3), u8("y", 1, 4, zero_point=3)
    paddings = Constant.of(np.zeros((2, 2), np.int32))
    with pytest.raises(Reject, match="PAD with zero point 3 needs feature level 3"):
        apply(spec.PAD, x, paddings, out=y).match(2)
    with pytest.raises(Reject, match="MUL takes an output scale > ") as caught:
        apply(
            spec.MUL, u8("a", 4, scale=1.0), u8("b", 4, scale=1.0), out=u8("c", 4, scale=1.0)
        ).match(8)
    assert caught.value.reason is Reason.QUANTIZATION


def test_booleans_and_choice_of_scalar_form():
    a, b = f32("a", 2, 3), f32("b", 3, 2)
    assert apply(spec.BATCH_MATMUL, a, b, out=f32("c", 2, 2)).match(6).level == 6
    with pytest.raises(Reject):
        apply(spec.BATCH_MATMUL, a, b, adj_x=0, out=f32("c", 2, 2)).match(8)
    by_scale = apply(spec.RESIZE_BILINEAR, IMAGE, width_scale=2.0, height_scale=2.0, out=MADE)
    assert by_scale.match(8).level == 3


def test_a_signature_that_others_had_is_refused_for_ranks_and_rules():
    """What depends on types alone is found once for all calls of these types."""
    flat, deep = f32("x", 4), f32("d", 1, 2, 4, 4)
    for _ in range(2):
        assert apply(spec.DEPTH_TO_SPACE, deep, block_size=1, out=deep).match(1).level == 1
        with pytest.raises(Reject, match=r"of rank 1, DEPTH_TO_SPACE\.input takes rank 4"):
            apply(spec.DEPTH_TO_SPACE, flat, block_size=1, out=flat).match(8)
        with pytest.raises(Reject, match="SQRT needs feature level 3"):
            apply(spec.SQRT, flat, out=flat).match(2)
        assert apply(spec.SQRT, flat, out=flat).match(3).level == 3
        weights, bias = f32("w", 2, 3), f32("b", 2)
        layer = apply(spec.FULLY_CONNECTED, f32("x", 1, 3), weights, bias, out=f32("y", 1, 2))
        assert layer.match(1).level == 1
        with pytest.raises(Reject, match="does not divide into rows of 3"):
            apply(spec.FULLY_CONNECTED, f32("x", 1, 4), weights, bias, out=f32("y", 1, 2)).match(8)
        assert apply(spec.ADD, flat, flat, out=flat).is_supported(8)
        fine, coarse = u8("q", 4, scale=1e-9), u8("q", 4, scale=1.0)
        assert apply(spec.ADD, coarse, coarse, out=coarse).is_supported(8)
        assert not apply(spec.ADD, coarse, coarse, out=fine).is_supported(8)
