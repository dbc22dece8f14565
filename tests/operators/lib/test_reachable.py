"""`reachable` finds the operations that a lowering names: in its closure, helpers and tables."""

from collections.abc import Iterator
from functools import partial

from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import ABS, ADD, CAST, EXP, MUL, NEG
from ep_nnapi.operators import VARIANTS, operations
from ep_nnapi.operators.lib.node import Node, one_to_one, widened
from ep_nnapi.operators.lib.reachable import reachable


def test_a_row_in_the_closure_is_nearest():
    assert reachable(one_to_one("Exp", EXP, since=6).lower) == [(0, EXP)]


def test_a_decorator_is_no_nearer_than_what_it_decorates():
    def lower(n: Node) -> Iterator[Call]:
        yield apply(row, n.input(0), out=n.output())

    row = NEG
    lower.__module__ = "ep_nnapi.operators.of_a_test"
    assert reachable(widened(lower)) == [(0, NEG), (2, CAST)]


def test_tables_and_partial_functions_are_looked_into():
    def lower(n: Node) -> Iterator[Call]:
        yield from found["Abs"](n.input(0), out=n.output())

    found = {"Abs": partial(apply, ABS), "Others": (ADD, [MUL])}
    lower.__module__ = "ep_nnapi.operators.of_a_test"
    assert reachable(lower) == [(0, ABS), (0, ADD), (0, MUL)]


def test_methods_of_classes_and_rewritten_operators_are_followed():
    (conv,) = VARIANTS["", "Conv"]
    names = {row.name for _, row in operations(conv)}
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "GROUPED_CONV_2D"} <= names
    assert "LSTM" not in names
    assert operations(VARIANTS["", "QLinearConv"][0]) == operations(conv)
