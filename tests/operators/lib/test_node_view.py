"""The view of a node: accessors raise Reject with the reason for what is missing."""

import numpy as np
import pytest

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import apply
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import ABS
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.options.target import NnapiFlag, Target
from tests.operators.lib.emitting import constant, floats, node, value

X = value("x", floats(2, 3))


def test_attributes_have_defaults():
    n = node([X], alpha=0.5, k=3, mode="linear", axes=(1, -1))
    assert (n.real("alpha"), n.integer("k"), n.text("mode")) == (0.5, 3, "linear")
    assert n.integers("axes") == (1, -1)
    assert (n.real("beta", 2.0), n.integer("j", 1), n.text("how", "x")) == (2.0, 1, "x")
    assert (n.has_attribute("k"), n.has_attribute("j")) == (True, False)


def test_an_empty_list_is_as_good_as_none():
    n = node([X], axes=())
    assert (n.integers("axes", (0, 1)), n.integers("axes")) == ((0, 1), ())


def test_an_attribute_for_each_axis_has_as_many_numbers():
    assert node([X], strides=(3, 2)).integers_like("strides", (1, 1)) == (3, 2)
    assert node([X]).integers_like("strides", (1, 1)) == (1, 1)


@pytest.mark.parametrize("strides", [(3,), (3, 2, 1)])
def test_another_number_of_them_is_refused(strides: tuple[int, ...]):
    with pytest.raises(Reject, match=f"strides has {len(strides)} numbers") as caught:
        node([X], strides=strides).integers_like("strides", (1, 1))
    assert caught.value.reason is Reason.ATTRIBUTE


def test_an_attribute_without_default_is_required():
    with pytest.raises(Reject, match="alpha") as caught:
        node([X]).real("alpha")
    assert caught.value.reason is Reason.ATTRIBUTE


@pytest.mark.parametrize(("axis", "expected"), [(0, 0), (1, 1), (-1, 1), (-2, 0)])
def test_axes_at_the_limit(axis: int, expected: int):
    assert node([X], axis=axis).axis() == expected


@pytest.mark.parametrize("axis", [2, -3])
def test_axes_just_past_it(axis: int):
    with pytest.raises(Reject, match=str(axis)) as caught:
        node([X], axis=axis).axis()
    assert caught.value.reason is Reason.ATTRIBUTE


def test_omitted_inputs_are_refused():
    n = node([X, None])
    assert (n.has(0), n.has(1), n.has(2)) == (True, False, False)
    for index in (1, 2):
        with pytest.raises(Reject) as caught:
            n.input(index)
        assert caught.value.reason is Reason.ATTRIBUTE


def test_computed_inputs_are_not_constant():
    n = node([X, constant(np.array([1, 2]))])
    assert n.integers_at(1) == (1, 2)
    with pytest.raises(Reject, match="x") as caught:
        n.array(0)
    assert caught.value.reason is Reason.CONSTANT


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_a_number_that_is_not_finite_is_no_integer(number: float):
    n = node([X, constant(np.array([number], np.float32))])
    with pytest.raises(Reject, match="it must be finite"):
        n.integer_at(1)


def test_unknown_sizes_are_refused():
    with pytest.raises(Reject) as caught:
        _ = node([Value("x", DType.FLOAT, (2, None))]).input(0).shape
    assert caught.value.reason is Reason.SHAPE


def test_intermediates_have_names_of_their_own():
    n = node([X])
    first, second = n.temp(X), n.temp(X, (6,), DType.INT32)
    assert first.name != second.name
    assert (first.shape, second.shape, second.dtype) == ((2, 3), (6,), DType.INT32)


def test_support_depends_on_the_level():
    assert node([X], level=3).supports(apply(ABS, X, out=value("y", floats(2, 3))))
    assert not node([X], level=2).supports(apply(ABS, X, out=value("y", floats(2, 3))))


@pytest.mark.parametrize(
    ("dtype", "flags", "largest"),
    [
        (DType.FLOAT, NnapiFlag.NONE, 3.4028234663852886e38),
        (DType.INT32, NnapiFlag.NONE, 3.4028234663852886e38),
        (DType.FLOAT16, NnapiFlag.NONE, 65504),
        (DType.FLOAT, NnapiFlag.USE_FP16, 65504),
    ],
)
def test_limits_of_the_floats_that_compute_a_value(dtype: DType, flags: NnapiFlag, largest: float):
    x = Value("x", dtype, (2,))
    node = Node(GraphNode(0, "n", "Abs", "", 13, (x,), (x,), {}), Target(8, flags))
    assert node.limits(x).max == largest
