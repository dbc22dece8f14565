"""Programs in C that check conditions on sizes and compute sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ep_nnapi.nnapi.sizes import Atom, Condition, Expression, Relation
from ep_nnapi.ort._native import lib

_RELATIONS = {
    Relation.ZERO: lib.SIZE_ZERO,
    Relation.NONZERO: lib.SIZE_NONZERO,
    Relation.NOT_NEGATIVE: lib.SIZE_NOT_NEGATIVE,
}


def size_program(
    symbols: Sequence[str], conditions: Iterable[Condition], sizes: Iterable[int]
) -> list[int] | None:
    """Return the code that checks the conditions and stores the sizes; None if it is too long.

    symbols   in the order of their positions in C
    """
    positions = {name: i for i, name in enumerate(symbols)}
    stored = [Expression.of(size) for size in sizes]
    conditions = [*conditions]
    given = [*(c.expression for c in conditions), *stored]
    if (
        len(symbols) > lib.MOST_SYMBOLS
        or len(stored) > lib.MOST_SIZES
        or max(map(_depth, given), default=0) > lib.MOST_OPERANDS
    ):
        return None
    code: list[int] = []
    for condition in conditions:
        code += [*_compute(condition.expression, positions), _RELATIONS[condition.relation]]
    for expression in stored:
        code += [*_compute(expression, positions), lib.SIZE_STORE]
    return code


def _compute(expression: Expression, symbols: Mapping[str, int]) -> Iterator[int]:
    """Yield the code that leaves the value of the expression on the stack."""
    yield from (lib.SIZE_NUMBER, 0)
    for monomial, factor in expression.terms:
        yield from (lib.SIZE_NUMBER, factor)
        for atom in monomial:
            yield from _atom(atom, symbols)
            yield lib.SIZE_MULTIPLY
        yield lib.SIZE_ADD


def _atom(atom: Atom, symbols: Mapping[str, int]) -> Iterator[int]:
    if isinstance(atom, str):
        yield from (lib.SIZE_SYMBOL, symbols[atom])
        return
    yield from _compute(atom.dividend, symbols)
    yield from _compute(atom.divisor, symbols)
    yield lib.SIZE_DIVIDE


def _depth(expression: Expression) -> int:
    """The operands on the stack at most."""
    inner = (a for monomial, _ in expression.terms for a in monomial if not isinstance(a, str))
    return 3 + max((1 + max(_depth(a.dividend), 1 + _depth(a.divisor)) for a in inner), default=0)
