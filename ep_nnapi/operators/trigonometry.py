"""Hyperbolic and inverse trigonometric functions, composed of NNAPI operations.

The error bounds, absolute or relative to the result y, are tested.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from math import log, pi, sqrt

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import ADD, DIV, EXP, LOG, MAXIMUM, MINIMUM, MUL, SQRT, SUB
from ep_nnapi.operators.lib.approximations import ASINH, ATANH, SINH, arctan, half_angle, near_zero
from ep_nnapi.operators.lib.emit import Computed, compute, each
from ep_nnapi.operators.lib.node import Node, op
from ep_nnapi.operators.lib.signs import absolute_of, signed_like
from ep_nnapi.operators.lib.widening import widened

RIGHT = 1e9
"""A number whose arctangent rounds to pi/2 in float32."""


@op("Sinh", since=9)
@widened
def sinh(n: Node) -> Iterator[Call]:
    """(e^x - e^-x) / 2, below 1 by a polynomial, within 7e-7 |y|.

    Source: ONNX Sinh-9, Sinh-22; NDK ANEURALNETWORKS_EXP; `approximations.SINH`.
    """
    far = yield from compute(n, SUB, *(yield from _halves(n)))
    yield from near_zero(n, SINH, far)


@op("Cosh", since=9)
@widened
def cosh(n: Node) -> Iterator[Call]:
    """(e^x + e^-x) / 2, within 4e-7 |y|.

    Source: ONNX Cosh-9, Cosh-22; NDK ANEURALNETWORKS_EXP.
    """
    parts = yield from _halves(n)
    yield apply(ADD, *parts, out=n.output())


def _halves(n: Node) -> Generator[Call, None, list[Value]]:
    """Return e^x / 2 and e^-x / 2.

    e^x is computed as the square of e^(x/2), which overflows only where the result does.
    """
    x, parts = n.input(0), []
    for factor in (0.5, -0.5):
        half = yield from compute(n, MUL, x, n.scalar(factor, x))
        root = yield from compute(n, EXP, half)
        halved = yield from compute(n, MUL, root, n.scalar(0.5, x))
        parts.append((yield from compute(n, MUL, halved, root)))
    return parts


@op("Atan", since=7)
@widened
def atan(n: Node) -> Iterator[Call]:
    """The angle of a tangent, within 4e-7.

    Source: ONNX Atan-7, Atan-22; NDK ANEURALNETWORKS_SQRT; `curves.arctan`.
    """
    x, y = n.input(0), n.output()
    right = min(RIGHT, sqrt(n.limits(x).max) - 5)  # whose square is finite
    below = yield from compute(n, MINIMUM, x, n.scalar(right, x))
    within = yield from compute(n, MAXIMUM, below, n.scalar(-right, x))
    half = yield from half_angle(n, within)
    angle = yield from arctan(n, half)
    yield apply(MUL, angle, n.scalar(2, x), out=y)


@op("Asin", since=7)
@widened
def asin(n: Node) -> Iterator[Call]:
    """The angle of a sine, within 4e-7.

    Source: ONNX Asin-7, Asin-22; NDK ANEURALNETWORKS_SQRT; `curves.arctan`.
    """
    half = yield from _half_arcsine(n, n.input(0))
    yield apply(MUL, half, n.scalar(2, half), out=n.output())


@op("Acos", since=7)
@widened
def acos(n: Node) -> Iterator[Call]:
    """The angle of a cosine: pi/2 - asin(x), within 6e-7.

    Source: ONNX Acos-7, Acos-22; NDK ANEURALNETWORKS_SQRT; `curves.arctan`.
    """
    half = yield from _half_arcsine(n, n.input(0))
    angle = yield from compute(n, MUL, half, n.scalar(-2, half))
    yield apply(ADD, angle, n.scalar(pi / 2, half), out=n.output())


def _half_arcsine(n: Node, x: Value) -> Computed:
    """asin(x) / 2 = atan(x / (1 + sqrt((1 - x) (1 + x))))."""
    one = n.scalar(1, x)
    less = yield from compute(n, SUB, one, x)
    more = yield from compute(n, ADD, x, one)
    product = yield from compute(n, MUL, less, more)
    root = yield from compute(n, SQRT, product)
    whole = yield from compute(n, ADD, root, one)
    tangent = yield from compute(n, DIV, x, whole)
    return (yield from arctan(n, tangent))


@op("Asinh", since=9)
@widened
def asinh(n: Node) -> Iterator[Call]:
    """log(|x| + sqrt(x^2 + 1)) with the sign of x, within 8e-7 |y|; below 1/2 by a polynomial.

    With m = |x|, at least 1 and finite: log(|x|/m + sqrt((x/m)^2 + (1/m)^2)) + log m, in which
    nothing overflows.

    Source: ONNX Asinh-9, Asinh-22; NDK ANEURALNETWORKS_LOG; `approximations.ASINH`.
    """
    x, far = n.input(0), n.temp(n.input(0))
    size = yield from absolute_of(n, x)
    one = n.scalar(1, x)
    least = yield from compute(n, MAXIMUM, size, one)
    most = n.scalar(float(n.limits(x).max), x)
    larger = yield from compute(n, MINIMUM, least, most)  # infinity has no ratio
    ratios = yield from each(compute(n, DIV, part, larger, shape=x.shape) for part in (size, one))
    squares = yield from each(compute(n, MUL, ratio, ratio) for ratio in ratios)
    square = yield from compute(n, ADD, *squares)
    root = yield from compute(n, SQRT, square)
    total = yield from compute(n, ADD, root, ratios[0])
    logs = yield from each(compute(n, LOG, part) for part in (total, larger))
    yield from signed_like(n, (yield from compute(n, ADD, *logs)), x, far)
    yield from near_zero(n, ASINH, far)


@op("Acosh", since=9)
@widened
def acosh(n: Node) -> Iterator[Call]:
    """log(x / 2 + sqrt(x - 1) sqrt(x + 1) / 2) + log 2, within 2e-7 + 2e-7 |y|.

    Source: ONNX Acosh-9, Acosh-22; NDK ANEURALNETWORKS_LOG.
    """
    x, y = n.input(0), n.output()
    roots = []
    for change in (-1, 1):
        moved = yield from compute(n, ADD, x, n.scalar(change, x))
        roots.append((yield from compute(n, SQRT, moved)))
    root = yield from compute(n, MUL, *roots)
    halves = yield from each(compute(n, MUL, part, n.scalar(0.5, x)) for part in (x, root))
    total = yield from compute(n, ADD, *halves)
    yield apply(ADD, (yield from compute(n, LOG, total)), n.scalar(log(2), x), out=y)


@op("Atanh", since=9)
@widened
def atanh(n: Node) -> Iterator[Call]:
    """log((1 + x) / (1 - x)) / 2, below 1/2 by a polynomial, within 6e-7 |y|.

    Source: ONNX Atanh-9, Atanh-22; NDK ANEURALNETWORKS_LOG; `approximations.ATANH`.
    """
    x, one = n.input(0), n.scalar(1, n.input(0))
    more = yield from compute(n, ADD, x, one)
    less = yield from compute(n, SUB, one, x)
    ratio = yield from compute(n, DIV, more, less)
    double = yield from compute(n, LOG, ratio)
    far = yield from compute(n, MUL, double, n.scalar(0.5, x))
    yield from near_zero(n, ATANH, far)
