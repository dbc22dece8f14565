"""Comparison and logical operators, and Where."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import (
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    LOGICAL_AND,
    LOGICAL_NOT,
    LOGICAL_OR,
    NOT_EQUAL,
)
from ep_nnapi.operators.lib.broadcast import broadcast, select
from ep_nnapi.operators.lib.broadcast_shape import broadcast_shape
from ep_nnapi.operators.lib.emit import compute
from ep_nnapi.operators.lib.node import Node, Op, one_to_one, op


def _compared(op_type: str, row: OperationSpec, since: int = 7) -> Op:
    """Return an operator that lowers to one NNAPI operation on two tensors that broadcast."""

    def lower(n: Node) -> Iterator[Call]:
        yield from broadcast(n, row, (n.input(0), n.input(1)), n.output())

    doc = f"{row.name} of two tensors.\n\nSource: ONNX {op_type}-{since}; NDK {row.name}."
    return Op(op_type, "", since, lower, doc)


TABLE = (
    _compared("And", LOGICAL_AND),
    _compared("Or", LOGICAL_OR),
    _compared("Xor", NOT_EQUAL),
    one_to_one("Not", LOGICAL_NOT, since=1),
    _compared("Equal", EQUAL),
    _compared("Greater", GREATER),
    _compared("GreaterOrEqual", GREATER_EQUAL, since=12),
    _compared("Less", LESS),
    _compared("LessOrEqual", LESS_EQUAL, since=12),
)


@op("Where", since=9)
def where(n: Node) -> Iterator[Call]:
    """X where the condition holds, else Y; SELECT takes equal shapes, so they are broadcast first.

    Source: ONNX Where-9, Where-16; NDK ANEURALNETWORKS_SELECT.
    """
    condition, a, b, y = n.input(0), n.input(1), n.input(2), n.output()
    if y.dtype is not DType.BOOL:
        yield from select(n, condition, a, b, y)
        return
    opposite = yield from compute(n, LOGICAL_NOT, condition)
    parts = []
    for mask, value in ((condition, a), (opposite, b)):
        part = n.temp(y, broadcast_shape(mask.shape, value.shape))
        yield from broadcast(n, LOGICAL_AND, (mask, value), part)
        parts.append(part)
    yield from broadcast(n, LOGICAL_OR, parts, y)
