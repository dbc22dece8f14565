"""Polynomial approximations of functions that NNAPI lacks (erf, Gelu, atan).

The coefficients are this project's own minimax fits (linear programs over 4001 points). The error
bounds compare float32 arithmetic with float64 over all numbers, and are tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import pi, sqrt

from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.call import Call
from ep_nnapi.nnapi.spec import ADD, DIV, LOGISTIC, MUL, SQRT, TANH
from ep_nnapi.ops.lib.emit import Computed, compute
from ep_nnapi.ops.lib.node import Node

_ERF = (
    1.1283798217773438,
    1.644234299659729,
    -0.04661180451512337,
    -2.5728039741516113,
    5.951167583465576,
    -6.503872394561768,
    2.920468330383301,
)
_NORMAL = (
    1.5957685708999634,
    1.1626925468444824,
    -0.01692213863134384,
    -0.45268577337265015,
    0.5205342769622803,
    -0.2801111042499542,
    0.06066637486219406,
)
_ARCTAN = (
    1.0,
    -0.33333271741867065,
    0.19997018575668335,
    -0.14224094152450562,
    0.10480161756277084,
    -0.05836775153875351,
)


def erf(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y`, the error function of x, as tanh(x p(x^2)); error at most 2e-7."""
    yield TANH((yield from _odd(n, x, _ERF)), out=y)


def gelu(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = x times the normal distribution function, computed as sigmoid(x p(x^2)).

    The error is at most 4e-7 for |x| < 4, and 2e-7 |x| beyond.
    """
    share = yield from compute(n, LOGISTIC, (yield from _odd(n, x, _NORMAL)))
    yield MUL(x, share, out=y)


def tanh_gelu(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = x (1 + tanh(c (x + 0.044715 x^3))) / 2, c = sqrt(2 / pi), using LOGISTIC."""
    twice = 2 * sqrt(2 / pi)
    square = yield from compute(n, MUL, x, x)
    factor = yield from polynomial(n, square, (twice, 0.044715 * twice))
    share = yield from compute(n, LOGISTIC, (yield from compute(n, MUL, x, factor)))
    yield MUL(x, share, out=y)


def swish(n: Node, x: Value, y: Value, alpha: float = 1.0) -> Iterator[Call]:
    """Emit `y` = x sigmoid(alpha x)."""
    scaled = x
    if alpha != 1.0:
        scaled = yield from compute(n, MUL, x, n.scalar(alpha, x))
    share = yield from compute(n, LOGISTIC, scaled)
    yield MUL(x, share, out=y)


def _odd(n: Node, x: Value, coefficients: Sequence[float]) -> Computed:
    """Return x p(u) with u = (x / 4)^2, scaled so that no coefficient is tiny."""
    quarter = yield from compute(n, MUL, x, n.scalar(0.25, x))
    square = yield from compute(n, MUL, quarter, quarter)
    factor = yield from polynomial(n, square, coefficients)
    return (yield from compute(n, MUL, x, factor))


def polynomial(n: Node, x: Value, coefficients: Sequence[float]) -> Computed:
    """Return c0 + c1 x + c2 x^2 + ..., by Horner's rule."""
    first, *rest, last = coefficients
    total = yield from compute(n, MUL, x, n.scalar(last, x))
    for coefficient in reversed(rest):
        total = yield from compute(n, ADD, total, n.scalar(coefficient, x))
        total = yield from compute(n, MUL, total, x)
    return (yield from compute(n, ADD, total, n.scalar(first, x)))


def arctan(n: Node, x: Value) -> Computed:
    """Return atan(x) for |x| <= 1, error at most 2e-7: 2 atan(tan(a / 2)) by a polynomial."""
    half = yield from half_angle(n, x)
    square = yield from compute(n, MUL, half, half)
    factor = yield from polynomial(n, square, _ARCTAN)
    angle = yield from compute(n, MUL, half, factor)
    return (yield from compute(n, MUL, angle, n.scalar(2, x)))


def half_angle(n: Node, x: Value) -> Computed:
    """Return tan(a / 2) for x = tan(a): x / (1 + sqrt(1 + x^2)), for |x| up to 1e18."""
    square = yield from compute(n, MUL, x, x)
    more = yield from compute(n, ADD, square, n.scalar(1, x))
    root = yield from compute(n, SQRT, more)
    return (yield from compute(n, DIV, x, (yield from compute(n, ADD, root, n.scalar(1, x)))))
