"""Unary element-wise functions."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.spec import (
    ADD,
    DIV,
    EQUAL,
    EXP,
    FLOOR,
    GREATER,
    LOG,
    LOGICAL_AND,
    LOGICAL_OR,
    MAXIMUM,
    MINIMUM,
    MUL,
    NOT_EQUAL,
    SELECT,
    SIN,
    SQRT,
    SUB,
)
from ep_nnapi.operators.lib.approximations import erf as error_function
from ep_nnapi.operators.lib.emit import compute
from ep_nnapi.operators.lib.node import Node, one_to_one, op
from ep_nnapi.operators.lib.signs import absolute, negative
from ep_nnapi.operators.lib.widening import widened

ONE_TO_ONE = (
    one_to_one("Exp", EXP, since=6),
    one_to_one("Floor", FLOOR, since=6),
    one_to_one("Log", LOG, since=6),
    one_to_one("Sin", SIN, since=7),
    one_to_one("Sqrt", SQRT, since=6),
)


@op("Abs", since=6)
def absolute_value(n: Node) -> Iterator[Call]:
    """The magnitude; RELU(x) + RELU(-x) where the level has no ABS, which is as exact.

    Source: ONNX Abs-6, Abs-13; NDK ANEURALNETWORKS_ABS.
    """
    yield from absolute(n, n.input(0), n.output())


@op("Neg", since=6)
def negation(n: Node) -> Iterator[Call]:
    """The opposite; a product with -1 where the level has no NEG.

    Source: ONNX Neg-6, Neg-13; NDK ANEURALNETWORKS_NEG.
    """
    yield from negative(n, n.input(0), n.output())


@op("Ceil", since=6)
def ceil(n: Node) -> Iterator[Call]:
    """The least integer above: -floor(-x).

    Source: ONNX Ceil-6, Ceil-13; NDK ANEURALNETWORKS_FLOOR.
    """
    x, y = n.input(0), n.output()
    below = n.temp(x)
    yield from negative(n, x, below)
    floor = yield from compute(n, FLOOR, below)
    yield from negative(n, floor, y)


@op("Round", since=11)
def round_half_to_even(n: Node) -> Iterator[Call]:
    """The nearest integer, of two as near the even one: floor(x), or one more.

    Source: ONNX Round-11, Round-22; NDK ANEURALNETWORKS_FLOOR, ANEURALNETWORKS_SELECT.
    """
    x, y = n.input(0), n.output()
    half, boolean = n.scalar(0.5, x), DType.BOOL
    floor = yield from compute(n, FLOOR, x)
    fraction = yield from compute(n, SUB, x, floor)
    halved = yield from compute(n, MUL, floor, half)
    even = yield from compute(n, FLOOR, halved)
    odd = yield from compute(n, NOT_EQUAL, even, halved, dtype=boolean)
    tie = yield from compute(n, EQUAL, fraction, half, dtype=boolean)
    tie_up = yield from compute(n, LOGICAL_AND, tie, odd)
    above = yield from compute(n, GREATER, fraction, half, dtype=boolean)
    up = yield from compute(n, LOGICAL_OR, above, tie_up)
    more = yield from compute(n, ADD, floor, n.scalar(1, x))
    yield apply(SELECT, up, more, floor, out=y)


@op("Reciprocal", since=6)
def reciprocal(n: Node) -> Iterator[Call]:
    """1 / x.

    Source: ONNX Reciprocal-6, Reciprocal-13; NDK ANEURALNETWORKS_DIV.
    """
    x = n.input(0)
    yield apply(DIV, n.scalar(1, x), x, out=n.output())


@op("Sign", since=9)
def sign(n: Node) -> Iterator[Call]:
    """-1, 0 or 1: x clipped to [-1, 1] after being made large, twice for subnormal numbers.

    Source: ONNX Sign-9, Sign-13; NDK ANEURALNETWORKS_MUL, FuseCode RELU1.
    """
    x, y = n.input(0), n.output()
    if x.dtype is DType.INT32:
        below = yield from compute(n, MINIMUM, x, n.scalar(1, x))
        yield apply(MAXIMUM, below, n.scalar(-1, x), out=y)
        return
    floats = x.dtype in (DType.FLOAT, DType.FLOAT16)
    n.require(floats, Reason.DTYPE, f"{x.name} is {x.dtype.name}, not INT32 or a float")
    large = n.scalar(float(n.limits(x).max), x)
    once = yield from compute(n, MUL, x, large, activation=FuseCode.RELU1)
    yield apply(MUL, once, large, activation=FuseCode.RELU1, out=y)


@op("Cos", since=7)
@widened
def cosine(n: Node) -> Iterator[Call]:
    """1 - 2 sin(x/2)^2, within 3e-7: x/2 is exact, where x + pi/2 would lose digits.

    Source: ONNX Cos-7, Cos-22; NDK ANEURALNETWORKS_SIN.
    """
    x, y = n.input(0), n.output()
    half = yield from compute(n, MUL, x, n.scalar(0.5, x))
    sine = yield from compute(n, SIN, half)
    square = yield from compute(n, MUL, sine, sine)
    twice = yield from compute(n, MUL, square, n.scalar(-2, x))
    yield apply(ADD, twice, n.scalar(1, x), out=y)


@op("Erf", since=9)
@widened
def erf(n: Node) -> Iterator[Call]:
    """The error function, within 2e-7.

    Source: ONNX Erf-9, Erf-13; NDK ANEURALNETWORKS_TANH; `curves.erf`.
    """
    x, y = n.input(0), n.output()
    yield from error_function(n, x, y)


@op("IsNaN", since=9)
def is_nan(n: Node) -> Iterator[Call]:
    """True where x is not a number: where it differs from itself.

    Source: ONNX IsNaN-9, IsNaN-13, IsNaN-20; NDK ANEURALNETWORKS_NOT_EQUAL.
    """
    x = n.input(0)
    yield apply(NOT_EQUAL, x, x, out=n.output())


@op("IsInf", since=10)
def is_infinite(n: Node) -> Iterator[Call]:
    """True where x is infinite; `detect_positive` and `detect_negative` select the signs.

    Source: ONNX IsInf-10, IsInf-20; NDK ANEURALNETWORKS_EQUAL.
    """
    x, y = n.input(0), n.output()
    positive, negative_too = n.integer("detect_positive", 1), n.integer("detect_negative", 1)
    infinity = n.scalar(float("inf"), x)
    if positive and negative_too:
        size = n.temp(x)
        yield from absolute(n, x, size)
        yield apply(EQUAL, size, infinity, out=y)
    elif positive or negative_too:
        yield apply(EQUAL, x, infinity if positive else n.scalar(float("-inf"), x), out=y)
    else:
        equal = yield from compute(n, EQUAL, x, x, dtype=DType.BOOL)
        unequal = yield from compute(n, NOT_EQUAL, x, x, dtype=DType.BOOL)
        yield apply(LOGICAL_AND, equal, unequal, out=y)
