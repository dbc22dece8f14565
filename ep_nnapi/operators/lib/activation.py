"""Lowering of activation functions: piecewise linear ones, and approximations by polynomials.

The coefficients are this project's own minimax fits (linear programs over 4001 points). The error
bounds compare float32 arithmetic with float64 over all numbers, and are tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isclose, pi, sqrt
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value, only_element
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.operators.lib.movement import broadcast
from ep_nnapi.operators.lib.node import Computed, Node
from ep_nnapi.operators.lib.quantizing import (
    dequantized,
    exact_constant,
    is_8bit,
    nearest_constant,
    value_range,
)

ClipBound: TypeAlias = Value | Constant | None

_BOUNDS_ARE_INPUTS = 11
"""The schema version of Clip from which `min` and `max` are inputs."""
_FUSED = {(0.0, None): spec.RELU, (-1.0, 1.0): spec.RELU1, (0.0, 6.0): spec.RELU6}


def clip(n: Node, x: Value, bounds: tuple[ClipBound, ClipBound], y: Value) -> Iterator[Call]:
    """Emit `y` = `x` clipped to (low, high), each optional; RELU, RELU1 or RELU6 where exact."""
    low, high = bounds
    if is_8bit(y):
        yield from _clip_bytes(n, x, bounds, y)
        return
    if not isinstance(low, Value) and not isinstance(high, Value):
        known = _number(low), _number(high)
        if known == (None, None):
            yield from n.reshape(x, y)
            return
        if known in _FUSED and x.dtype is not DType.INT32:
            yield apply(_FUSED[known], x, out=y)
            return
    if high is None:
        yield apply(spec.MAXIMUM, x, low, out=y)
        return
    if low is not None:
        x = yield from n.compute(spec.MAXIMUM, x, low, shape=x.shape)
    yield apply(spec.MINIMUM, x, high, out=y)


def _clip_bytes(n: Node, x: Value, bounds: tuple[ClipBound, ClipBound], y: Value) -> Iterator[Call]:
    """Emit `clip` for an 8-bit quantized `y`; bounds outside the range of `y` need no operation."""
    low, high = _known(bounds)
    least, greatest = value_range(y)
    if low <= least and high >= greatest:
        yield from n.reshape(x, y)
        return
    exact = {(a, inf if b is None else b): row for (a, b), row in _FUSED.items()}
    ends = (low if low > least else -inf, high if high < greatest else inf)
    row = exact.get((low, high), exact.get(ends))
    if row is not None:
        yield apply(row, x, out=y)
        return
    part = n.temp(y)
    yield from n.reshape(x, part)
    if ends[0] != -inf:
        out = n.temp(y) if ends[1] != inf else y
        yield apply(spec.MAXIMUM, part, nearest_constant(low, y), out=out)
        part = out
    if ends[1] != inf:
        yield apply(spec.MINIMUM, part, nearest_constant(high, y), out=y)


def _known(bounds: tuple[ClipBound, ClipBound]) -> tuple[float, float]:
    """Return constant bounds as numbers, infinite if omitted; raise Reject(CONSTANT) for others."""
    found = []
    for given, none in zip(bounds, (-inf, inf), strict=True):
        if isinstance(given, Value):
            raise Reject(
                Reason.CONSTANT, f"{given.name} must be constant to clip a quantized tensor"
            )
        found.append(none if given is None else float(only_element(given, "a bound")))
    return found[0], found[1]


def bounds_of(n: Node) -> tuple[ClipBound, ClipBound]:
    """Return the (low, high) bounds of a Relu or Clip node, None where omitted."""
    if n.node.op_type == "Relu":
        return Constant.of(np.zeros(1, np.float32)), None
    if n.node.since < _BOUNDS_ARE_INPUTS:
        low, high = (
            Constant.of(np.array([n.real(name)], np.float32)) if n.has_attribute(name) else None
            for name in ("min", "max")
        )
        return low, high
    given = [n.input(i) if n.has(i) else None for i in (1, 2)]
    for bound in given:
        if bound is not None:
            shape = list(bound.shape)
            fits = len(shape) <= 1
            n.require(fits, Reason.SHAPE, f"{bound.name} has shape {shape}; it must be a scalar")
    low_value, high_value = (
        b and dequantized(b, b.dtype if b.quantization is None else DType.FLOAT) for b in given
    )
    return _constant(low_value), _constant(high_value)


def _constant(given: Value | None) -> ClipBound:
    return given if given is None or given.constant is None else given.constant


def is_implied(n: Node, y: Value) -> bool:
    """True if saturation in the 8-bit type of `y` already does what the Relu or Clip node does."""
    if not is_8bit(y):
        return False
    try:
        low, high = _known(bounds_of(n))
    except Reject:
        return False
    least, greatest = value_range(y)
    return low <= least and high >= greatest


def _number(constant: Constant | None) -> float | None:
    """Return the bound as a number; None where it does not limit any finite number."""
    if constant is None:
        return None
    number, limits = float(only_element(constant, "a bound")), constant.dtype.numpy
    infinite = limits.kind == "f" and abs(number) >= float(np.finfo(limits).max)
    return None if infinite else number


def write_hard_sigmoid(
    n: Node, x: Value, y: Value, alpha: float = 0.2, beta: float = 0.5
) -> Iterator[Call]:
    """Emit `y` = alpha x + beta between 0 and 1: a sixth of RELU6 of six times that."""
    slope, scaled = 6 * float(np.float32(alpha)), x
    if not isclose(slope, 1, rel_tol=2**-25):  # 1 in float32
        scaled = yield from n.compute(spec.MUL, x, n.scalar(slope, x))
    term = n.scalar(6 * beta, x)
    share = yield from n.compute(spec.ADD, scaled, term, activation=FuseCode.RELU6)
    yield apply(spec.MUL, share, n.scalar(1 / 6, x), out=y)


def write_prelu(n: Node, x: Value, slope: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = `x`, multiplied by `slope` where negative.

    Where the level has no PRELU: RELU(x) - slope RELU(-x), with the same result.
    """
    if n.supports(apply(spec.PRELU, x, slope, out=y)) or x.quantization is not None:
        yield from broadcast(n, spec.PRELU, (x, slope), y)
        return
    below = yield from n.compute(spec.MUL, x, n.scalar(-1, x), activation=FuseCode.RELU)
    scaled = n.temp(x)
    yield from broadcast(n, spec.MUL, (below, slope), scaled)
    opposite = yield from n.compute(spec.MUL, scaled, n.scalar(-1, x))
    yield apply(spec.ADD, (yield from n.compute(spec.RELU, x)), opposite, out=y)


def write_leaky_relu(n: Node, x: Value, alpha: float, y: Value) -> Iterator[Call]:
    """Emit `y` = `x`, multiplied by `alpha` where negative."""
    if is_8bit(x):
        yield apply(spec.PRELU, x, exact_constant(alpha, x), out=y)
        return
    yield from write_prelu(n, x, n.value("slope", n.scalar(alpha, x)), y)


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
    yield apply(spec.TANH, (yield from _odd(n, x, _ERF)), out=y)


def gelu(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = x times the normal distribution function, computed as sigmoid(x p(x^2)).

    The error is at most 4e-7 for |x| < 4, and 2e-7 |x| beyond.
    """
    share = yield from n.compute(spec.LOGISTIC, (yield from _odd(n, x, _NORMAL)))
    yield apply(spec.MUL, x, share, out=y)


def tanh_gelu(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = x (1 + tanh(c (x + 0.044715 x^3))) / 2, c = sqrt(2 / pi), using LOGISTIC."""
    twice = 2 * sqrt(2 / pi)
    square = yield from n.compute(spec.MUL, x, x)
    factor = yield from polynomial(n, square, (twice, 0.044715 * twice))
    share = yield from n.compute(spec.LOGISTIC, (yield from n.compute(spec.MUL, x, factor)))
    yield apply(spec.MUL, x, share, out=y)


def swish(n: Node, x: Value, y: Value, alpha: float = 1.0) -> Iterator[Call]:
    """Emit `y` = x sigmoid(alpha x)."""
    scaled = x
    if alpha != 1.0:
        scaled = yield from n.compute(spec.MUL, x, n.scalar(alpha, x))
    share = yield from n.compute(spec.LOGISTIC, scaled)
    yield apply(spec.MUL, x, share, out=y)


def log_of_more(n: Node, x: Value) -> Computed:
    """Return log(1 + x) for 0 <= x <= 1, within 4e-7 |y|: 2 atanh(x / (x + 2))."""
    more = yield from n.compute(spec.ADD, x, n.scalar(2, x))
    share = yield from n.compute(spec.DIV, x, more)
    return (yield from _odd(n, share, [2 * c for c in ATANH.factor], scale=1))


def near_zero(n: Node, series: Series, far: Value) -> Iterator[Call]:
    """Emit the output of a function of input 0: the series near 0, else `far`."""
    x, y = n.input(0), n.output()
    near = yield from _odd(n, x, series.factor, scale=1)
    size = yield from n.absolute_of(x)
    small = yield from n.compute(spec.LESS, size, n.scalar(series.limit, x), dtype=DType.BOOL)
    yield apply(spec.SELECT, small, near, far, out=y)


def _odd(n: Node, x: Value, coefficients: Sequence[float], scale: float = 0.25) -> Computed:
    """Return x p(u) with u = (x `scale`)^2, scaled so that no coefficient is tiny."""
    part = x if scale == 1 else (yield from n.compute(spec.MUL, x, n.scalar(scale, x)))
    square = yield from n.compute(spec.MUL, part, part)
    factor = yield from polynomial(n, square, coefficients)
    return (yield from n.compute(spec.MUL, x, factor))


def polynomial(n: Node, x: Value, coefficients: Sequence[float]) -> Computed:
    """Return c0 + c1 x + c2 x^2 + ..., by Horner's rule."""
    first, *rest, last = coefficients
    total = yield from n.compute(spec.MUL, x, n.scalar(last, x))
    for coefficient in reversed(rest):
        total = yield from n.compute(spec.ADD, total, n.scalar(coefficient, x))
        total = yield from n.compute(spec.MUL, total, x)
    return (yield from n.compute(spec.ADD, total, n.scalar(first, x)))


def arctan(n: Node, x: Value) -> Computed:
    """Return atan(x) for |x| <= 1, error at most 2e-7: 2 atan(tan(a / 2)) by a polynomial."""
    half = yield from half_angle(n, x)
    square = yield from n.compute(spec.MUL, half, half)
    factor = yield from polynomial(n, square, _ARCTAN)
    angle = yield from n.compute(spec.MUL, half, factor)
    return (yield from n.compute(spec.MUL, angle, n.scalar(2, x)))


def half_angle(n: Node, x: Value) -> Computed:
    """Return tan(a / 2) for x = tan(a): x / (1 + sqrt(1 + x^2)), for |x| up to 1e18."""
    square = yield from n.compute(spec.MUL, x, x)
    more = yield from n.compute(spec.ADD, square, n.scalar(1, x))
    root = yield from n.compute(spec.SQRT, more)
    return (
        yield from n.compute(spec.DIV, x, (yield from n.compute(spec.ADD, root, n.scalar(1, x))))
    )
