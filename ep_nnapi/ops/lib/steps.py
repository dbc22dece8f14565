"""Steps that lowerings of several operations are made of.

A step yields its calls and returns what they compute: `t = yield from compute(n, EXP, x)`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.errors import Reason
from ep_nnapi.graph.value import Array, Constant, DType, Value, held
from ep_nnapi.nnapi.call import Call, Given, Row
from ep_nnapi.nnapi.spec import (
    ADD,
    CAST,
    EXPAND_DIMS,
    FILL,
    LESS,
    LOGICAL_OR,
    NOT_EQUAL,
    RESHAPE,
    SELECT,
)
from ep_nnapi.ops.lib.node import Node, int32

Steps: TypeAlias = Generator[Call, None, Value]
Move: TypeAlias = Callable[[Value, Value], Iterator[Call]]
"""`move(x, y)` yields what makes `y` of `x`."""

SMALL = 4096
"""Elements up to which a tensor of one number is stored rather than filled at run time."""
EXACT_IN_FLOAT = 2**24
"""Integers below this in magnitude are exact in float32."""


def compute(
    n: Node,
    row: Row,
    *given: Given,
    shape: Sequence[int] | None = None,
    dtype: DType | None = None,
    **named: Given,
) -> Steps:
    """A fresh intermediate that `row` computes.

    Of the first value's type and of the shape to which the tensors broadcast, if nothing else is
    said.
    """
    tensors = [g for g in (*given, *named.values()) if isinstance(g, Value | Constant)]
    like = next(t for t in tensors if isinstance(t, Value))
    sizes = np.broadcast_shapes(*(t.shape for t in tensors)) if shape is None else shape
    out = n.temp(like, sizes, dtype)
    yield row(*given, out=out, **named)
    return out


def each(steps: Iterable[Steps]) -> Generator[Call, None, list[Value]]:
    """What the steps compute, one after the other."""
    found = []
    for step in steps:
        found.append((yield from step))
    return found


def reshaped(n: Node, x: Value, shape: Sequence[int]) -> Steps:
    """`x` in another shape; the same value where NNAPI holds it so anyway."""
    if held(x.shape) == tuple(shape):
        return x
    if x.constant is not None:
        return replace(x, dims=tuple(shape), constant=x.constant.reshaped(shape))
    out = n.temp(x, shape)
    yield from reshape(n, x, out)
    return out


def reshape(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """`y` is `x` in its own shape, of any type."""
    before, after = held(x.shape), held(y.shape)
    call = RESHAPE(x, shape=int32(after), out=y)
    if x.dtype is DType.BOOL:
        if before == after:
            yield LOGICAL_OR(x, x, out=y)
            return
        yield from of_any_type(n, x, y, lambda a, b: reshape(n, a, b))
    elif n.takes(call) or x.dtype is not DType.INT32:
        yield call
    elif before == after:
        yield CAST(x, out=y)
    else:
        yield from _expanded_dims(n, x, y) or (call,)


def place(n: Node, y: Value, shape: Sequence[int]) -> Value:
    """`y`, or an intermediate of that shape if NNAPI holds `y` in another; see `settle`."""
    return y if held(y.shape) == tuple(shape) else n.temp(y, shape)


def settle(n: Node, made: Value, y: Value) -> Iterator[Call]:
    """Makes `y` of what `place` gave for it."""
    if made is not y:
        yield from reshape(n, made, y)


def _expanded_dims(n: Node, x: Value, y: Value) -> list[Call]:
    """EXPAND_DIMS from `x` to `y`, where `y` only has more sizes of 1; else nothing."""
    added = _added(held(x.shape), held(y.shape))
    calls: list[Call] = []
    for axis in added:
        before = calls[-1].outputs[0] if calls else x
        if not isinstance(before, Value):
            return []
        sizes = held(before.shape)
        out = y if axis == added[-1] else n.temp(x, (*sizes[:axis], 1, *sizes[axis:]))
        calls.append(EXPAND_DIMS(before, axis=axis, out=out))
    return calls


def _added(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Where sizes of 1 are inserted into `before`, in order; [] when it takes more than that."""
    rest, added = list(before), []
    for axis, size in enumerate(after):
        if rest and rest[0] == size:
            rest.pop(0)
        elif size == 1:
            added.append(axis)
        else:
            return []
    return added if not rest else []


def full(n: Node, number: float, shape: Sequence[int], dtype: DType = DType.FLOAT) -> Steps:
    """A tensor of one number: FILLed where it is large and the level has that."""
    sizes = held(shape)
    constant = Constant(sizes, dtype, lambda: np.broadcast_to(np.array(number, dtype.numpy), sizes))
    value = Value(f"all {number:g}", dtype, sizes, constant=constant)
    if prod(sizes) <= SMALL:
        return value
    out = n.temp(value, sizes)
    call = FILL(
        dims=int32(sizes), value=int(number) if dtype is DType.INT32 else float(number), out=out
    )
    if not n.takes(call):
        return value
    yield call
    return out


def as_number(n: Node, x: Value, dtype: DType = DType.FLOAT) -> Steps:
    """A boolean tensor as 1 and 0."""
    out = n.temp(x, dtype=dtype)
    yield from number_into(n, x, out)
    return out


def number_into(n: Node, x: Value, y: Value) -> Iterator[Call]:
    """`y` is 1 where the boolean `x` holds, else 0."""
    one = yield from full(n, 1, x.shape, y.dtype)
    zero = yield from full(n, 0, x.shape, y.dtype)
    yield SELECT(x, one, zero, out=y)


def of_any_type(n: Node, x: Value, y: Value, move: Move) -> Iterator[Call]:
    """`move(x, y)`, which moves elements without computing; booleans are moved as numbers."""
    require_same_quantization(n, x, y)
    if x.dtype is not DType.BOOL:
        yield from move(x, y)
        return
    number = yield from as_number(n, x)
    moved = n.temp(number, y.shape)
    yield from move(number, moved)
    yield NOT_EQUAL(moved, n.scalar(0, moved), out=y)


def require_same_quantization(n: Node, x: Value, y: Value) -> None:
    """Raises Reject(QUANTIZATION) unless both are quantized or neither is.

    What is quantized otherwise is requantized on the way (`ep_nnapi.capability.requantize`).
    """
    n.require(
        (x.quantization is None) == (y.quantization is None),
        Reason.QUANTIZATION,
        f"of {x.name} and {y.name} only one is quantized; NNAPI moves elements as they are",
    )


def narrow(value: Value) -> Value:
    """An INT64 value whose numbers are known to fit, as NNAPI holds it: INT32."""
    return replace(value, dtype=DType.INT32) if value.dtype is DType.INT64 else value


def indices(n: Node, x: Value, size: int) -> Steps:
    """Indexes into a dimension of `size`, those that count from the end counted from the front.

    Each is within [-size, size), as ONNX demands, and so within INT32.
    """
    if x.constant is not None:
        return replace(x, dtype=DType.INT32, constant=_wrapped(n, x, x.constant.array, size))
    x = narrow(x)
    n.require(
        x.dtype is DType.INT32, Reason.DTYPE, f"{x.name} is {x.dtype.name}, not a tensor of indexes"
    )
    negative = yield from compute(n, LESS, x, n.scalar(0, x), dtype=DType.BOOL)
    counted = yield from added(n, x, size)
    out = n.temp(x)
    yield SELECT(negative, counted, x, out=out)
    return out


def _wrapped(n: Node, x: Value, array: Array, size: int) -> Constant:
    inside = bool(np.all((array >= -size) & (array < size)))
    n.require(inside, Reason.CONSTANT, f"{x.name} has an index outside a dimension of {size}")
    return Constant.of(np.where(array < 0, array + size, array).astype(np.int32))


def recast(n: Node, x: Value, dtype: DType) -> Value:
    """The constant `x` as another element type, which must hold its numbers exactly."""
    if x.dtype is dtype or x.constant is None:
        return x
    array = x.constant.array
    fits = bool(np.array_equal(array.astype(dtype.numpy).astype(array.dtype), array))
    n.require(fits, Reason.CONSTANT, f"{x.name} has numbers that {dtype.name} does not hold")
    return replace(x, dtype=dtype, constant=x.constant.cast(dtype))


def added(n: Node, x: Value, number: int) -> Steps:
    """INT32 `x` plus a number, all results within [-2^24, 2^24] or the level having INT32 sums."""
    out = n.temp(x)
    call = ADD(x, n.scalar(number, x), out=out)
    if n.takes(call) or abs(number) >= EXACT_IN_FLOAT:
        yield call
        return out
    real = yield from compute(n, CAST, x, dtype=DType.FLOAT)
    moved = yield from compute(n, ADD, real, n.scalar(number, real))
    yield CAST(moved, out=out)
    return out
