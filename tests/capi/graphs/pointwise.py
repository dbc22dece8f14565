"""Operations whose output is as large as an input, or loses dimensions of it."""

from collections.abc import Callable
from dataclasses import replace

from ep_nnapi.nnapi.codes import OperandCode
from tests.capi.graphs.drawn import (
    BOOL8,
    BYTES,
    DATA,
    F16,
    F32,
    FLOATS,
    I32,
    NUMBERS,
    Q8,
    Q8S,
    SYMM,
    Draw,
    Given,
    Make,
    Operation,
    flag,
    integer,
    integers,
    recipes,
)

TO_5 = (1, 2, 3, 4, 5)


def broadcast(d: Draw, code: OperandCode, rank: int) -> tuple[Given, Given, list[int]]:
    """Two inputs, and the dimensions of both."""
    first = [d.size() if d.chance(0.9) else 1 for _ in range(rank)]
    second = [size if d.chance(0.9) else 1 for size in first]
    both = [max(pair) for pair in zip(first, second, strict=True)]
    return d.tensor(code, first), d.tensor(code, second), both


def arithmetic(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, b, dims = broadcast(d, code, rank)
    return Operation([a, b, d.activation()], [d.tensor(code, dims)])


def product(d: Draw, code: OperandCode, rank: int) -> Operation:
    """The output's scale is above that of the exact product."""
    inputs, (out,) = arithmetic(d, code, rank)
    scale = inputs[0].scale * inputs[1].scale * d.r.uniform(1.001, 5)
    return Operation(inputs, [replace(out, scale=scale)])


def two(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, b, dims = broadcast(d, code, rank)
    return Operation([a, b], [d.tensor(code, dims)])


def comparison(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, b, dims = broadcast(d, code, rank)
    return Operation([a, b], [Given(BOOL8, tuple(dims))])


def same(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    return Operation([a], [a.like(*a.dims)])


def into(*codes: OperandCode) -> Make:
    """An output of one of the types."""

    def make(d: Draw, code: OperandCode, rank: int) -> Operation:
        a = d.tensor(code, d.dims(rank))
        return Operation([a], [d.tensor(d.r.choice(codes), a.dims)])

    return make


def prescribed(code: OperandCode, dims: tuple[int, ...], scale: float, low: int) -> Given:
    """An output whose quantization is prescribed: unsigned 0 is `low` steps."""
    if code not in BYTES:
        return Given(code, dims)
    return Given(code, dims, scale, low - 128 if code is Q8S else low)


def logistic(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    return Operation([a], [prescribed(code, a.dims, 1 / 256, 0)])


def tanh(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    return Operation([a], [prescribed(code, a.dims, 1 / 128, 128)])


def softmax(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    axis = [integer(d.axis(rank))] if d.chance() else []
    inputs = [a, d.real(code, 0.1, 10), *axis]
    return Operation(inputs, [prescribed(code, a.dims, 1 / 256, 0)])


def log_softmax(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    return Operation([a, d.real(code, 0.1, 10), integer(d.axis(rank))], [a.like(*a.dims)])


def length_1(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    axis = [integer(d.axis(rank))] if d.chance() else []
    return Operation([a, *axis], [prescribed(code, a.dims, 1 / 128, 128)])


def neighbours(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    axis = [integer(d.axis(rank))] if d.chance() else []
    formula = [d.real(code, 0, 10), d.real(code, 0.1, 10), d.real(code, 0.1, 1)]
    return Operation([a, integer(d.size(1, 10)), *formula, *axis], [a.like(*a.dims)])


def instance(d: Draw, code: OperandCode, rank: int) -> Operation:
    a = d.tensor(code, d.dims(rank))
    formula = [d.real(code, 0.1, 10), d.real(code, -10, 10), d.real(code, 0.01, 1)]
    return Operation([a, *formula, flag(d.chance())], [a.like(*a.dims)])


def reduction(keep_dims: Callable[[bool], Given]) -> Make:
    """Along any axes, some of them told again; a full reduction declares no dimensions."""

    def make(d: Draw, code: OperandCode, rank: int) -> Operation:
        a, keep = d.tensor(code, d.dims(rank)), d.chance()
        axes = [d.axis(rank) for _ in range(d.size(1, 10))]
        reduced = {axis % rank for axis in axes}
        kept = [1 if i in reduced else n for i, n in enumerate(a.dims) if keep or i not in reduced]
        return Operation([a, integers(axes), keep_dims(keep)], [a.like(*kept)])

    return make


def extreme(d: Draw, code: OperandCode, rank: int) -> Operation:
    a, axis = d.tensor(code, d.dims(rank)), d.axis(rank)
    dims = [size for i, size in enumerate(a.dims) if i != axis % rank]
    return Operation([a, integer(axis)], [Given(I32, tuple(dims))])


COMPARISONS = "GREATER GREATER_EQUAL LESS LESS_EQUAL EQUAL NOT_EQUAL"
RECIPES = [
    *recipes("ADD SUB", NUMBERS, arithmetic),
    *recipes("DIV", FLOATS, arithmetic),
    *recipes("MUL", NUMBERS, product),
    *recipes("POW", FLOATS, two, TO_5),
    *recipes("PRELU", NUMBERS, two, TO_5),
    *recipes("MAXIMUM MINIMUM", DATA, two, TO_5),
    *recipes("LOGICAL_AND LOGICAL_OR", (BOOL8,), two, TO_5),
    *recipes(COMPARISONS, DATA, comparison),
    *recipes("EQUAL NOT_EQUAL", (BOOL8,), comparison),
    *recipes("FLOOR", FLOATS, same),
    *recipes("RELU RELU1 RELU6", NUMBERS, same),
    *recipes("EXP SIN LOG RSQRT SQRT", FLOATS, same, TO_5),
    *recipes("ABS NEG", (*FLOATS, I32), same, TO_5),
    *recipes("LOGICAL_NOT", (BOOL8,), same, TO_5),
    *recipes("LOGISTIC", NUMBERS, logistic),
    *recipes("TANH", NUMBERS, tanh),
    *recipes("DEQUANTIZE", (*BYTES, SYMM), into(F32, F16)),
    *recipes("QUANTIZE", FLOATS, into(*BYTES)),
    *recipes("CAST", (*FLOATS, Q8, I32), into(F32, F16, Q8, I32), TO_5),
    *recipes("SOFTMAX", NUMBERS, softmax),
    *recipes("LOG_SOFTMAX", FLOATS, log_softmax),
    *recipes("L2_NORMALIZATION", NUMBERS, length_1),
    *recipes("LOCAL_RESPONSE_NORMALIZATION", FLOATS, neighbours),
    *recipes("INSTANCE_NORMALIZATION", FLOATS, instance, (4,)),
    *recipes("MEAN", NUMBERS, reduction(lambda keep: integer(100 if keep else -100))),
    *recipes("REDUCE_PROD REDUCE_SUM", FLOATS, reduction(flag)),
    *recipes("REDUCE_MAX REDUCE_MIN", NUMBERS, reduction(flag)),
    *recipes("REDUCE_ALL REDUCE_ANY", (BOOL8,), reduction(flag)),
    *recipes("ARGMAX ARGMIN", DATA, extreme, TO_5),
]
