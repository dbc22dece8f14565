"""Element-wise operations, with broadcasting: activations, arithmetic, comparisons, conversions."""

from __future__ import annotations

from functools import partial

import numpy as np

from ep_nnapi.litert.operation import DATA, NUMBERS, FlatOp, direct, is_signed, through_float
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8C, Q8S, Q8Y
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import BINARY, row
from ep_nnapi.ort_devices.scope import is_coded


def _arithmetic(operator: str, op: FlatOp) -> None:
    """Arithmetic with a fused activation, whose codes are LiteRT's too."""
    op.run(operator, BINARY, fusedActivationFunction=op.number("activation"))


_LARGEST_SCALE = 2.0**108
"""From this scale of a sum on LiteRT ends its process: 2^20 times it is infinite in float32."""


def _sum(operator: str, op: FlatOp) -> None:
    """ADD or SUB; an attention mask of the least float32 may have so large a scale."""
    lower = partial(_arithmetic, operator)
    (through_float(lower) if op.operand("output").scale >= _LARGEST_SCALE else lower)(op)


def _extreme(operator: str, op: FlatOp) -> None:
    """MAXIMUM and MINIMUM of stored numbers, in the output's quantization."""
    signed = op.signed(*BINARY)
    inputs = [op.requantized(op.index(name), signed=signed) for name in BINARY]
    op.graph.operator(operator, inputs, [op.out(signed=signed)])


def _comparison(operator: str, op: FlatOp) -> None:
    """Comparisons of numbers; booleans are compared as 0 and 1.

    Quantized numbers are dequantized: on them LiteRT calculates with fewer bits, so that neighbours
    may be equal, and scales from 1 on end its process.
    """
    if is_coded(op.operand("input1")):
        through_float(partial(_comparison, operator))(op)
        return
    inputs = [op.tensor(name) for name in BINARY]
    if op.operand("input1").type is BOOL8 and operator not in ("EQUAL", "NOT_EQUAL"):
        inputs = [op.cast(value, np.int32) for value in inputs]
    op.run(operator, inputs)


def select(op: FlatOp) -> None:
    """Elements of input1 where the condition holds, else of input2."""
    shapes = {op.shape(name) for name in ("condition", "input1", "input2")}
    require(len(shapes) == 1, "the operands have different shapes")
    signed = op.signed("input1", "input2")
    values = [op.requantized(op.index(name), signed=signed) for name in BINARY]
    inputs = [op.tensor("condition"), *values]
    op.graph.operator("SELECT_V2", inputs, [op.out(signed=signed)])


def elu(op: FlatOp) -> None:
    """ELU; LiteRT's has the coefficient 1."""
    alpha = float(op.scalar("alpha"))
    if alpha == 1.0:
        op.run("ELU", ["input"])
        return
    x, result = op.tensor("input"), op.described(signed=False)
    zero, factor = (op.graph.array(np.array([n], np.float32)) for n in (0, alpha))
    curve = op.computed("ELU", [x], result)
    below = op.computed("MINIMUM", [curve, zero], result)
    ends = op.computed("MUL", [below, factor], result), op.computed("RELU", [x], result)
    op.run("ADD", ends)


def quantize(op: FlatOp) -> None:
    """Quantized numbers of real ones."""
    signed = is_signed(op.operand("output").type)
    outputs = [op.out(signed=signed)]
    op.graph.operator("QUANTIZE", [op.tensor("input")], outputs)


def cast(op: FlatOp) -> None:
    """Converts stored numbers, to the nearest ones that the output has."""
    source, result = op.operand("input").type, op.operand("output").type
    signed = is_signed(source)
    value = op.tensor("input", signed=signed)
    if source is result:
        op.finish(op.graph.reshaped(value, op.shape("output")), signed=signed)
        return
    if result is Q8:
        given = op.graph.tensors[value]
        for operator, end in (("MAXIMUM", 0), ("MINIMUM", 255)):
            limit = op.graph.array(np.array(end, given.dtype))
            value = op.computed(operator, [value, limit], given)
    if result is F16:
        value = op.cast(value, np.float16)
    op.run("CAST", [value])


def divide_integers(op: FlatOp) -> None:
    """Quotients rounded down."""
    require(op.number("activation") == 0, "LiteRT's FLOOR_DIV has no activation")
    safe = not np.isin(op.constant("input2"), (0, -1)).any()
    require(safe, "a divisor is 0 or -1, which may end LiteRT's process")
    op.run("FLOOR_DIV", BINARY)


_COMPARED = (*NUMBERS, BOOL8)
_CODED = (Q8, Q8S)
ROWS = (
    row(spec.ADD, partial(_sum, "ADD"), *NUMBERS),
    row(spec.SUB, partial(_sum, "SUB"), *NUMBERS),
    row(spec.MUL, partial(_arithmetic, "MUL"), *NUMBERS),
    row(spec.DIV, partial(_arithmetic, "DIV"), F32),
    row(spec.DIV, divide_integers, I32),
    row(spec.POW, partial(direct, "POW"), F32),
    row(spec.PRELU, partial(direct, "PRELU"), *DATA),
    row(spec.MAXIMUM, partial(_extreme, "MAXIMUM"), *NUMBERS),
    row(spec.MINIMUM, partial(_extreme, "MINIMUM"), *NUMBERS),
    row(spec.LOGICAL_AND, partial(direct, "LOGICAL_AND"), BOOL8),
    row(spec.LOGICAL_OR, partial(direct, "LOGICAL_OR"), BOOL8),
    row(spec.EQUAL, partial(_comparison, "EQUAL"), *_COMPARED),
    row(spec.NOT_EQUAL, partial(_comparison, "NOT_EQUAL"), *_COMPARED),
    row(spec.LESS, partial(_comparison, "LESS"), *_COMPARED),
    row(spec.LESS_EQUAL, partial(_comparison, "LESS_EQUAL"), *_COMPARED),
    row(spec.GREATER, partial(_comparison, "GREATER"), *_COMPARED),
    row(spec.GREATER_EQUAL, partial(_comparison, "GREATER_EQUAL"), *NUMBERS, BOOL8),
    row(spec.SELECT, select, *NUMBERS),
    row(spec.ABS, partial(direct, "ABS"), F32, I32),
    row(spec.EXP, partial(direct, "EXP"), F32),
    row(spec.FLOOR, partial(direct, "FLOOR"), F32),
    row(spec.LOG, partial(direct, "LOG"), F32),
    row(spec.LOGICAL_NOT, partial(direct, "LOGICAL_NOT"), BOOL8),
    row(spec.LOGISTIC, partial(direct, "LOGISTIC"), F32, *_CODED),
    row(spec.NEG, partial(direct, "NEG"), F32, I32),
    row(spec.RSQRT, partial(direct, "RSQRT"), F32),
    row(spec.RSQRT, through_float(partial(direct, "RSQRT")), *_CODED),
    row(spec.SIN, partial(direct, "SIN"), F32),
    row(spec.SQRT, partial(direct, "SQRT"), F32),
    row(spec.TANH, partial(direct, "TANH"), F32, *_CODED),
    row(spec.ELU, elu, F32),
    row(spec.HARD_SWISH, partial(direct, "HARD_SWISH"), F32, *_CODED),
    row(spec.RELU, partial(direct, "RELU"), F32, *_CODED),
    row(spec.RELU1, partial(direct, "RELU_N1_TO_1"), F32, *_CODED),
    row(spec.RELU6, partial(direct, "RELU6"), F32, *_CODED),
    row(spec.DEQUANTIZE, partial(direct, "DEQUANTIZE"), Q8, Q8S, Q8Y, Q8C),
    row(spec.QUANTIZE, quantize, F32),
    row(spec.CAST, cast, F32, I32, Q8, Q8S, Q8Y, BOOL8),
)
