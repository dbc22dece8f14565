"""Polynomial approximations of functions that NNAPI lacks, or that its own lose near 0.

The coefficients are this project's own minimax fits (linear programs over 4001 points). The error
bounds compare float32 arithmetic with float64 over all numbers, and are tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import pi, sqrt

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import ADD, DIV, LESS, LOGISTIC, MUL, SELECT, SQRT, TANH
from ep_nnapi.operators.lib.emit import Computed, compute
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.operators.lib.signs import absolute_of

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


@dataclass(frozen=True)
class Series:
    """x p(x^2) in place of a function where |x| < `limit`, within 2e-7 |y|; `factor` is p."""

    limit: float
    factor: tuple[float, ...]


SINH = Series(1, (1.0, 0.1666671633720398, 0.008330283686518669, 0.00020372185099404305))
ASINH = Series(
    0.5,
    (
        1.0,
        -0.16666288673877716,
        0.07484758645296097,
        -0.042699363082647324,
        0.02012205868959427,
    ),
)
ATANH = Series(
    0.5,
    (
        1.0,
        0.33333730697631836,
        0.19978180527687073,
        0.14669518172740936,
        0.08242101222276688,
        0.18176434934139252,
    ),
)


def erf(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y`, the error function of x, as tanh(x p(x^2)); error at most 2e-7."""
    yield apply(TANH, (yield from _odd(n, x, _ERF)), out=y)


def gelu(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = x times the normal distribution function, computed as sigmoid(x p(x^2)).

    The error is at most 4e-7 for |x| < 4, and 2e-7 |x| beyond.
    """
    share = yield from compute(n, LOGISTIC, (yield from _odd(n, x, _NORMAL)))
    yield apply(MUL, x, share, out=y)


def tanh_gelu(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = x (1 + tanh(c (x + 0.044715 x^3))) / 2, c = sqrt(2 / pi), using LOGISTIC."""
    twice = 2 * sqrt(2 / pi)
    square = yield from compute(n, MUL, x, x)
    factor = yield from polynomial(n, square, (twice, 0.044715 * twice))
    share = yield from compute(n, LOGISTIC, (yield from compute(n, MUL, x, factor)))
    yield apply(MUL, x, share, out=y)


def swish(n: Node, x: Value, y: Value, alpha: float = 1.0) -> Iterator[Call]:
    """Emit `y` = x sigmoid(alpha x)."""
    scaled = x
    if alpha != 1.0:
        scaled = yield from compute(n, MUL, x, n.scalar(alpha, x))
    share = yield from compute(n, LOGISTIC, scaled)
    yield apply(MUL, x, share, out=y)


def log_of_more(n: Node, x: Value) -> Computed:
    """Return log(1 + x) for 0 <= x <= 1, within 4e-7 |y|: 2 atanh(x / (x + 2))."""
    more = yield from compute(n, ADD, x, n.scalar(2, x))
    share = yield from compute(n, DIV, x, more)
    return (yield from _odd(n, share, [2 * c for c in ATANH.factor], scale=1))


def near_zero(n: Node, series: Series, far: Value) -> Iterator[Call]:
    """Emit the output of a function of input 0: the series near 0, else `far`."""
    x, y = n.input(0), n.output()
    near = yield from _odd(n, x, series.factor, scale=1)
    size = yield from absolute_of(n, x)
    small = yield from compute(n, LESS, size, n.scalar(series.limit, x), dtype=DType.BOOL)
    yield apply(SELECT, small, near, far, out=y)


def _odd(n: Node, x: Value, coefficients: Sequence[float], scale: float = 0.25) -> Computed:
    """Return x p(u) with u = (x `scale`)^2, scaled so that no coefficient is tiny."""
    part = x if scale == 1 else (yield from compute(n, MUL, x, n.scalar(scale, x)))
    square = yield from compute(n, MUL, part, part)
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
