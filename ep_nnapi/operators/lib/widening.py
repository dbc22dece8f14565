"""Computation of float16 nodes in float32."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import wraps

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import CAST
from ep_nnapi.operators.lib.emit import compute
from ep_nnapi.operators.lib.node import Lowering, Node


def widened(lower: Lowering) -> Lowering:
    """Return `lower` wrapped so that float16 nodes are computed in float32 between casts.

    For lowerings of several steps, which would lose precision or overflow in float16.
    """

    @wraps(lower)
    def wide(n: Node) -> Iterator[Call]:
        halves = any(v is not None and v.dtype is DType.FLOAT16 for v in n.node.inputs)
        if not halves:
            yield from lower(n)
            return
        inputs = []
        for x in n.node.inputs:
            inputs.append((yield from _wide(n, x)))
        outputs = [_recast(n, y) for y in n.node.outputs]
        inner = replace(n.node, inputs=tuple(inputs), outputs=tuple(outputs))
        yield from lower(replace(n, node=inner))
        for y, result in zip(n.node.outputs, outputs, strict=True):
            if y is not None and result is not None and y.dtype is not result.dtype:
                yield apply(CAST, result, out=y)

    return wide


def _wide(n: Node, x: Value | None) -> Generator[Call, None, Value | None]:
    if x is None or x.dtype is not DType.FLOAT16:
        return x
    if x.constant is not None:
        return replace(x, dtype=DType.FLOAT, constant=x.constant.cast(DType.FLOAT))
    return (yield from compute(n, CAST, x, dtype=DType.FLOAT))


def _recast(n: Node, y: Value | None) -> Value | None:
    if y is None or y.dtype is not DType.FLOAT16:
        return y
    return n.temp(y, dtype=DType.FLOAT)
