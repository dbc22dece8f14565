"""Operators are known by their values, wherever these are in the model."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.arguments import NHWC
from ep_nnapi.lowering.call import Whole
from ep_nnapi.lowering.inner_transposes import with_inner_transposes
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.model import Composite, CompositePort, Model, Operand
from tests.calls import Calls

SHAPE = (2, 3)
IMAGE = (1, 4, 5, 6)


def marked(g: Calls, first: int, x: Value, *outputs: Value, **options: object) -> None:
    """The calls from `first` on compute the operator Twice together."""
    inputs = (x, *options.pop("constants", ()))
    whole = Whole("Twice", 1, inputs, outputs, {"factor": 2}, **options)
    g.calls[first:] = [replace(call, whole=whole) for call in g.calls[first:]]


def twice(g: Calls, x: Value, **options: object) -> Value:
    first = len(g.calls)
    y = g.add(g.tanh(x), g.tanh(x))
    marked(g, first, x, y, **options)
    return y


def members(model: Model, composite: Composite) -> list[str]:
    return [model.operations[n].spec.name for n in composite.members]


def test_an_operator_is_the_composite_of_its_operations():
    g = Calls()
    y = g.tanh(twice(g, g.input(*SHAPE)))
    model = g.lower(y).model
    (found,) = model.composites
    assert (found.name, found.since, found.attributes) == ("Twice", 1, {"factor": 2})
    assert members(model, found) == ["TANH", "TANH", "ADD"]
    assert found.inputs == (CompositePort(model.inputs[0], (0, 1), SHAPE),)
    assert found.outputs == (CompositePort(model.operations[2].outputs[0], (0, 1), SHAPE),)
    assert found.activation is FuseCode.NONE
    assert replace(model, composites=()) == model


def test_an_activation_is_fused_into_it_as_into_its_last_operation():
    g = Calls()
    y = g.relu(twice(g, g.input(*SHAPE)))
    model = g.lower(y).model
    (found,) = model.composites
    assert found.activation is FuseCode.RELU
    assert found.outputs[0].operand == model.outputs[0]


@pytest.mark.parametrize("how", ["inner", "leaves"])
def test_a_result_inside_that_others_need_stays_computed(how):
    g = Calls()
    y = twice(g, g.input(*SHAPE))
    inner = g.calls[0].outputs[0]
    model = g.lower(y, g.relu(inner) if how == "inner" else inner).model
    (found,) = model.composites
    assert members(model, found) == ["TANH", "ADD"]


def test_an_operator_with_an_input_of_unknown_rank_is_none():
    g = Calls()
    y = twice(g, g.input(*SHAPE), constants=(Value("of any rank", DType.FLOAT),))
    assert g.lower(y).model.composites == ()


def test_an_operator_whose_result_was_merged_with_others_is_none():
    """HARD_SWISH takes the product in."""
    g = Calls()
    x = g.input(*SHAPE)
    three, sixth = (
        Value(name, DType.FLOAT, (1,), constant=Constant.of(np.array([number], np.float32)))
        for name, number in (("three", 3), ("sixth", 1 / 6))
    )
    shifted = g.call(spec.ADD, SHAPE, x, three, activation=FuseCode.RELU6)
    part = g.call(spec.MUL, SHAPE, shifted, sixth)
    marked(g, 0, x, part)
    y = g.call(spec.MUL, SHAPE, x, part)
    model = g.lower(y).model
    assert [o.spec for o in model.operations] == [spec.HARD_SWISH]
    assert model.composites == ()


def test_results_that_nothing_reads_are_left_out():
    g = Calls()
    x = g.input(*SHAPE)
    y, unread = g.tanh(x), g.relu(x)
    marked(g, 0, x, y, unread)
    (found,) = g.lower(y).model.composites
    assert found.outputs[1] is None
    assert len(found.members) == 1


def test_between_convolutions_it_says_its_layout():
    g = Calls()
    y = g.conv(twice(g, g.conv(g.input(*IMAGE), 4)), 4)
    model = g.lower(y).model
    (found,) = model.composites
    assert [(p.perm, p.shape) for p in (*found.inputs, *found.outputs)] == [(NHWC, IMAGE)] * 2
    assert found.inputs[0].operand == model.operations[0].outputs[0]


def test_transposes_at_the_border_move_its_members():
    g = Calls()
    lowered = g.lower(g.conv(twice(g, g.conv(g.input(*IMAGE), 4)), 4))
    moved = with_inner_transposes(lowered)
    names = [members(each.model, each.model.composites[0]) for each in (lowered, moved)]
    assert names[0] == names[1] == ["TANH", "TANH", "ADD"]


def test_a_transposed_input_is_read_where_it_is_stored():
    g = Calls()
    x = g.conv(g.input(*IMAGE), 4)
    y = g.conv(twice(g, g.transpose(x, 0, 2, 3, 1)), 4)
    (found,) = g.lower(y).model.composites
    assert sorted(found.inputs[0].perm) == [0, 1, 2, 3]
    assert found.inputs[0].shape == (1, 5, 6, 4)


def test_it_is_found_behind_reshapes_that_were_moved():
    g = Calls()
    x = g.input(*IMAGE)
    y = g.reshape(twice(g, g.reshape(x, 4, 30)), *IMAGE)
    model = g.lower(y).model
    (found,) = model.composites
    assert found.inputs == (CompositePort(model.inputs[0], (0, 1, 2, 3), (4, 30)),)
    assert found.outputs[0].shape == (4, 30)
    assert "RESHAPE" not in members(model, found)


@pytest.mark.parametrize("keeps", [False, True], ids=["its members'", "its own"])
@pytest.mark.parametrize("size", [4096, 4097])
def test_constants_that_its_members_lack_are_its_own_if_small_or_kept(size, keeps):
    g = Calls()
    x = g.input(*SHAPE)
    y = twice(g, x, constants=(g.weights(size),), keeps=keeps)
    composites = g.lower(y).model.composites
    assert len(composites) == (keeps or size == 4096)
    for found in composites:
        own = found.inputs[1].operand
        assert isinstance(own, Operand)
        assert own.array.shape == (size,)


def test_constants_of_its_members_are_theirs():
    g = Calls()
    x, w = g.input(*SHAPE), g.weights(3)
    y = g.tanh(g.add(x, w))
    marked(g, 0, x, y, constants=(w,))
    model = g.lower(y).model
    (found,) = model.composites
    assert found.inputs[1].operand == model.operations[0].inputs[1]


def test_constants_of_types_that_nnapi_lacks_leave_the_members():
    g = Calls()
    wide = Value("axes", DType.INT64, (1,), constant=Constant.of(np.array([1])))
    y = twice(g, g.input(*SHAPE), constants=(wide, None))
    assert g.lower(y).model.composites == ()


def test_the_order_of_elements_that_a_flattened_image_has_is_no_operator_s():
    """FULLY_CONNECTED takes the elements in NHWC, its weights reordered."""
    g = Calls()
    flat = g.reshape(g.conv(g.input(*IMAGE), 4), 1, 120)
    y = g.dense(flat, 3)
    marked(g, 2, flat, y)
    (found,) = g.lower(y).model.composites
    assert found.inputs[0].perm == NHWC  # the image, not its elements in another order
