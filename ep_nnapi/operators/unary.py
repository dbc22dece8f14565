"""Functions of one tensor, element by element; those that NNAPI lacks are composed.

The error bounds, absolute or relative to the result y, are tested.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from math import log, pi, sqrt

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.activation import ASINH, ATANH, SINH, arctan, half_angle, near_zero
from ep_nnapi.operators.lib.activation import erf as error_function
from ep_nnapi.operators.lib.node import Computed, Node, each, one_to_one, op, widened

ONE_TO_ONE = (
    one_to_one("Exp", spec.EXP, since=6, function=True),
    one_to_one("Floor", spec.FLOOR, since=6),
    one_to_one("Log", spec.LOG, since=6, function=True),
    one_to_one("Sin", spec.SIN, since=7, function=True),
    one_to_one("Sqrt", spec.SQRT, since=6, function=True),
)


@op("Abs", since=6)
def absolute_value(n: Node) -> Iterator[Call]:
    """The magnitude; RELU(x) + RELU(-x) where the level has no ABS, which is as exact."""
    yield from n.absolute(n.input(0), n.output())


@op("Neg", since=6)
def negation(n: Node) -> Iterator[Call]:
    """The opposite; a product with -1 where the level has no NEG."""
    yield from n.negative(n.input(0), n.output())


@op("Ceil", since=6)
def ceil(n: Node) -> Iterator[Call]:
    """The least integer above: -floor(-x)."""
    x, y = n.input(0), n.output()
    below = n.temp(x)
    yield from n.negative(x, below)
    floor = yield from n.compute(spec.FLOOR, below)
    yield from n.negative(floor, y)


@op("Round", since=11)
def round_half_to_even(n: Node) -> Iterator[Call]:
    """The nearest integer, of two as near the even one: floor(x), or one more."""
    x, y = n.input(0), n.output()
    half, boolean = n.scalar(0.5, x), DType.BOOL
    floor = yield from n.compute(spec.FLOOR, x)
    fraction = yield from n.compute(spec.SUB, x, floor)
    halved = yield from n.compute(spec.MUL, floor, half)
    even = yield from n.compute(spec.FLOOR, halved)
    odd = yield from n.compute(spec.NOT_EQUAL, even, halved, dtype=boolean)
    tie = yield from n.compute(spec.EQUAL, fraction, half, dtype=boolean)
    tie_up = yield from n.compute(spec.LOGICAL_AND, tie, odd)
    above = yield from n.compute(spec.GREATER, fraction, half, dtype=boolean)
    up = yield from n.compute(spec.LOGICAL_OR, above, tie_up)
    more = yield from n.compute(spec.ADD, floor, n.scalar(1, x))
    yield apply(spec.SELECT, up, more, floor, out=y)


@op("Reciprocal", since=6)
def reciprocal(n: Node) -> Iterator[Call]:
    """1 / x."""
    x = n.input(0)
    yield apply(spec.DIV, n.scalar(1, x), x, out=n.output())


@op("Sign", since=9)
def sign(n: Node) -> Iterator[Call]:
    """-1, 0 or 1: x clipped to [-1, 1] after being made large, twice for subnormal numbers."""
    x, y = n.input(0), n.output()
    if x.dtype is DType.INT32:
        below = yield from n.compute(spec.MINIMUM, x, n.scalar(1, x))
        yield apply(spec.MAXIMUM, below, n.scalar(-1, x), out=y)
        return
    floats = x.dtype in (DType.FLOAT, DType.FLOAT16)
    n.require(floats, Reason.DTYPE, f"{x.name} is {x.dtype.name}, not INT32 or a float")
    large = n.scalar(float(n.limits(x).max), x)
    once = yield from n.compute(spec.MUL, x, large, activation=FuseCode.RELU1)
    yield apply(spec.MUL, once, large, activation=FuseCode.RELU1, out=y)


@op("Cos", since=7, function=True)
@widened
def cosine(n: Node) -> Iterator[Call]:
    """1 - 2 sin(x/2)^2, within 3e-7: x/2 is exact, where x + pi/2 would lose digits."""
    x, y = n.input(0), n.output()
    half = yield from n.compute(spec.MUL, x, n.scalar(0.5, x))
    sine = yield from n.compute(spec.SIN, half)
    square = yield from n.compute(spec.MUL, sine, sine)
    twice = yield from n.compute(spec.MUL, square, n.scalar(-2, x))
    yield apply(spec.ADD, twice, n.scalar(1, x), out=y)


@op("Erf", since=9, function=True)
@widened
def erf(n: Node) -> Iterator[Call]:
    """The error function, within 2e-7."""
    x, y = n.input(0), n.output()
    yield from error_function(n, x, y)


@op("IsNaN", since=9)
def is_nan(n: Node) -> Iterator[Call]:
    """True where x is not a number: where it differs from itself."""
    x = n.input(0)
    yield apply(spec.NOT_EQUAL, x, x, out=n.output())


@op("IsInf", since=10)
def is_infinite(n: Node) -> Iterator[Call]:
    """True where x is infinite; `detect_positive` and `detect_negative` select the signs."""
    x, y = n.input(0), n.output()
    positive, negative_too = n.integer("detect_positive", 1), n.integer("detect_negative", 1)
    infinity = n.scalar(float("inf"), x)
    if positive and negative_too:
        size = n.temp(x)
        yield from n.absolute(x, size)
        yield apply(spec.EQUAL, size, infinity, out=y)
    elif positive or negative_too:
        yield apply(spec.EQUAL, x, infinity if positive else n.scalar(float("-inf"), x), out=y)
    else:
        equal = yield from n.compute(spec.EQUAL, x, x, dtype=DType.BOOL)
        unequal = yield from n.compute(spec.NOT_EQUAL, x, x, dtype=DType.BOOL)
        yield apply(spec.LOGICAL_AND, equal, unequal, out=y)


RIGHT = 1e9
"""A number whose arctangent rounds to pi/2 in float32."""


@op("Sinh", since=9)
@widened
def sinh(n: Node) -> Iterator[Call]:
    """(e^x - e^-x) / 2, below 1 by a polynomial, within 7e-7 |y|."""
    far = yield from n.compute(spec.SUB, *(yield from _halves(n)))
    yield from near_zero(n, SINH, far)


@op("Cosh", since=9)
@widened
def cosh(n: Node) -> Iterator[Call]:
    """(e^x + e^-x) / 2, within 4e-7 |y|."""
    parts = yield from _halves(n)
    yield apply(spec.ADD, *parts, out=n.output())


def _halves(n: Node) -> Generator[Call, None, list[Value]]:
    """Return e^x / 2 and e^-x / 2.

    e^x is computed as the square of e^(x/2), which overflows only where the result does.
    """
    x, parts = n.input(0), []
    for factor in (0.5, -0.5):
        half = yield from n.compute(spec.MUL, x, n.scalar(factor, x))
        root = yield from n.compute(spec.EXP, half)
        halved = yield from n.compute(spec.MUL, root, n.scalar(0.5, x))
        parts.append((yield from n.compute(spec.MUL, halved, root)))
    return parts


@op("Atan", since=7)
@widened
def atan(n: Node) -> Iterator[Call]:
    """The angle of a tangent, within 4e-7."""
    x, y = n.input(0), n.output()
    right = min(RIGHT, sqrt(n.limits(x).max) - 5)  # whose square is finite
    below = yield from n.compute(spec.MINIMUM, x, n.scalar(right, x))
    within = yield from n.compute(spec.MAXIMUM, below, n.scalar(-right, x))
    half = yield from half_angle(n, within)
    angle = yield from arctan(n, half)
    yield apply(spec.MUL, angle, n.scalar(2, x), out=y)


@op("Asin", since=7)
@widened
def asin(n: Node) -> Iterator[Call]:
    """The angle of a sine, within 4e-7."""
    half = yield from _half_arcsine(n, n.input(0))
    yield apply(spec.MUL, half, n.scalar(2, half), out=n.output())


@op("Acos", since=7)
@widened
def acos(n: Node) -> Iterator[Call]:
    """The angle of a cosine: pi/2 - asin(x), within 6e-7."""
    half = yield from _half_arcsine(n, n.input(0))
    angle = yield from n.compute(spec.MUL, half, n.scalar(-2, half))
    yield apply(spec.ADD, angle, n.scalar(pi / 2, half), out=n.output())


def _half_arcsine(n: Node, x: Value) -> Computed:
    """asin(x) / 2 = atan(x / (1 + sqrt((1 - x) (1 + x))))."""
    one = n.scalar(1, x)
    less = yield from n.compute(spec.SUB, one, x)
    more = yield from n.compute(spec.ADD, x, one)
    product = yield from n.compute(spec.MUL, less, more)
    root = yield from n.compute(spec.SQRT, product)
    whole = yield from n.compute(spec.ADD, root, one)
    tangent = yield from n.compute(spec.DIV, x, whole)
    return (yield from arctan(n, tangent))


@op("Asinh", since=9)
@widened
def asinh(n: Node) -> Iterator[Call]:
    """log(|x| + sqrt(x^2 + 1)) with the sign of x, within 8e-7 |y|; below 1/2 by a polynomial.

    With m = |x|, at least 1 and finite: log(|x|/m + sqrt((x/m)^2 + (1/m)^2)) + log m, in which
    nothing overflows.
    """
    x, far = n.input(0), n.temp(n.input(0))
    size = yield from n.absolute_of(x)
    one = n.scalar(1, x)
    least = yield from n.compute(spec.MAXIMUM, size, one)
    most = n.scalar(float(n.limits(x).max), x)
    larger = yield from n.compute(spec.MINIMUM, least, most)  # infinity has no ratio
    ratios = yield from each(
        n.compute(spec.DIV, part, larger, shape=x.shape) for part in (size, one)
    )
    squares = yield from each(n.compute(spec.MUL, ratio, ratio) for ratio in ratios)
    square = yield from n.compute(spec.ADD, *squares)
    root = yield from n.compute(spec.SQRT, square)
    total = yield from n.compute(spec.ADD, root, ratios[0])
    logs = yield from each(n.compute(spec.LOG, part) for part in (total, larger))
    yield from n.signed_like((yield from n.compute(spec.ADD, *logs)), x, far)
    yield from near_zero(n, ASINH, far)


@op("Acosh", since=9)
@widened
def acosh(n: Node) -> Iterator[Call]:
    """log(x / 2 + sqrt(x - 1) sqrt(x + 1) / 2) + log 2, within 2e-7 + 2e-7 |y|."""
    x, y = n.input(0), n.output()
    roots = []
    for change in (-1, 1):
        moved = yield from n.compute(spec.ADD, x, n.scalar(change, x))
        roots.append((yield from n.compute(spec.SQRT, moved)))
    root = yield from n.compute(spec.MUL, *roots)
    halves = yield from each(n.compute(spec.MUL, part, n.scalar(0.5, x)) for part in (x, root))
    total = yield from n.compute(spec.ADD, *halves)
    yield apply(spec.ADD, (yield from n.compute(spec.LOG, total)), n.scalar(log(2), x), out=y)


@op("Atanh", since=9)
@widened
def atanh(n: Node) -> Iterator[Call]:
    """log((1 + x) / (1 - x)) / 2, below 1/2 by a polynomial, within 6e-7 |y|."""
    x, one = n.input(0), n.scalar(1, n.input(0))
    more = yield from n.compute(spec.ADD, x, one)
    less = yield from n.compute(spec.SUB, one, x)
    ratio = yield from n.compute(spec.DIV, more, less)
    double = yield from n.compute(spec.LOG, ratio)
    far = yield from n.compute(spec.MUL, double, n.scalar(0.5, x))
    yield from near_zero(n, ATANH, far)
