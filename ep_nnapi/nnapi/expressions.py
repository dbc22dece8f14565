"""Integer expressions over symbols, for symbolic sizes, and conditions on them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import StrEnum
from functools import lru_cache
from math import gcd, prod
from typing import TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.immutable import immutable

Symbols: TypeAlias = Mapping[str, int]
"""Values of symbols by name; a symbol is a size, so at least 1."""


_Canonical = TypeVar("_Canonical", bound="Quotient | Expression")
_canonical: WeakValueDictionary[Hashable, Quotient | Expression] = WeakValueDictionary()
_adding = ForkableLock()


def _only(made: _Canonical, key: Hashable) -> _Canonical:
    """The interned object of a key: the existing one, else `made`."""
    with _adding:
        return cast("_Canonical", _canonical.setdefault((made.__class__, key), made))


class Quotient:
    """The quotient of two expressions, rounded down.

    There is one object for each, as of expressions: they are compared and hashed as objects.
    """

    __slots__ = ("__weakref__", "dividend", "divisor", "order")
    dividend: Expression
    divisor: Expression
    order: tuple[bool, str]

    def __new__(cls, dividend: Expression, divisor: Expression) -> Quotient:
        """Return the quotient."""
        made = object.__new__(cls)
        made.dividend, made.divisor = dividend, divisor
        by = divisor.constant
        made.order = True, f"(({dividend}) // {f'({divisor})' if by is None else by})"
        return _only(made, (dividend, divisor))

    def __reduce__(self) -> tuple[type[Quotient], tuple[Expression, Expression]]:
        """Return what it is made of."""
        return Quotient, (self.dividend, self.divisor)

    def __str__(self) -> str:
        """`((dividend) // divisor)`."""
        return self.order[1]


Atom: TypeAlias = str | Quotient
Monomial: TypeAlias = tuple[Atom, ...]
_Terms: TypeAlias = tuple[tuple[Monomial, int], ...]


_cached = lru_cache(1 << 12)
"""Sizes of one network are the results of a few operations, over and over."""


class Expression:
    """A polynomial with integer coefficients over symbols and quotients, in canonical order.

    terms     products of atoms, each sorted, () for the constant, with coefficients other than 0
    constant  its value if it has no symbols, else None
    least     a lower bound for all symbols of at least 1; None if none is known
    """

    __slots__ = ("__weakref__", "_samples", "_symbols", "constant", "least", "terms")
    terms: _Terms
    constant: int | None
    least: int | None
    _symbols: frozenset[str] | None
    _samples: tuple[int | None, ...] | None

    def __new__(cls, terms: _Terms) -> Expression:
        """Return the expression; there is one object for each."""
        known = _canonical.get((cls, terms))
        if known is not None:
            return cast("Expression", known)
        made = object.__new__(cls)
        made.terms = terms
        alone = terms[0] if len(terms) == 1 else ((None,), 0)
        made.constant = 0 if not terms else None if alone[0] else alone[1]
        made.least, made._symbols, made._samples = _lower_bound(terms), None, None
        return _only(made, terms)

    def __reduce__(self) -> tuple[type[Expression], tuple[_Terms]]:
        """Return what it is made of."""
        return Expression, (self.terms,)

    @staticmethod
    def of(given: int) -> Expression:
        """Return the expression of a size; a constant for a plain number."""
        known: Expression | None = getattr(given, "expression", None)  # of a `Size`
        return _number(int.__index__(given)) if known is None else known

    @staticmethod
    def symbol(name: str) -> Expression:
        """Return the expression of a symbol."""
        return Expression((((name,), 1),))

    @property
    def symbols(self) -> frozenset[str]:
        """Names of its symbols."""
        if self._symbols is None:
            atoms = [atom for monomial, _ in self.terms for atom in monomial]
            named = frozenset([a for a in atoms if isinstance(a, str)])
            inside = [
                a.dividend.symbols | a.divisor.symbols for a in atoms if not isinstance(a, str)
            ]
            self._symbols = named.union(*inside)
        return self._symbols

    @property
    def samples(self) -> tuple[int | None, ...]:
        """Its values where all symbols are 1, 2, 17 or 2^20; None where a divisor is 0."""
        if self._samples is None:
            self._samples = tuple([_sample(self, every) for every in _SAMPLES])
        return self._samples

    def substitute(self, known: Mapping[str, Expression]) -> Expression:
        """Return it with expressions in place of some of its symbols."""
        if not known or self.symbols.isdisjoint(known):
            return self
        found = _expression({})
        for monomial, factor in self.terms:
            product = Expression.of(factor)
            for atom in monomial:
                product = product * _substituted(atom, known)
            found = found + product
        return found

    def evaluate(self, symbols: Symbols) -> int:
        """Return its value for values of its symbols; raises KeyError if one is missing."""
        found = 0
        for monomial, factor in self.terms:
            product = factor
            for atom in monomial:
                product *= symbols[atom] if isinstance(atom, str) else _value(atom, symbols)
            found += product
        return found

    @_cached
    def __add__(self, other: Expression) -> Expression:
        """The sum."""
        found = dict(self.terms)
        for monomial, factor in other.terms:
            found[monomial] = found.get(monomial, 0) + factor
        return _expression(found)

    def __neg__(self) -> Expression:
        """The negated expression."""
        return self.scaled(-1)

    def __sub__(self, other: Expression) -> Expression:
        """The difference."""
        return self + -other

    @_cached
    def __mul__(self, other: Expression) -> Expression:
        """The product."""
        found: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = (*left, *right)
                if left and right:
                    monomial = tuple(sorted(monomial, key=_order))
                found[monomial] = found.get(monomial, 0) + a * b
        return _expression(found)

    @_cached
    def scaled(self, factor: int) -> Expression:
        """The product with a number."""
        return Expression(tuple((m, f * factor) for m, f in self.terms) if factor else ())

    @_cached
    def __floordiv__(self, other: Expression) -> Expression:
        """The quotient rounded down; the divisor must not be 0.

        Terms that the divisor divides are divided: (4 n + 3) // 4 = n, as 3 // 4 = 0.
        """
        if len(other.terms) != 1:
            exact = _exact_quotient(self, other)
            return _quotient(self, other) if exact is None else exact
        ((monomial_by, divisor),) = other.terms
        divided: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, factor in self.terms:
            left = _without(monomial, monomial_by)
            if left is None or factor % divisor:
                rest[monomial] = factor
            else:
                divided[left] = factor // divisor
        remainder = _expression(rest)
        if remainder.constant is None or monomial_by:
            last = _quotient(remainder, other) if rest else _expression({})
        else:
            last = _number(remainder.constant // divisor)
        return _expression(divided) + last

    def __mod__(self, other: Expression) -> Expression:
        """What the division rounded down leaves."""
        return self - other * (self // other)

    def __str__(self) -> str:
        """The expression with Python's operators."""
        texts = [
            " * ".join((*(() if factor == 1 and monomial else (str(factor),)), *map(str, monomial)))
            for monomial, factor in self.terms
        ]
        return " + ".join(texts) or "0"


class _Every(dict[str, int]):
    """The same size for every symbol."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __missing__(self, symbol: str) -> int:
        """Return the size."""
        return self.size


def _sample(expression: Expression, every: _Every) -> int | None:
    try:
        return expression.evaluate(every)
    except ZeroDivisionError:
        return None


_SAMPLES = tuple(map(_Every, (1, 2, 17, 1 << 20)))


@_cached
def _number(value: int) -> Expression:
    return Expression((((), value),) if value else ())


def _lower_bound(terms: _Terms) -> int | None:
    if any(monomial and factor < 0 for monomial, factor in terms):
        return None
    bound = 0
    for monomial, factor in terms:
        bounds = [1 if isinstance(a, str) else _least(a) for a in monomial]
        if None in bounds or any(b < 0 for b in bounds if b is not None):
            return None
        bound += factor * prod(b for b in bounds if b is not None)
    return bound


def _least(quotient: Quotient) -> int | None:
    dividend, divisor = quotient.dividend.least, quotient.divisor.constant
    if dividend is None or divisor is None or divisor < 1:
        return None
    return dividend // divisor


def _value(atom: Quotient, symbols: Symbols) -> int:
    return atom.dividend.evaluate(symbols) // atom.divisor.evaluate(symbols)


def _substituted(atom: Atom, known: Mapping[str, Expression]) -> Expression:
    if isinstance(atom, str):
        return known.get(atom, Expression.symbol(atom))
    divisor = atom.divisor.substitute(known)
    if not divisor.terms:
        return Expression((((atom,), 1),))
    return atom.dividend.substitute(known) // divisor


def _order(atom: Atom) -> tuple[bool, str]:
    return (False, atom) if isinstance(atom, str) else atom.order


def _expression(terms: Mapping[Monomial, int]) -> Expression:
    """The expression with these terms, in their order."""
    kept = [(monomial, factor) for monomial, factor in terms.items() if factor]
    if len(kept) < 2:
        return Expression(tuple(kept))
    return Expression(tuple(sorted(kept, key=lambda t: [_order(a) for a in t[0]], reverse=True)))


@_cached
def at_least(expression: Expression, bound: int, depth: int = 3) -> bool:
    """True if it is known to be at least `bound`."""
    if expression.least is not None:
        return expression.least >= bound
    for monomial, factor in expression.terms if depth else ():
        if len(monomial) == 1 and isinstance(atom := monomial[0], Quotient):
            by = atom.divisor.constant or 0
            if by < 1:
                continue
            # d * (x // d) is at most x, and at least x - d + 1
            least = atom.dividend - Expression.of(by - 1 if factor > 0 else 0)
            rest = expression - Expression(((monomial, factor),))
            scaled = Expression.of(by) * rest + Expression.of(factor) * least
            if at_least(scaled, by * bound - by + 1, depth - 1):
                return True
    return False


def _exceeds(left: Expression, right: Expression, bound: int) -> bool:
    """True if the difference is known to be at least `bound`; often one size shows that it is not.

    It may be without a value there, as it divides by 0.
    """
    for one, other in zip(left.samples, right.samples, strict=True):
        if one is not None and other is not None and one - other < bound:
            return False
    return at_least(left - right, bound)


def one() -> Expression:
    """Return the constant 1."""
    return Expression.of(1)


def _exact_quotient(dividend: Expression, divisor: Expression) -> Expression | None:
    """The quotient by several terms, by long division; None if it leaves something."""
    (by, factor), found, rest = _leading(divisor), Expression(()), dividend
    for _ in range(_MOST_STEPS):
        if not rest.terms:
            return found
        monomial, multiple = _leading(rest)
        left = _without(monomial, by)
        if left is None or multiple % factor:
            return None
        step = Expression(((left, multiple // factor),))
        found, rest = found + step, rest - step * divisor
    return None


_MOST_STEPS = 64


def _leading(expression: Expression) -> tuple[Monomial, int]:
    """The term of the most factors."""
    return max(expression.terms, key=lambda t: (len(t[0]), [_order(a) for a in t[0]]))


def _quotient(dividend: Expression, divisor: Expression) -> Expression:
    """The quotient in one form: what divides by a number is added to less than that number."""
    by = divisor.constant
    if by is None or by < 1:
        return Expression((((Quotient(dividend, divisor),), 1),))
    if dividend.terms[0][1] < 0:  # -x // by = -((x + by - 1) // by)
        return -((-dividend + Expression.of(by - 1)) // divisor)
    variable = Expression(tuple(term for term in dividend.terms if term[0]))
    more = dict(dividend.terms).get((), 0)
    common = gcd(by, *(factor for _, factor in variable.terms))
    variable = Expression(tuple((m, factor // common) for m, factor in variable.terms))
    by, more = by // common, more // common
    whole, rest = Expression.of(more // by), Expression.of(more % by)
    if len(variable.terms) == 1 and by > 1:
        (((*_, atom), factor),) = variable.terms
        if factor == 1 and isinstance(atom, Quotient) and len(variable.terms[0][0]) == 1:
            inner = atom.divisor.constant  # x // a // b = x // (a * b)
            if inner is not None and inner > 0:
                inside = atom.dividend + rest * atom.divisor
                return whole + inside // Expression.of(inner * by)
    if by == 1:
        return variable + whole
    return whole + Expression((((Quotient(variable + rest, Expression.of(by)),), 1),))


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial without the factors of another; None if it lacks one."""
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


class Relation(StrEnum):
    """How an expression relates to 0."""

    ZERO = "== 0"
    NONZERO = "!= 0"
    NOT_NEGATIVE = ">= 0"


@immutable
class Condition:
    """A relation of an expression to 0."""

    expression: Expression
    relation: Relation

    def holds(self, symbols: Symbols) -> bool:
        """True for these values of its symbols."""
        value = self.expression.evaluate(symbols)
        if self.relation is Relation.NOT_NEGATIVE:
            return value >= 0
        return (value == 0) is (self.relation is Relation.ZERO)

    def implies(self, other: Condition) -> bool:
        """True if the other one is known to hold where this one does."""
        if self.relation is not Relation.NOT_NEGATIVE or other.relation is Relation.ZERO:
            return self == other
        if other.relation is Relation.NOT_NEGATIVE:
            return _exceeds(other.expression, self.expression, 0)
        ends = other.expression, -other.expression
        return any(_exceeds(end, self.expression, 1) for end in ends)

    def __str__(self) -> str:
        """Such as `length + -1 >= 0`."""
        return f"{self.expression} {self.relation}"
