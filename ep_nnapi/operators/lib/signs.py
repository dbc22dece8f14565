"""Absolute value, negation and sign copying at every feature level."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.spec import ABS, ADD, LESS, MUL, NEG, RELU, SELECT
from ep_nnapi.operators.lib.emit import Computed, compute
from ep_nnapi.operators.lib.node import Node


def absolute(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = |x|; where the level has no ABS, RELU(x) + RELU(-x), with the same result."""
    call = apply(ABS, x, out=y)
    if n.supports(call) or x.dtype is DType.INT32:
        yield call
        return
    above = yield from compute(n, RELU, x)
    below = yield from compute(n, MUL, x, n.scalar(-1, x), activation=FuseCode.RELU)
    yield apply(ADD, above, below, out=y)


def absolute_of(n: Node, x: Value) -> Computed:
    """Return |x|."""
    out = n.temp(x)
    yield from absolute(n, x, out)
    return out


def negative(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = -x; where the level has no NEG, x times -1, with the same result."""
    call = apply(NEG, x, out=y)
    yield call if n.supports(call) else apply(MUL, x, n.scalar(-1, x), out=y)


def negative_of(n: Node, x: Value) -> Computed:
    """Return -x."""
    out = n.temp(x)
    yield from negative(n, x, out)
    return out


def signed_like(n: Node, size: Value, sign: Value, y: Value) -> Iterator[Call]:
    """Emit `y` = `size`, negated where `sign` is negative."""
    below = yield from negative_of(n, size)
    minus = yield from compute(n, LESS, sign, n.scalar(0, sign), dtype=DType.BOOL)
    yield apply(SELECT, minus, below, size, out=y)
