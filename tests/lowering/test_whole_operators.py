"""Operators that a device computes whole are one call, and a composite of one member."""

from dataclasses import replace

import pytest

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Whole
from ep_nnapi.lowering.whole_operators import WHOLE_OPERATOR, with_whole_operators
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import CompositePort
from tests.calls import Calls

SHAPE = (2, 3)


def scaled(g: Calls, x: Value, *more: Value | None, keeps: bool = False) -> Value:
    """x tanh(x), as an operator of its own."""
    first = len(g.calls)
    y = g.call(spec.MUL, SHAPE, x, g.tanh(x), activation=0)
    whole = Whole("Scaled", 1, (x, *more), (y, None), {"factor": 2}, keeps)
    g.calls[first:] = [replace(call, whole=whole) for call in g.calls[first:]]
    return y


def names(g: Calls, *operators: str) -> list[str]:
    return [call.spec.name for call in with_whole_operators(g.calls, operators)]


def test_the_members_of_an_operator_are_one_call_of_what_it_computes_with() -> None:
    g = Calls()
    x = g.input(*SHAPE)
    more = None, g.weights(3)
    y = scaled(g, g.tanh(x), *more)
    g.tanh(y)
    before, whole, after = with_whole_operators(g.calls, ["Scaled"])
    assert (before, after) == (g.calls[0], g.calls[-1])
    assert (whole.spec, whole.outputs) == (WHOLE_OPERATOR, (y,))
    assert whole.inputs == (*before.outputs, more[1])
    assert (whole.origin, whole.whole) == (g.calls[1].origin, g.calls[1].whole)
    assert names(g) == names(g, "Others") == ["TANH", "TANH", "MUL", "TANH"]


def test_each_operator_is_a_call_of_its_own() -> None:
    g = Calls()
    scaled(g, scaled(g, g.input(*SHAPE)))
    assert names(g, "Scaled") == ["WHOLE_OPERATOR", "WHOLE_OPERATOR"]


@pytest.mark.parametrize(("constants", "whole"), [((), False), ((3,), True)])
def test_what_keeps_constants_is_whole_where_it_has_some(constants, whole) -> None:
    g = Calls()
    scaled(g, g.input(*SHAPE), *map(g.weights, constants), keeps=True)
    assert (names(g, "Scaled") == ["WHOLE_OPERATOR"]) is whole


def test_operators_of_constants_alone_have_their_members() -> None:
    g = Calls()
    scaled(g, g.weights(*SHAPE))
    assert names(g, "Scaled") == ["TANH", "MUL"]


def test_constants_that_it_keeps_are_in_its_composite_alone() -> None:
    g = Calls()
    x = g.input(*SHAPE)
    scaled(g, x, g.weights(3), keeps=True)
    (whole,) = with_whole_operators(g.calls, ["Scaled"])
    assert whole.inputs == (x,)


def test_constants_of_any_size_that_it_does_not_keep_are_the_models() -> None:
    g = Calls()
    y = scaled(g, g.input(*SHAPE), g.weights(5000))
    g.calls[:] = with_whole_operators(g.calls, ["Scaled"])
    model = g.lower(y).model
    (found,) = model.composites
    assert found.inputs[1] == CompositePort(model.operations[0].inputs[1], (0,), (5000,))


def test_its_composite_has_the_ports_of_that_with_members() -> None:
    g = Calls()
    y = g.tanh(scaled(g, g.input(*SHAPE), g.weights(3), keeps=True))
    (with_members,) = g.lower(y).model.composites
    g.calls[:] = with_whole_operators(g.calls, ["Scaled"])
    model = g.lower(y).model
    assert [o.spec.name for o in model.operations] == ["WHOLE_OPERATOR", "TANH"]
    (found,) = model.composites
    assert found.members == (0,)
    for one, other in zip(found.inputs, with_members.inputs, strict=True):
        assert isinstance(one, CompositePort)
        assert isinstance(other, CompositePort)
        assert (one.perm, one.shape) == (other.perm, other.shape)
    assert found.inputs[1] == with_members.inputs[1]  # the constant
    assert found.outputs == (CompositePort(model.operations[0].outputs[0], (0, 1), SHAPE), None)
