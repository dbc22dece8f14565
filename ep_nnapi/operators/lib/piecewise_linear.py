"""Lowering of piecewise linear functions (Clip, Relu, PRelu, HardSigmoid).

Each uses the fastest NNAPI operation that is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isclose
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value, only_element
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import ADD, MAXIMUM, MINIMUM, MUL, PRELU, RELU, RELU1, RELU6
from ep_nnapi.operators.lib.broadcast import broadcast
from ep_nnapi.operators.lib.emit import Computed, compute, reshape
from ep_nnapi.operators.lib.node import Node
from ep_nnapi.operators.lib.quantizing import (
    dequantized,
    exact_constant,
    is_8bit,
    nearest_constant,
    value_range,
)

Bound: TypeAlias = Value | Constant | None

_BOUNDS_ARE_INPUTS = 11
"""The schema version of Clip from which `min` and `max` are inputs."""
_FUSED = {(0.0, None): RELU, (-1.0, 1.0): RELU1, (0.0, 6.0): RELU6}


def clip(n: Node, x: Value, bounds: tuple[Bound, Bound], y: Value) -> Iterator[Call]:
    """Emit `y` = `x` clipped to (low, high), each optional; RELU, RELU1 or RELU6 where exact."""
    low, high = bounds
    if is_8bit(y):
        yield from _clip_bytes(n, x, bounds, y)
        return
    if not isinstance(low, Value) and not isinstance(high, Value):
        known = _number(low), _number(high)
        if known == (None, None):
            yield from reshape(n, x, y)
            return
        if known in _FUSED and x.dtype is not DType.INT32:
            yield apply(_FUSED[known], x, out=y)
            return
    if high is None:
        yield apply(MAXIMUM, x, low, out=y)
        return
    if low is not None:
        x = yield from compute(n, MAXIMUM, x, low, shape=x.shape)
    yield apply(MINIMUM, x, high, out=y)


def _clip_bytes(n: Node, x: Value, bounds: tuple[Bound, Bound], y: Value) -> Iterator[Call]:
    """Emit `clip` for an 8-bit quantized `y`; bounds outside the range of `y` need no operation."""
    low, high = _known(bounds)
    least, greatest = value_range(y)
    if low <= least and high >= greatest:
        yield from reshape(n, x, y)
        return
    exact = {(a, inf if b is None else b): row for (a, b), row in _FUSED.items()}
    ends = (low if low > least else -inf, high if high < greatest else inf)
    row = exact.get((low, high), exact.get(ends))
    if row is not None:
        yield apply(row, x, out=y)
        return
    part = n.temp(y)
    yield from reshape(n, x, part)
    if ends[0] != -inf:
        out = n.temp(y) if ends[1] != inf else y
        yield apply(MAXIMUM, part, nearest_constant(low, y), out=out)
        part = out
    if ends[1] != inf:
        yield apply(MINIMUM, part, nearest_constant(high, y), out=y)


def _known(bounds: tuple[Bound, Bound]) -> tuple[float, float]:
    """Return constant bounds as numbers, infinite if omitted; raise Reject(CONSTANT) for others."""
    found = []
    for given, none in zip(bounds, (-inf, inf), strict=True):
        if isinstance(given, Value):
            raise Reject(
                Reason.CONSTANT, f"{given.name} must be constant to clip a quantized tensor"
            )
        found.append(none if given is None else float(only_element(given, "a bound")))
    return found[0], found[1]


def bounds_of(n: Node) -> tuple[Bound, Bound]:
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
            n.require(
                len(shape) <= 1,
                Reason.SHAPE,
                f"{bound.name} has shape {shape}; it must be a scalar",
            )
    low_value, high_value = (
        b and dequantized(b, b.dtype if b.quantization is None else DType.FLOAT) for b in given
    )
    return _constant(low_value), _constant(high_value)


def _constant(given: Value | None) -> Bound:
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


def scaled_hard_sigmoid(n: Node, x: Value, alpha: float, beta: float) -> Computed:
    """Return six times the hard sigmoid: RELU6(6 (alpha x + beta)); the caller divides by 6."""
    slope, scaled = 6 * float(np.float32(alpha)), x
    if not isclose(slope, 1, rel_tol=2**-25):  # 1 in float32
        scaled = yield from compute(n, MUL, x, n.scalar(slope, x))
    return (yield from compute(n, ADD, scaled, n.scalar(6 * beta, x), activation=FuseCode.RELU6))


def write_prelu(n: Node, x: Value, slope: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = `x`, multiplied by `slope` where negative.

    Where the level has no PRELU: RELU(x) - slope RELU(-x), with the same result.
    """
    if n.supports(apply(PRELU, x, slope, out=y)) or x.quantization is not None:
        yield from broadcast(n, PRELU, (x, slope), y)
        return
    below = yield from compute(n, MUL, x, n.scalar(-1, x), activation=FuseCode.RELU)
    scaled = n.temp(x)
    yield from broadcast(n, MUL, (below, slope), scaled)
    opposite = yield from compute(n, MUL, scaled, n.scalar(-1, x))
    yield apply(ADD, (yield from compute(n, RELU, x)), opposite, out=y)


def write_leaky_relu(n: Node, x: Value, alpha: float, y: Value) -> Iterator[Call]:
    """Emit `y` = `x`, multiplied by `alpha` where negative."""
    if is_8bit(x):
        yield apply(PRELU, x, exact_constant(alpha, x), out=y)
        return
    yield from write_prelu(n, x, n.value("slope", n.scalar(alpha, x)), y)
