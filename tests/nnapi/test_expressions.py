"""Expressions of symbols: one object for each."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

from ep_nnapi.nnapi.expressions import Expression

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
