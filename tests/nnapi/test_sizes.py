"""Sizes as expressions of symbols, and the conditions under which they hold."""

import operator
import pickle
import random
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.sizes import Size, Trace, at_present, bound, now, objects
from ep_nnapi.nnapi.spec import RESHAPE
from tests.nnapi.build import F32, I32, one, tensor

_TRACE = Trace()
N, M = _TRACE.size("n", 64), _TRACE.size("m", 7)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (N + M, "n + m"),
        (2 * N - N - N, "0"),
        (N * 4 // 4, "n"),
        ((4 * N + 3) // 4, "n"),
        (N * M // M, "n"),
        ((N - 3) // 2 + 1, "((n + 1) // 2) + -1"),
        (-(-N // 2), "((n + 1) // 2)"),
        ((N + 1) // 2 // 3, "((n + 1) // 6)"),
        ((2 * N + 3) // 4, "((n + 1) // 2)"),
        ((N * M + N + 2 * M + 2) // (M + 1), "n + 2"),
        (N // (M + 1), "((n) // (m + 1))"),
        (prod((2, N, M)), "2 * m * n"),
        (N % 1, "0"),
    ],
)
def test_equal_expressions_have_one_form(size: int, text: str) -> None:
    assert (str(size.expression) if isinstance(size, Size) else str(size)) == text


@pytest.mark.parametrize(
    ("compute", "conditions"),
    [
        (lambda n: n == 64, ["n + -64 == 0"]),
        (lambda n: n == 1, ["n + -1 != 0"]),
        (lambda n: min(n, 512), ["-1 * n + 512 >= 0"]),
        (lambda n: n > 0 and n != 0 and n + 1 > 1, []),  # sizes are at least 1
        (lambda n: n < n + 1, []),
        (lambda n: np.array([n, 3], np.int32), ["n + -64 == 0"]),
        (lambda n: n * 0.5, ["n + -64 == 0"]),
        (lambda n: 0.5 * n, ["n + -64 == 0"]),
        (range, ["n + -64 == 0"]),
        (lambda n: "text"[:n], ["n + -64 == 0"]),
        (np.arange, ["n + -64 == 0"]),
        (np.sqrt, ["n + -64 == 0"]),
        (lambda n: np.array([n, 3]), ["n + -64 == 0"]),
        (lambda n: np.ones(2) * n, ["n + -64 == 0"]),
        (lambda n: objects([n, 3]) * 2, []),
        (lambda n: np.zeros((2, n)), ["n + -64 == 0"]),
        (lambda n: (1,) * n, ["n + -64 == 0"]),
        (lambda n: n & (n - 1), ["n + -64 == 0"]),
        (lambda n: 2**n, ["n + -64 == 0"]),
        (lambda n: divmod(200, n)[0] == 3, ["((200) // (n)) + -3 == 0"]),
    ],
)
def test_conditions_are_what_a_result_depends_on(compute, conditions):
    trace = Trace()
    compute(trace.size("n", 64))
    assert [*map(str, trace.conditions)] == conditions


@pytest.mark.parametrize(
    ("zero", "equal"),
    [
        (lambda n, m: 4 * n - 256, {"n": "64"}),
        (lambda n, m: 448 - 7 * n, {"n": "64"}),
        (lambda n, m: 6 * n - 12 * m - 300, {"n": "2 * m + 50"}),
        (lambda n, m: 3 * n - 2 * m - 178, {}),  # m is no whole number for each n
        (lambda n, m: n * n - 64 * n, {}),
    ],
)
def test_a_symbol_that_an_equation_has_once_is_known(
    zero: Callable[[int, int], int], equal: Mapping[str, str]
) -> None:
    trace = Trace()
    n, m = trace.size("n", 64), trace.size("m", 7)
    assert zero(n, m) == 0
    assert {name: str(found) for name, found in trace.equal.items()} == equal
    if equal == {"n": "64"}:
        assert n == 64
        assert len(trace.conditions) == 1


@pytest.mark.parametrize("read", [now, hash, lambda n: {n + 1: 2}])
def test_numbers_that_are_read_without_a_condition_are_counted(read: Callable[[int], object]):
    trace = Trace()
    n = trace.size("n", 64)
    assert at_present(n * 2) == 128
    assert (trace.unnoted, trace.conditions) == (0, ())
    read(n)
    assert (trace.unnoted, trace.conditions) == (1, ())


def test_a_size_is_an_integer_to_python() -> None:
    size = Trace().size("n", 64)
    assert isinstance(size, int)
    assert (str(size), f"{size:4d}", repr((size,))) == ("64", "  64", "(64,)")
    same = pickle.loads(pickle.dumps(size))
    assert (type(same), at_present(same), str(same.expression)) == (Size, 64, "n")


def test_no_module_reads_sizes_as_integers_of_c() -> None:
    """`now` and `at_present` read their numbers."""
    assert ep_nnapi.__file__ is not None
    modules = Path(ep_nnapi.__file__).parent.rglob("*.py")
    found = [m.name for m in modules if "int.__index__" in m.read_text(encoding="utf-8")]
    assert found == ["expressions.py"]  # which has told sizes from integers


def test_results_hold_for_all_sizes_that_meet_the_conditions() -> None:
    seed = random.randrange(2**32)
    rng, held = random.Random(seed), 0
    for _ in range(3000):
        program = [rng.choices(range(9), k=3) for _ in range(6)]
        now, later = ({n: rng.randint(1, 9) for n in "abc"} for _ in range(2))
        trace = Trace()
        sizes = _computed(program, {n: trace.size(n, v) for n, v in now.items()})
        assert [at_present(s) for s in sizes] == _computed(program, now), f"seed {seed}"
        if all(c.holds(later) for c in trace.conditions):
            held += 1
            assert [*bound(sizes, later)] == _computed(program, later), f"seed {seed}"
    assert held > 300, f"seed {seed}"


def _computed(program: list[list[int]], symbols: Mapping[str, int]) -> list[int]:
    """Results of arithmetic, comparisons and their choices among symbols and numbers."""
    steps: list[Callable[[int, int], int]] = [
        *(operator.add, operator.sub, operator.mul, min, max),
        *(lambda a, b: a // b if b else 0, lambda a, b: a % b if b else 1),
        *(lambda a, b: a if a == b else 2, lambda a, b: a if a < b else b + 1),
    ]
    found = [*symbols.values(), -1, 3]
    for step, left, right in program:
        found.append(steps[step](found[left % len(found)], found[right % len(found)]))
    return found


def test_a_model_is_bound_to_other_sizes() -> None:
    trace = Trace()
    n = trace.size("n", 64)
    sizes = Data.of_sizes([n // 2, 4], np.dtype(np.int32))
    model = _reshape((n, 2), (n // 2, 4), sizes, trace)
    assert model.bind({"n": 10}) == _reshape((10, 2), (5, 4), Data.of(np.array([5, 4], np.int32)))
    assert n != 1
    with pytest.raises(ValueError, match=r"n \+ -1 != 0 does not hold"):
        _reshape((n, 2), (n // 2, 4), sizes, trace).bind({"n": 1})


def _reshape(
    given: tuple[int, ...], made: tuple[int, ...], sizes: Data, trace: Trace | None = None
) -> Model:
    conditions = trace.conditions if trace is not None else ()
    inputs = tensor(F32, *given), tensor(I32, 2, value=sizes)
    return one(RESHAPE, inputs, [tensor(F32, *made)], conditions=conditions)
