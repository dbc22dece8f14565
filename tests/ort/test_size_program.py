"""Programs in C for conditions and sizes compute what the expressions do."""

from ep_nnapi.nnapi.sizes import Size, Trace
from ep_nnapi.ort._native import lib
from ep_nnapi.ort.compute import size_program


def run(code: list[int], symbols: list[int]) -> list[int] | None:
    """The machine of size_program.c, in Python: what it stores, None where a condition fails."""
    stack: list[int] = []
    stored: list[int] = []
    steps = iter(code)
    for step in steps:
        if step in (lib.SIZE_SYMBOL, lib.SIZE_NUMBER):
            given = next(steps)
            stack.append(symbols[given] if step == lib.SIZE_SYMBOL else given)
        elif step == lib.SIZE_STORE:
            stored.append(stack.pop())
        elif step <= lib.SIZE_DIVIDE:
            right, left = stack.pop(), stack.pop()
            results = {lib.SIZE_ADD: left + right, lib.SIZE_MULTIPLY: left * right}
            stack.append(results[step] if step in results else left // right)
        else:
            value = stack.pop()
            holds = {lib.SIZE_ZERO: value == 0, lib.SIZE_NONZERO: value != 0}
            if not holds.get(step, value >= 0):
                return None
    assert not stack
    return stored


def test_sizes_and_conditions_are_those_of_the_expressions() -> None:
    trace = Trace()
    n, m = trace.size("n", 9), trace.size("m", 4)
    sizes = [n + m, (n - 3) // 2 + 1, 7, 2 * n * m - 1, (n - 40) // 4]
    assert n > m
    assert n != 5
    code = size_program(["n", "m"], trace.conditions, sizes)
    assert code is not None
    for now, then in ((9, 4), (12, 2), (41, 40)):
        symbols = {"n": now, "m": then}
        wanted = [s.expression.evaluate(symbols) if isinstance(s, Size) else s for s in sizes]
        assert run(code, [now, then]) == wanted
    assert run(code, [5, 4]) is None
    assert run(code, [4, 4]) is None


def test_a_program_has_at_most_so_many_symbols() -> None:
    names = [f"n{i}" for i in range(lib.MOST_SYMBOLS + 1)]
    assert size_program(names, (), ()) is None
    assert size_program(names[1:], (), ()) == []
