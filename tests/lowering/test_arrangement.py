"""Operands by position and name, in the order of a signature."""

import numpy as np
import pytest

from ep_nnapi.graph.value import Constant, DType
from ep_nnapi.lowering.arguments import nhwc
from ep_nnapi.lowering.call import apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import SpecError
from tests.lowering.values import IMAGE, MADE, PADS, STRIDES, X, Y, Z, f32


def names(call):
    return [p.name for p in call.params]


def test_position_then_names_in_the_specified_order():
    call = apply(spec.ADD, X, activation=FuseCode.RELU, input2=Y, out=Z)
    assert names(call) == ["input1", "input2", "activation"]
    assert call.inputs == (X, Y, FuseCode.RELU)
    assert call.outputs == (Z,)


def test_activation_is_none_unless_named():
    assert apply(spec.ADD, X, Y, out=Z).inputs[2] is FuseCode.NONE


def test_none_is_left_out_and_shortens_the_list():
    assert names(apply(spec.SOFTMAX, X, beta=1.0, axis=None, out=Y)) == ["input", "beta"]
    assert names(apply(spec.TRANSPOSE, X, None, out=Y)) == ["input", "perm"]


def test_the_form_follows_the_names():
    weights, bias = f32("w", 2, 3, 3, 3), f32("b", 2)
    explicit = apply(spec.CONV_2D, nhwc(IMAGE), weights, bias, **PADS, **STRIDES, out=nhwc(MADE))
    assert names(explicit)[3:] == [*PADS, *STRIDES, "activation"]
    implicit = apply(spec.CONV_2D, nhwc(IMAGE), weights, bias, padding=1, **STRIDES, out=nhwc(MADE))
    assert names(implicit)[3:] == ["padding", *STRIDES, "activation"]
    assert explicit.match(1).level == implicit.match(1).level == 1


def test_a_later_operand_keeps_the_ones_before_it():
    weights, bias = f32("w", 2, 3, 3, 3), f32("b", 2)
    dilated = {"layout": False, "dilation_width": 2, "dilation_height": 2}
    call = apply(
        spec.CONV_2D, nhwc(IMAGE), weights, bias, padding=2, **STRIDES, **dilated, out=nhwc(MADE)
    )
    assert names(call)[-3:] == list(dilated)
    assert call.match(8).level == 3


def test_optional_operands_inside_the_list_stay_as_none():
    gates = [p.name for p in spec.LSTM.input_params[0][1:18]]
    given = {name: X for name in gates if not name.endswith("input_weights")}
    call = apply(
        spec.LSTM,
        X,
        **given,
        output_state_in=X,
        cell_state_in=X,
        activation=4,
        cell_clip=0.0,
        projection_clip=0.0,
        out=[Y] * 4,
    )
    assert len(call.inputs) == 23
    assert call.inputs[1] is None
    assert call.match(1).level == 1


def test_repeated_operands():
    call = apply(spec.CONCATENATION, [X, Y, Z], axis=1, out=f32("o", 1, 12))
    assert names(call) == ["inputs", "inputs", "inputs", "axis"]
    assert call.named() == {"inputs": (X, Y, Z), "axis": 1}
    assert apply(spec.CONCATENATION, X, axis=1, out=Y).inputs == (X, 1)
    assert len(apply(spec.SPLIT, X, axis=1, num_splits=2, out=[Y, Z]).match(3).outputs) == 2


def test_constants_become_values_named_after_their_operand():
    axes = Constant.of(np.array([1, 0], np.int32))
    (_, perm) = apply(spec.TRANSPOSE, X, perm=axes, out=Y).inputs
    assert (perm.name, perm.dtype, perm.shape) == ("constant perm", DType.INT32, (2,))
    assert perm.constant is axes


@pytest.mark.parametrize(
    ("given", "named"),
    [((X,), {}), ((X, Y, 0, 0), {}), ((X, Y), {"stride": 1}), ((X, Y), {"input2": Y}), ((), {})],
)
def test_names_that_no_form_has_are_the_callers_defect(given, named):
    with pytest.raises(SpecError, match="ADD has no signature with"):
        apply(spec.ADD, *given, **named, out=Z)


def test_a_repeated_operand_takes_at_least_one_and_others_just_one():
    with pytest.raises(SpecError, match="CONCATENATION has no signature"):
        apply(spec.CONCATENATION, [], axis=0, out=Z)
    with pytest.raises(SpecError, match="operand input takes one value, not 2"):
        apply(spec.RELU, [X, Y], out=Z)


def test_operands_are_arranged_anew_where_others_are_given():
    """How those of a place in the code are arranged is found once."""
    for beta, axis in ((1.0, None), (2.0, 1), (3.0, None), (4.0, 0)):
        call = apply(spec.SOFTMAX, X, beta=beta, axis=axis, out=Y)
        assert call.inputs == ((X, beta) if axis is None else (X, beta, axis))
    for given in (X, Y):
        assert apply(spec.ADD, given, Z, out=Z).inputs == (given, Z, FuseCode.NONE)
        assert apply(spec.ADD, given, input2=Z, out=Z).inputs == (given, Z, FuseCode.NONE)
        assert apply(spec.ADD, input2=Z, input1=given, out=Z).inputs == (given, Z, FuseCode.NONE)
    constant = Constant.of(np.zeros(4, np.float32))
    assert apply(spec.ADD, X, constant, out=Z).inputs[1].constant is constant
    with pytest.raises(SpecError, match="ADD has no signature"):
        apply(spec.ADD, X, None, out=Z)
