"""Magnitudes and opposites, at every level."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.call import Call
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.spec import ABS, ADD, LESS, MUL, NEG, RELU, SELECT
from ep_nnapi.ops.lib.node import Node
from ep_nnapi.ops.lib.steps import Steps, compute


def absolute(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """`y` is |x|: RELU(x) + RELU(-x) where the level has no ABS, which is as exact."""
    call = ABS(x, out=y)
    if n.takes(call) or x.dtype is DType.INT32:
        yield call
        return
    above = yield from compute(n, RELU, x)
    below = yield from compute(n, MUL, x, n.scalar(-1, x), activation=FuseCode.RELU)
    yield ADD(above, below, out=y)


def absolute_of(n: Node, x: Value) -> Steps:
    """|x|."""
    out = n.temp(x)
    yield from absolute(n, x, out)
    return out


def negative(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """`y` is -x: a product with -1 where the level has no NEG, which is as exact."""
    call = NEG(x, out=y)
    yield call if n.takes(call) else MUL(x, n.scalar(-1, x), out=y)


def negative_of(n: Node, x: Value) -> Steps:
    """-x."""
    out = n.temp(x)
    yield from negative(n, x, out)
    return out


def signed_like(n: Node, size: Value, sign: Value, y: Value) -> Iterator[Call]:
    """`y` is `size`, negative where `sign` is."""
    below = yield from negative_of(n, size)
    minus = yield from compute(n, LESS, sign, n.scalar(0, sign), dtype=DType.BOOL)
    yield SELECT(minus, below, size, out=y)
