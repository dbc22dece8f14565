"""Expressions of symbols: one object for each."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

from ep_nnapi.nnapi.expressions import Condition, Expression, Relation

N, M = Expression.symbol("n"), Expression.symbol("m")
NINE = Expression.of(9)


def halves(number: int) -> Expression:
    return (N + Expression.of(number)) // Expression.of(2) * M


def test_equal_expressions_are_one_object() -> None:
    assert (N + M) * (N - M) is N * N - M * M
    assert halves(3) is halves(1) + M
    assert halves(3) is not halves(2)


def test_copies_are_the_same_objects() -> None:
    given = halves(5)
    assert pickle.loads(pickle.dumps(given)) is given
    assert copy.deepcopy(given) is given


def test_threads_make_the_same_objects() -> None:
    numbers = range(1000, 1100)
    with ThreadPoolExecutor(4) as threads:
        first, *others = threads.map(lambda _: [halves(n) for n in numbers], range(4))
    assert all(a is b for other in others for a, b in zip(first, other, strict=True))


def test_bounds_and_names_are_known() -> None:
    quotient = (N * M + NINE) // Expression.of(10)
    assert (quotient.least, quotient.symbols, quotient.constant) == (1, {"n", "m"}, None)
    assert ((N - M).least, NINE.constant, Expression(()).constant) == (None, 9, 0)


def test_a_condition_may_divide_by_zero_where_it_is_tried() -> None:
    """Those of sizes of 2 and more are compared with others, at a size of 1 too."""
    least = Condition(N // (M - Expression.of(1)) - NINE, Relation.NOT_NEGATIVE)
    assert least.implies(Condition(least.expression + NINE, Relation.NOT_NEGATIVE))
    assert not least.implies(Condition(N * M - NINE, Relation.NOT_NEGATIVE))


def test_conditions_that_follow_from_others_are_known() -> None:
    rest = Expression.of(512) - N
    given = Condition(rest, Relation.NOT_NEGATIVE)
    assert given.implies(Condition(rest + N * M, Relation.NOT_NEGATIVE))
    assert given.implies(Condition(rest + M, Relation.NONZERO))
    assert not given.implies(Condition(rest - M, Relation.NOT_NEGATIVE))
    assert not given.implies(Condition(rest, Relation.ZERO))
