"""Sizes that are expressions of symbols: a model made for some sizes that holds for others too.

A `Size` passes for an integer, so whatever computes with sizes computes with it, and it knows the
expression that it is the value of. A comparison whose outcome depends on the symbols is noted as a
condition: what was made under its outcome holds for all sizes that meet it. A size that is used as
a plain number (converted by `int`, `float`, `range` or numpy) is noted as equal to its value. Where
its present number is read without a condition, or hashed, the trace counts it: what is made with
such a number is compared with what is made for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.expressions import (
    Condition,
    Expression,
    Relation,
    Symbols,
    at_least,
    one,
)


@dataclass(slots=True)
class Trace:
    """The conditions under which the results of computations with sizes hold, in their order.

    typical  a value for each symbol, for choices that are right at any size, such as a layout
    equal    the expression in other symbols that a symbol equals under the conditions so far
    passed   memo of checks that hold under these conditions: the result by the arguments
    unnoted  how often the number of a size was read without a condition being added
    """

    typical: dict[str, int] = field(default_factory=dict)
    equal: dict[str, Expression] = field(default_factory=dict)
    passed: dict[Any, Any] = field(default_factory=dict)
    unnoted: int = 0
    _conditions: dict[Condition, None] = field(default_factory=dict)
    _independent: tuple[Condition, ...] = ()
    _reduced: int = 0

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions so far without those that follow from others."""
        found = self._independent
        for new in islice(self._conditions, self._reduced, None):
            if not any(old.implies(new) for old in found):
                found = (*(old for old in found if not new.implies(old)), new)
        self._independent, self._reduced = found, len(self._conditions)
        return found

    @property
    def state(self) -> tuple[int, int, dict[str, Expression]]:
        """What `restore` returns to."""
        return len(self._conditions), len(self.passed), self.equal

    def restore(self, state: tuple[int, int, dict[str, Expression]]) -> None:
        """Forget what has been noted since."""
        conditions, passed, self.equal = state
        self._independent, self._reduced = (), 0
        for noted, count in ((self._conditions, conditions), (self.passed, passed)):
            for key in list(noted)[count:]:
                del noted[key]

    def size(self, name: str, value: int) -> int:
        """Return the size of a symbol that has this value now."""
        self.typical.setdefault(name, value)
        return Size.of(value, Expression.symbol(name), self)

    def note(self, expression: Expression, relation: Relation) -> None:
        """Note a condition."""
        expression = expression.substitute(self.equal)
        if expression.constant is None or (relation is Relation.ZERO and expression.terms):
            self._conditions[Condition(expression, relation)] = None
        if relation is Relation.ZERO:
            self._solve(expression)

    def _solve(self, zero: Expression) -> None:
        """Solve an equation for the last symbol that is in one term only, and there alone.

        Its coefficient must divide all the others: 4 size - 32 = 0 gives size = 8.
        """
        for name in reversed(self.typical):
            factor = dict(zero.terms).get((name,), 0)
            rest = zero - Expression((((name,), factor),)) if factor else zero
            whole = factor and all(of % factor == 0 for _, of in rest.terms)
            if whole and name not in rest.symbols:
                found = {name: Expression(tuple((each, -of // factor) for each, of in rest.terms))}
                self.equal = {k: e.substitute(found) for k, e in self.equal.items()} | found
                return


if TYPE_CHECKING:
    _Integer = int
else:

    class _Integer:
        """An `int` to `isinstance` and none to C, which therefore asks for its number."""

        __slots__ = ()
        __class__ = int


class Size(_Integer):
    """The value of an expression, as `Trace.size` and arithmetic with its results make it."""

    __slots__ = ("expression", "number", "trace")
    expression: Expression
    number: int
    trace: Trace

    @staticmethod
    def of(value: int, expression: Expression, trace: Trace) -> int:
        """Return the size; a plain number if the expression is constant."""
        if expression.constant is not None:
            return expression.constant
        made = object.__new__(Size)
        made.number, made.expression, made.trace = value, expression, trace
        return made

    def __reduce__(self) -> tuple[Callable[..., int], tuple[int, Expression, Trace]]:
        """Return what it is made of."""
        return Size.of, (self.number, self.expression, self.trace)

    def __repr__(self) -> str:
        """Its number."""
        return repr(self.number)

    def __format__(self, spec: str) -> str:
        """Its number."""
        return format(self.number, spec)

    def __array__(self, dtype: np.dtype[Any] | None = None, *, copy: bool | None = None) -> Array:
        """Its number, which becomes a condition; `objects` keeps it."""
        return np.array(self.plain(), dtype)

    def plain(self) -> int:
        """Return its value and note that it is this one."""
        self.trace.note(self.expression - Expression.of(self.number), Relation.ZERO)
        return self.number

    def _made(self, value: int, expression: Expression) -> int:
        return Size.of(value, expression, self.trace)

    def _is(self, expression: Expression, relation: Relation, outcome: bool) -> bool:
        """Return `outcome`, of the relation, after noting what it depends on."""
        expression = expression.substitute(self.trace.equal)
        if expression.constant is not None:
            return outcome
        if relation is Relation.NOT_NEGATIVE:
            true = expression if outcome else -expression - one()
            if not at_least(true, 0):
                self.trace.note(true, relation)
        elif outcome:
            self.trace.note(expression, Relation.ZERO)
        elif not any(at_least(e, 1) for e in (expression, -expression)):
            self.trace.note(expression, Relation.NONZERO)
        return outcome

    def __add__(self, other: int, /) -> int:
        """The sum."""
        if not isinstance(other, int):
            return _as_number(self, other, "__add__")
        return self._made(self.number + at_present(other), self.expression + Expression.of(other))

    __radd__ = __add__

    def __sub__(self, other: int, /) -> int:
        """The difference."""
        if not isinstance(other, int):
            return _as_number(self, other, "__sub__")
        return self._made(self.number - at_present(other), self.expression - Expression.of(other))

    def __rsub__(self, other: int, /) -> int:
        """The difference from a number."""
        return -self + other

    def __neg__(self) -> int:
        """The negated size."""
        return self._made(-self.number, -self.expression)

    def __abs__(self) -> int:
        """The size without its sign."""
        return self if self >= 0 else -self

    def __mul__(self, other: int, /) -> int:
        """The product."""
        if not isinstance(other, int):
            return _as_number(self, other, "__mul__")
        if type(other) is int:
            value = self.number * other
            return self if other == 1 else self._made(value, self.expression.scaled(other))
        return self._made(self.number * at_present(other), self.expression * Expression.of(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: int, /) -> int:
        """The quotient rounded down."""
        return _divided(self, other)

    def __rfloordiv__(self, other: int, /) -> int:
        """A number divided by the size."""
        return _divided(other, self)

    def __mod__(self, other: int, /) -> int:
        """What the division leaves."""
        return self - other * (self // other)

    def __rmod__(self, other: int, /) -> int:
        """What a number divided by the size leaves."""
        return other - self * (other // self)

    def __divmod__(self, other: int, /) -> tuple[int, int]:
        """Quotient and remainder."""
        return self // other, self % other

    def __rdivmod__(self, other: int, /) -> tuple[int, int]:
        """Quotient and remainder of a number."""
        return other // self, other % self

    def __eq__(self, other: object) -> bool:
        """True if equal, which becomes a condition."""
        if self is other:
            return True
        if type(other) is int:
            least = self.expression.least
            if least is not None and other < least:
                return False
        elif not isinstance(other, int):
            return self.plain() == other if isinstance(other, float) else NotImplemented
        expression = self.expression - Expression.of(other)
        return self._is(expression, Relation.ZERO, self.number == at_present(other))

    def __ne__(self, other: object) -> bool:
        """True if not equal, which becomes a condition."""
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        """That of its number: what is not found by it may be found by another."""
        self.trace.unnoted += 1
        return hash(self.number)

    def __ge__(self, other: int, /) -> bool:
        """True if not less, which becomes a condition."""
        if not isinstance(other, int):
            return self.plain() >= other
        if type(other) is int:
            least = self.expression.least
            if least is not None and least >= other:
                return True
        expression = self.expression - Expression.of(other)
        return self._is(expression, Relation.NOT_NEGATIVE, self.number >= at_present(other))

    def __le__(self, other: int, /) -> bool:
        """True if not greater, which becomes a condition."""
        return not self > other

    def __lt__(self, other: int, /) -> bool:
        """True if less, which becomes a condition."""
        return not self >= other

    def __gt__(self, other: int, /) -> bool:
        """True if greater, which becomes a condition."""
        return self >= other + 1

    def __bool__(self) -> bool:
        """True unless it is 0, which becomes a condition."""
        least = self.expression.least
        return (least is not None and least > 0) or self != 0

    def __int__(self) -> int:
        """Its value, which becomes a condition."""
        return self.plain()

    __trunc__ = __floor__ = __ceil__ = __index__ = __int__

    def __float__(self) -> float:
        """Its value, which becomes a condition."""
        return float(self.plain())


def _of_plain(name: str) -> Callable[..., int]:
    """An operation of integers with the value of a size, which becomes a condition."""

    def operate(size: Size, *others: int) -> int:
        return cast("int", getattr(size.plain(), name)(*plain(others)))

    return operate


for _name in ("and", "or", "xor", "lshift", "rshift", "pow", "truediv"):
    setattr(Size, f"__{_name}__", _of_plain(f"__{_name}__"))
    setattr(Size, f"__r{_name}__", _of_plain(f"__r{_name}__"))


def _as_number(size: Size, other: object, operation: str) -> int:
    """The result with the value of the size if the other operand is a float or a sequence."""
    given: object = float(size) if isinstance(other, float) else size.plain()
    if isinstance(other, (float, tuple, list, str)):
        result = cast("int", getattr(other, operation)(given))
        return -result if operation == "__sub__" else result
    return NotImplemented  # type: ignore[no-any-return]  # as operators do


def _divided(dividend: int, divisor: int) -> int:
    """The quotient rounded down; that its divisor is not 0 becomes a condition."""
    trace = next(s.trace for s in (dividend, divisor) if isinstance(s, Size))
    if not divisor:
        raise ZeroDivisionError("integer division or modulo by zero")
    value = at_present(dividend) // at_present(divisor)
    return Size.of(value, Expression.of(dividend) // Expression.of(divisor), trace)


def typical(size: int) -> int:
    """Return the value of a size for the typical values of its symbols; no condition."""
    return size.expression.evaluate(size.trace.typical) if isinstance(size, Size) else size


def bound(sizes: Iterable[int], symbols: Symbols) -> tuple[int, ...]:
    """Return the sizes as plain numbers, for values of their symbols."""
    return tuple(s.expression.evaluate(symbols) if isinstance(s, Size) else index(s) for s in sizes)


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast; raises ValueError if they do not."""
    rank = max(map(len, shapes), default=0)
    wide = [shape if len(shape) == rank else _widened(shape, rank) for shape in shapes]
    return tuple([_stretched(sizes) for sizes in zip(*wide, strict=True)])


def _widened(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + tuple(shape)


def _stretched(sizes: Iterable[int]) -> int:
    """The size that others broadcast to: a `Size` is equal to them, even if it may be 1."""
    found = 1
    for size in sizes:
        if size is found:
            continue
        if is_one(found):
            found = size
        elif not is_one(size) and size != found:
            raise ValueError(f"sizes {found} and {size} do not broadcast")
    return found


def is_one(size: int) -> bool:
    """True for 1; False for a `Size`, without a condition: nothing may depend on it not being 1."""
    return type(size) is not Size and size == 1


def are_ones(sizes: Iterable[int]) -> bool:
    """True for sizes of a tensor of one element, as `is_one`."""
    return all(map(is_one, sizes))


def is_symbolic(numbers: Iterable[int]) -> bool:
    """Return True if one of them is a `Size`."""
    return Size in map(type, numbers)  # nothing is derived from it


def plain(sizes: Iterable[int]) -> tuple[int, ...]:
    """Return the sizes as the numbers that they are, which becomes a condition for each."""
    found = tuple(sizes)
    if Size not in map(type, found):
        return found
    return tuple([s.plain() if isinstance(s, Size) else s for s in found])


def objects(numbers: Iterable[object]) -> Array:
    """Return the numbers as an object array of rank 1: numpy would turn each `Size` into an int."""
    given = [*numbers]
    found = np.empty(len(given), object)
    for at, number in enumerate(given):
        found[at] = number
    return found


def identical(left: Iterable[int], right: Iterable[int]) -> bool:
    """True if the sizes are equal for all values of their symbols; nothing becomes a condition."""
    a, b = [*left], [*right]
    if len(a) != len(b):
        return False
    if Size not in map(type, (*a, *b)):
        return a == b
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not y]
    return all(Expression.of(x) is Expression.of(y) for x, y in pairs)


def now(size: int) -> int:
    """Return a size's present number without a condition, for choices that any size allows."""
    if not isinstance(size, Size):
        return size
    size.trace.unnoted += 1
    return size.number


def at_present(size: int) -> int:
    """Return the same for checks, and for what holds the size too; it counts as noted."""
    if type(size) is int:  # as most are
        return size
    return size.number if isinstance(size, Size) else index(size)
