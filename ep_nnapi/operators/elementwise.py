"""Element-wise arithmetic, comparison and logical operators, with broadcasting, and Where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isinf

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.operators.lib.movement import broadcast, select
from ep_nnapi.operators.lib.node import (
    Node,
    Operator,
    broadcast_shape,
    each,
    one_to_one,
    op,
)


def binary(op_type: str, row: OperationSpec, since: int = 7) -> Operator:
    """Return an operator that lowers to one NNAPI operation on two tensors that broadcast."""

    def lower(n: Node) -> Iterator[Call]:
        yield from broadcast(n, row, (n.input(0), n.input(1)), n.output())

    return Operator(op_type, "", since, lower, f"{row.name} of two tensors.")


def variadic(op_type: str, row: OperationSpec) -> Operator:
    """Return an operator on any number of tensors, lowered to a chain of binary operations.

    The tensors broadcast from opset 8 on; before, their shapes are equal.
    """

    def lower(n: Node) -> Iterator[Call]:
        yield from _chain(n, row, n.inputs, n.output())

    return Operator(op_type, "", 6, lower, f"{row.name} of the tensors, one after the other.")


TABLE = (
    binary("Add", spec.ADD),
    binary("Mul", spec.MUL),
    variadic("Max", spec.MAXIMUM),
    variadic("Min", spec.MINIMUM),
    variadic("Sum", spec.ADD),
    binary("And", spec.LOGICAL_AND),
    binary("Or", spec.LOGICAL_OR),
    binary("Xor", spec.NOT_EQUAL),
    one_to_one("Not", spec.LOGICAL_NOT, since=1),
    binary("Greater", spec.GREATER),
    binary("GreaterOrEqual", spec.GREATER_EQUAL, since=12),
    binary("Less", spec.LESS),
    binary("LessOrEqual", spec.LESS_EQUAL, since=12),
)


def _chain(n: Node, row: OperationSpec, tensors: Sequence[Value], y: Value) -> Iterator[Call]:
    total = tensors[0]
    whole = broadcast_shape(*(t.shape for t in tensors))
    n.require(
        y.shape == whole,
        Reason.SHAPE,
        f"{n.output().name} is declared as {list(y.shape)}; the inputs broadcast to {list(whole)}",
    )
    if len(tensors) == 1:
        yield from n.reshape(total, y)
        return
    for tensor in tensors[1:-1]:
        shape = broadcast_shape(total.shape, tensor.shape)
        out = n.temp(y, shape)
        yield from broadcast(n, row, (total, tensor), out)
        total = out
    yield from broadcast(n, row, (total, tensors[-1]), y)


@op("Equal", since=7)
def equal(n: Node) -> Iterator[Call]:
    """EQUAL; infinity as a constant is equal to the largest finite number, too.

    Sums on Android are clamped to the finite range, which hides that a row of attention scores
    is masked by infinities as a whole.
    """
    a, b, y = n.input(0), n.input(1), n.output()
    a, b = (b, a) if _infinity(a) else (a, b)
    infinity = _infinity(b)
    if infinity:
        row = spec.GREATER_EQUAL if infinity > 0 else spec.LESS_EQUAL
        largest = np.full(b.shape, np.nan_to_num(b.dtype.numpy.type(infinity)))
        yield from broadcast(n, row, (a, replace(b, constant=Constant.of(largest))), y)
    else:
        yield from broadcast(n, spec.EQUAL, (a, b), y)


def _infinity(x: Value) -> float:
    """The constant `x` if it is one infinite number, else 0."""
    if x.constant is None or x.size != 1 or x.dtype not in (DType.FLOAT, DType.FLOAT16):
        return 0
    number = float(x.constant.array.item())
    return number if isinf(number) else 0


@op("Mean", since=6)
def mean(n: Node) -> Iterator[Call]:
    """The sum of the tensors, divided by their number."""
    y = n.output()
    share = n.scalar(1 / len(n.inputs), y)
    total = n.temp(y)
    yield from _chain(n, spec.ADD, n.inputs, total)
    yield apply(spec.MUL, total, share, out=y)


@op("Sub", since=7)
def sub(n: Node) -> Iterator[Call]:
    """The difference; a sum with the opposite where the level has no SUB, which is as exact."""
    a, b, y = n.input(0), n.input(1), n.output()
    if y.dtype is not DType.FLOAT or n.supports(apply(spec.SUB, y, y, out=y)):
        yield from broadcast(n, spec.SUB, (a, b), y)
        return
    opposite = yield from n.compute(spec.MUL, b, n.scalar(-1, b))
    yield from broadcast(n, spec.ADD, (a, opposite), y)


@op("Div", since=7)
def div(n: Node) -> Iterator[Call]:
    """The quotient; that of integers has its fraction cut off, where NNAPI's is rounded down.

    Where the level has no DIV: the product with a constant's inverse, rounded once more.
    """
    a, b, y = n.input(0), n.input(1), n.output()
    if y.dtype is DType.INT32:
        yield from _truncated(n, a, b, y)
    elif (
        b.constant is None or y.dtype is not DType.FLOAT or n.supports(apply(spec.DIV, y, y, out=y))
    ):
        yield from broadcast(n, spec.DIV, (a, b), y)
    else:
        inverse = replace(b, constant=b.constant.map(b.shape, np.reciprocal))
        yield from broadcast(n, spec.MUL, (a, inverse), y)


def _truncated(n: Node, a: Value, b: Value, y: Value) -> Iterator[Call]:
    """Emit truncated division: floor(a / b), plus 1 where signs differ and a remainder is left."""
    n.require(
        max(a.rank, b.rank) <= 4, Reason.RANK, f"{y.name} has rank {y.rank}; use 4 for integers"
    )
    down = yield from n.compute(spec.DIV, a, b)
    whole = yield from n.compute(spec.MUL, down, b)
    rest = yield from n.compute(spec.SUB, a, whole)
    inexact = yield from n.compute(spec.NOT_EQUAL, rest, n.scalar(0, y), dtype=DType.BOOL)
    minus = yield from each(
        n.compute(spec.LESS, x, n.scalar(0, y), dtype=DType.BOOL) for x in (a, b)
    )
    apart = yield from n.compute(spec.NOT_EQUAL, *minus)
    up = yield from n.compute(spec.LOGICAL_AND, inexact, apart)
    more = yield from n.compute(spec.ADD, down, n.scalar(1, y))
    yield from select(n, up, more, down, y)


@op("Mod", since=10)
def mod(n: Node) -> Iterator[Call]:
    """Remainder of a division of integers, with the sign of the divisor."""
    a, b, y = n.input(0), n.input(1), n.output()
    detail = "fmod is 1; a remainder of floats is not exact through NNAPI's quotient"
    n.require(n.integer("fmod", 0) == 0, Reason.ATTRIBUTE, detail)
    n.require(y.rank <= 4, Reason.RANK, f"{y.name} has rank {y.rank}; use 4 for integers")
    n.require(y.dtype is DType.INT32, Reason.DTYPE, f"{y.name} is {y.dtype.name}; only INT32")
    quotient = yield from n.compute(spec.DIV, a, b)
    whole = yield from n.compute(spec.MUL, quotient, b)
    yield apply(spec.SUB, a, whole, out=y)


@op("Pow", since=7, function=True)
def power(n: Node) -> Iterator[Call]:
    """Base to the exponent; constant 2, 3, 1/2 and -1 by what computes them directly."""
    x, exponent, y = n.input(0), n.input(1), n.output()
    floats = x.dtype in (DType.FLOAT, DType.FLOAT16)
    if floats and exponent.constant is not None and exponent.size == 1 and x.shape == y.shape:
        by_hand = _KNOWN.get(float(exponent.constant.array.item()))
        if by_hand is not None:
            yield from by_hand(n, x, y)
            return
    yield from broadcast(n, spec.POW, (x, n.recast(exponent, x.dtype)), y)


def _cube(n: Node, x: Value, y: Value) -> Iterator[Call]:
    square = yield from n.compute(spec.MUL, x, x)
    yield apply(spec.MUL, square, x, out=y)


_KNOWN: Mapping[float, Callable[[Node, Value, Value], Iterator[Call]]] = {
    2.0: lambda n, x, y: iter((apply(spec.MUL, x, x, out=y),)),
    3.0: _cube,
    0.5: lambda n, x, y: iter((apply(spec.SQRT, x, out=y),)),
    -1.0: lambda n, x, y: iter((apply(spec.DIV, n.scalar(1, x), x, out=y),)),
}


@op("Where", since=9)
def where(n: Node) -> Iterator[Call]:
    """X where the condition holds, else Y; all are broadcast first: SELECT takes equal shapes."""
    condition, a, b, y = n.input(0), n.input(1), n.input(2), n.output()
    if y.dtype is not DType.BOOL:
        yield from select(n, condition, a, b, y)
        return
    opposite = yield from n.compute(spec.LOGICAL_NOT, condition)
    parts = []
    for mask, value in ((condition, a), (opposite, b)):
        part = n.temp(y, broadcast_shape(mask.shape, value.shape))
        yield from broadcast(n, spec.LOGICAL_AND, (mask, value), part)
        parts.append(part)
    yield from broadcast(n, spec.LOGICAL_OR, parts, y)
