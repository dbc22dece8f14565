"""DynamicQuantizeLinear, MatMulInteger and ConvInteger: 8-bit integers, scales set at run time.

NNAPI's scales are constants, so these are computed with integers stored as floats, which are exact
below 2^24.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import (
    ADD,
    CAST,
    DEQUANTIZE,
    DIV,
    EQUAL,
    MAXIMUM,
    MINIMUM,
    QUANTIZE,
    REDUCE_MAX,
    REDUCE_MIN,
    SELECT,
    SUB,
)
from ep_nnapi.operators.lib.conv_2d import convolve
from ep_nnapi.operators.lib.emit import Computed, compute, reshaped
from ep_nnapi.operators.lib.matrix_product import product
from ep_nnapi.operators.lib.moments import reduce
from ep_nnapi.operators.lib.node import Node, op
from ep_nnapi.operators.lib.quantizing import EIGHT_BIT, dequantized

_STEPS = 255
"""Quantization steps between the least and the greatest 8-bit number."""


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize(n: Node) -> Iterator[Call]:
    """To 8 bits over the range that the numbers and 0 have; ties may round to the other side.

    Source: ONNX DynamicQuantizeLinear-11; NDK ANEURALNETWORKS_REDUCE_MIN,
    ANEURALNETWORKS_REDUCE_MAX, ANEURALNETWORKS_QUANTIZE.
    """
    x, (y, scale, zero_point) = n.input(0), n.outputs
    zero = n.scalar(0, x)
    low, high = n.temp(x, (1,)), n.temp(x, (1,))
    yield from reduce(n, REDUCE_MIN, x, range(x.rank), low, keep=False)
    yield from reduce(n, REDUCE_MAX, x, range(x.rank), high, keep=False)
    least = yield from compute(n, MINIMUM, low, zero)
    greatest = yield from compute(n, MAXIMUM, high, zero)
    size = yield from compute(n, SUB, greatest, least)
    step = yield from compute(n, DIV, size, n.scalar(_STEPS, x))
    empty = yield from compute(n, EQUAL, size, zero, dtype=DType.BOOL)
    yield apply(SELECT, empty, n.scalar(1, x), step, out=scale)
    opposite = yield from compute(n, SUB, zero, least, shape=(1,))
    below = yield from compute(n, DIV, opposite, scale)
    yield apply(QUANTIZE, below, out=zero_point)
    whole = yield from compute(n, DEQUANTIZE, zero_point, dtype=x.dtype)
    steps = yield from compute(n, DIV, x, scale)
    moved = yield from compute(n, ADD, steps, whole, shape=x.shape)
    yield apply(QUANTIZE, moved, out=y)


@op("MatMulInteger", since=10, keeps=True)
def matmul_integer(n: Node) -> Iterator[Call]:
    """Products of matrices of 8 bits, each less its zero point: INT32.

    Source: ONNX MatMulInteger-10; NDK ANEURALNETWORKS_FULLY_CONNECTED,
    ANEURALNETWORKS_BATCH_MATMUL.
    """
    a, b, y = n.input(0), n.input(1), n.output()
    n.require(
        min(a.rank, b.rank) > 1,
        Reason.RANK,
        f"{a.name} or {b.name} is a vector; use a matrix with one row or column",
    )
    lhs = yield from _centred(n, a, 2, axis=a.rank - 2)
    rhs = yield from _centred(n, b, 3, axis=b.rank - 1)
    total = n.temp(y, dtype=DType.FLOAT)
    yield from product(n, lhs, rhs, total)
    yield apply(CAST, total, out=y)


@op("ConvInteger", since=10, keeps=True)
def conv_integer(n: Node) -> Iterator[Call]:
    """A convolution of 8 bits, image and filter less their zero points: INT32.

    Source: ONNX ConvInteger-10; NDK ANEURALNETWORKS_CONV_2D.
    """
    x, w, y = n.input(0), n.input(1), n.output()
    image = yield from _centred(n, x, 2, axis=None)
    taps = yield from _centred(n, w, 3, axis=0)
    total = n.temp(y, dtype=DType.FLOAT)
    inner = replace(n.node, inputs=(image, taps), outputs=(total,))
    yield from convolve(replace(n, node=inner), total)
    yield apply(CAST, total, out=y)


def _centred(n: Node, x: Value, index: int, axis: int | None) -> Computed:
    """Return the stored numbers of `x` minus the zero point in input `index`, as floats.

    axis   the axis of `x` that a vector of zero points is along; None: one zero point only
    """
    n.require(
        x.dtype in EIGHT_BIT and x.quantization is not None,
        Reason.QUANTIZATION,
        f"{x.name} is read both as stored integers and as dequantized numbers; use one of the two",
    )
    numbers = yield from _as_floats(n, x)
    if not n.has(index):
        return numbers
    zero = n.input(index)
    shape = _zero_point_shape(x, zero, axis)
    less = yield from reshaped(n, (yield from _as_floats(n, zero)), shape)
    if numbers.constant is None or less.constant is None:
        return (yield from compute(n, SUB, numbers, less, shape=x.shape))
    whole, minus = numbers.constant, less.constant
    centred = whole.map(x.shape, lambda a: a - minus.array.astype(np.float32))
    return replace(numbers, name=f"{x.name} centred", constant=centred)


def _zero_point_shape(x: Value, zero: Value, axis: int | None) -> tuple[int, ...]:
    """Return the shape in which the zero points of `x` broadcast to it; refuse other sizes."""
    if zero.size == 1:
        return (1,)
    allowed = "one number"
    if axis is not None:
        if zero.shape == (x.shape[axis],):
            return (*zero.shape, *[1] * (x.rank - 1 - axis))
        pairs = zip(zero.shape, x.shape, strict=False)
        if zero.rank == x.rank and all(size in (1, to) for size, to in pairs):
            return zero.shape
        allowed += f" or {x.shape[axis]}"
    raise Reject(Reason.SHAPE, f"{zero.name} is {list(zero.shape)}; {x.name} takes {allowed}")


def _as_floats(n: Node, x: Value) -> Computed:
    if x.constant is not None:
        return dequantized(x)
    return (yield from compute(n, DEQUANTIZE, x, dtype=DType.FLOAT))
