"""Search for expressions among the operations of a model."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import ADD, F32, MUL, SPLIT, SUB
from ep_nnapi.ort_devices.dataflow import Flow, Term, term
from tests.ort_devices.networks import Network

SHAPE = (2, 4)


def arithmetic(net: Network, row: OperationSpec, a: int, b: int, activation: int = 0) -> int:
    return net.operation(row, [a, b, net.scalar(activation)], Operand(F32, SHAPE))


def of_two() -> tuple[Network, int, int]:
    net = Network()
    return net, net.add(Operand(F32, SHAPE)), net.add(Operand(F32, SHAPE))


def test_names_stand_for_operands():
    net, x, y = of_two()
    difference = arithmetic(net, SUB, x, y)
    found = Flow(net.model([x, y], [difference])).match(term(SUB, "a", "b"), difference)
    assert found is not None
    assert found.operands == {"a": x, "b": y}
    assert found.members == {0}


def test_one_name_stands_for_one_operand():
    net, x, y = of_two()
    square, product = arithmetic(net, MUL, x, x), arithmetic(net, MUL, x, y)
    flow = Flow(net.model([x, y], [square, product]))
    assert flow.match(term(MUL, "a", "a"), square) is not None
    assert flow.match(term(MUL, "a", "a"), product) is None


@pytest.mark.parametrize(("row", "either"), [(ADD, True), (MUL, True), (SUB, False)])
def test_sums_and_products_have_no_order(row, either):
    """The pattern a - (b * b), or its sum or product, with the sides exchanged."""
    net, x, y = of_two()
    square = arithmetic(net, MUL, y, y)
    total = arithmetic(net, row, square, x)
    flow = Flow(net.model([x, y], [total]))
    found = flow.match(term(row, "a", term(MUL, "b", "b")), total)
    assert (found is not None) is either
    assert found is None or found.operands == {"a": x, "b": y}


def test_fused_activations_do_not_match():
    net, x, y = of_two()
    total = arithmetic(net, ADD, x, y, activation=1)
    assert Flow(net.model([x, y], [total])).match(term(ADD, "a", "b"), total) is None


def test_a_term_says_which_output_is_meant():
    net, x, _ = of_two()
    parts = [net.scalar(1), net.scalar(2)]
    half = Operand(F32, (2, 2))
    first = net.operation(SPLIT, [x, *parts], half, half)
    flow = Flow(net.model([x], [first, first + 1]))
    of = {at: Term(SPLIT, ("x", "axis", "count"), at) for at in (0, 1, None)}
    assert [i for i in (0, 1, None) if flow.match(of[i], first + 1) is not None] == [1, None]


def test_members_enclose_what_only_they_read():
    net, x, y = of_two()
    difference = arithmetic(net, SUB, x, y)
    square = arithmetic(net, MUL, difference, difference)
    members, results = frozenset([0, 1]), frozenset([square])
    assert Flow(net.model([x, y], [square])).encloses(members, results)
    assert not Flow(net.model([x, y], [square, difference])).encloses(members, results)
    arithmetic(net, ADD, difference, x)
    assert not Flow(net.model([x, y], [square, square + 2])).encloses(members, results)


def test_numbers_are_constants_of_one_element():
    net, x, _ = of_two()
    one, two = net.tensor(np.array([1.5]), F32), net.tensor(np.array([1.5, 2]), F32)
    flow = Flow(net.model([x], [x]))
    assert [flow.number(i) for i in (x, one, two)] == [None, 1.5, None]
