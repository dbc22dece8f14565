"""Functions that are linear in pieces, by the cheapest exact operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.call import Call
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.spec import ADD, MAXIMUM, MINIMUM, MUL, PRELU, RELU, RELU1, RELU6
from ep_nnapi.ops.broadcast import broadcast
from ep_nnapi.ops.node import Node
from ep_nnapi.ops.steps import Steps, compute, reshape
from ep_nnapi.value import Constant, DType, Value

Bound: TypeAlias = Value | Constant | None

_FUSED = {(0.0, None): RELU, (-1.0, 1.0): RELU1, (0.0, 6.0): RELU6}


def clip(n: Node, x: Value, bounds: tuple[Bound, Bound], y: Value) -> Iterator[Call]:
    """`y` is `x` between two bounds, either of which may be left out: by RELU and kin if exact."""
    low, high = bounds
    if not isinstance(low, Value) and not isinstance(high, Value):
        known = _number(low), _number(high)
        if known == (None, None):
            yield from reshape(n, x, y)
            return
        if known in _FUSED and x.dtype is not DType.INT32:
            yield _FUSED[known](x, out=y)
            return
    if high is None:
        yield MAXIMUM(x, low, out=y)
        return
    if low is not None:
        x = yield from compute(n, MAXIMUM, x, low, shape=x.shape)
    yield MINIMUM(x, high, out=y)


def _number(constant: Constant | None) -> float | None:
    """The number; None where every finite number is within."""
    if constant is None:
        return None
    number, limits = float(constant.array.reshape(-1)[0]), constant.dtype.numpy
    infinite = limits.kind == "f" and abs(number) >= float(np.finfo(limits).max)
    return None if infinite else number


def hard_sigmoid(n: Node, x: Value, alpha: float, beta: float) -> Steps:
    """Six times alpha x + beta between 0 and 1, which is RELU6 of six times that."""
    slope = np.float32(alpha) * np.float32(6)
    scaled = x
    if slope != 1:
        scaled = yield from compute(n, MUL, x, n.scalar(float(slope), x))
    return (yield from compute(n, ADD, scaled, n.scalar(6 * beta, x), activation=FuseCode.RELU6))


def prelu(n: Node, x: Value, slope: Value, y: Value) -> Iterator[Call]:
    """`y` is `x`, times its slope where negative.

    Where the level has no PRELU: RELU(x) - slope RELU(-x), which is as exact.
    """
    if n.takes(PRELU(x, slope, out=y)) or x.quantization is not None:
        yield from broadcast(n, PRELU, (x, slope), y)
        return
    below = yield from compute(n, MUL, x, n.scalar(-1, x), activation=FuseCode.RELU)
    scaled = n.temp(x)
    yield from broadcast(n, MUL, (below, slope), scaled)
    opposite = yield from compute(n, MUL, scaled, n.scalar(-1, x))
    yield ADD((yield from compute(n, RELU, x)), opposite, out=y)


def leaky_relu(n: Node, x: Value, alpha: float, y: Value) -> Iterator[Call]:
    """`y` is `x`, times `alpha` where negative."""
    yield from prelu(n, x, n.value("slope", n.scalar(alpha, x)), y)
