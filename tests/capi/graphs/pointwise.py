"""Operations whose output is as large as an input, or loses dimensions of it."""

from collections.abc import Callable
from dataclasses import replace

from ep_nnapi.nnapi.codes import OperandCode
from tests.capi.graphs import drawn

TO_5 = (1, 2, 3, 4, 5)


def broadcast(
    d: drawn.Draw, code: OperandCode, rank: int
) -> tuple[drawn.Given, drawn.Given, list[int]]:
    """Two inputs, and the dimensions of both."""
    first = [d.size() if d.chance(0.9) else 1 for _ in range(rank)]
    second = [size if d.chance(0.9) else 1 for size in first]
    both = [max(pair) for pair in zip(first, second, strict=True)]
    return d.tensor(code, first), d.tensor(code, second), both


def arithmetic(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, b, dims = broadcast(d, code, rank)
    return drawn.Operation([a, b, d.activation()], [d.tensor(code, dims)])


def product(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    """The output's scale is above that of the exact product."""
    inputs, (out,) = arithmetic(d, code, rank)
    scale = inputs[0].scale * inputs[1].scale * d.r.uniform(1.001, 5)
    return drawn.Operation(inputs, [replace(out, scale=scale)])


def two(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, b, dims = broadcast(d, code, rank)
    return drawn.Operation([a, b], [d.tensor(code, dims)])


def comparison(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, b, dims = broadcast(d, code, rank)
    return drawn.Operation([a, b], [drawn.Given(drawn.BOOL8, tuple(dims))])


def same(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    return drawn.Operation([a], [a.like(*a.dims)])


def into(*codes: OperandCode) -> drawn.Make:
    """An output of one of the types."""

    def make(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
        a = d.tensor(code, d.dims(rank))
        return drawn.Operation([a], [d.tensor(d.r.choice(codes), a.dims)])

    return make


def prescribed(code: OperandCode, dims: tuple[int, ...], scale: float, low: int) -> drawn.Given:
    """An output whose quantization is prescribed: unsigned 0 is `low` steps."""
    if code not in drawn.BYTES:
        return drawn.Given(code, dims)
    return drawn.Given(code, dims, scale, low - 128 if code is drawn.Q8S else low)


def logistic(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    return drawn.Operation([a], [prescribed(code, a.dims, 1 / 256, 0)])


def tanh(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    return drawn.Operation([a], [prescribed(code, a.dims, 1 / 128, 128)])


def softmax(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    axis = [drawn.integer(d.axis(rank))] if d.chance() else []
    inputs = [a, d.real(code, 0.1, 10), *axis]
    return drawn.Operation(inputs, [prescribed(code, a.dims, 1 / 256, 0)])


def log_softmax(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    return drawn.Operation(
        [a, d.real(code, 0.1, 10), drawn.integer(d.axis(rank))], [a.like(*a.dims)]
    )


def length_1(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    axis = [drawn.integer(d.axis(rank))] if d.chance() else []
    return drawn.Operation([a, *axis], [prescribed(code, a.dims, 1 / 128, 128)])


def neighbours(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    axis = [drawn.integer(d.axis(rank))] if d.chance() else []
    formula = [d.real(code, 0, 10), d.real(code, 0.1, 10), d.real(code, 0.1, 1)]
    return drawn.Operation([a, drawn.integer(d.size(1, 10)), *formula, *axis], [a.like(*a.dims)])


def instance(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a = d.tensor(code, d.dims(rank))
    formula = [d.real(code, 0.1, 10), d.real(code, -10, 10), d.real(code, 0.01, 1)]
    return drawn.Operation([a, *formula, drawn.flag(d.chance())], [a.like(*a.dims)])


def reduction(keep_dims: Callable[[bool], drawn.Given]) -> drawn.Make:
    """Along any axes, some of them told again; a full reduction declares no dimensions."""

    def make(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
        a, keep = d.tensor(code, d.dims(rank)), d.chance()
        axes = [d.axis(rank) for _ in range(d.size(1, 10))]
        reduced = {axis % rank for axis in axes}
        kept = [1 if i in reduced else n for i, n in enumerate(a.dims) if keep or i not in reduced]
        return drawn.Operation([a, drawn.integers(axes), keep_dims(keep)], [a.like(*kept)])

    return make


def extreme(d: drawn.Draw, code: OperandCode, rank: int) -> drawn.Operation:
    a, axis = d.tensor(code, d.dims(rank)), d.axis(rank)
    dims = [size for i, size in enumerate(a.dims) if i != axis % rank]
    return drawn.Operation([a, drawn.integer(axis)], [drawn.Given(drawn.I32, tuple(dims))])


COMPARISONS = "GREATER GREATER_EQUAL LESS LESS_EQUAL EQUAL NOT_EQUAL"
RECIPES = [
    *drawn.recipes("ADD SUB", drawn.NUMBERS, arithmetic),
    *drawn.recipes("DIV", drawn.FLOATS, arithmetic),
    *drawn.recipes("MUL", drawn.NUMBERS, product),
    *drawn.recipes("POW", drawn.FLOATS, two, TO_5),
    *drawn.recipes("PRELU", drawn.NUMBERS, two, TO_5),
    *drawn.recipes("MAXIMUM MINIMUM", drawn.DATA, two, TO_5),
    *drawn.recipes("LOGICAL_AND LOGICAL_OR", (drawn.BOOL8,), two, TO_5),
    *drawn.recipes(COMPARISONS, drawn.DATA, comparison),
    *drawn.recipes("EQUAL NOT_EQUAL", (drawn.BOOL8,), comparison),
    *drawn.recipes("FLOOR", drawn.FLOATS, same),
    *drawn.recipes("RELU RELU1 RELU6", drawn.NUMBERS, same),
    *drawn.recipes("EXP SIN LOG RSQRT SQRT", drawn.FLOATS, same, TO_5),
    *drawn.recipes("ABS NEG", (*drawn.FLOATS, drawn.I32), same, TO_5),
    *drawn.recipes("LOGICAL_NOT", (drawn.BOOL8,), same, TO_5),
    *drawn.recipes("LOGISTIC", drawn.NUMBERS, logistic),
    *drawn.recipes("TANH", drawn.NUMBERS, tanh),
    *drawn.recipes("DEQUANTIZE", (*drawn.BYTES, drawn.SYMM), into(drawn.F32, drawn.F16)),
    *drawn.recipes("QUANTIZE", drawn.FLOATS, into(*drawn.BYTES)),
    *drawn.recipes(
        "CAST",
        (*drawn.FLOATS, drawn.Q8, drawn.I32),
        into(drawn.F32, drawn.F16, drawn.Q8, drawn.I32),
        TO_5,
    ),
    *drawn.recipes("SOFTMAX", drawn.NUMBERS, softmax),
    *drawn.recipes("LOG_SOFTMAX", drawn.FLOATS, log_softmax),
    *drawn.recipes("L2_NORMALIZATION", drawn.NUMBERS, length_1),
    *drawn.recipes("LOCAL_RESPONSE_NORMALIZATION", drawn.FLOATS, neighbours),
    *drawn.recipes("INSTANCE_NORMALIZATION", drawn.FLOATS, instance, (4,)),
    *drawn.recipes(
        "MEAN", drawn.NUMBERS, reduction(lambda keep: drawn.integer(100 if keep else -100))
    ),
    *drawn.recipes("REDUCE_PROD REDUCE_SUM", drawn.FLOATS, reduction(drawn.flag)),
    *drawn.recipes("REDUCE_MAX REDUCE_MIN", drawn.NUMBERS, reduction(drawn.flag)),
    *drawn.recipes("REDUCE_ALL REDUCE_ANY", (drawn.BOOL8,), reduction(drawn.flag)),
    *drawn.recipes("ARGMAX ARGMIN", drawn.DATA, extreme, TO_5),
]
