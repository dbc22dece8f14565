"""Element-wise operations, with broadcasting: activations, arithmetic, comparisons, conversions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from onnx import TensorProto, helper

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.spec import BOOL8, DATA, F16, F32, I32, Q8, Q8C, Q8S, Q8Y, Q16, Q16Y
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import BINARY, Op, row
from ep_nnapi.ort_devices.scope import Perm, is_coded


def _plain(op_type: str, names: Sequence[str], op: Op) -> None:
    """Operations that one ONNX operator computes; quantized ones by way of real numbers."""
    perm = op.layout(*names)
    op.finish(op.node(op_type, *(op.broadcast(name, perm) for name in names)), perm)


def _quantized(op_type: str, op: Op) -> None:
    """ADD and MUL of quantized tensors by ONNX Runtime's kernel for them."""
    perm = op.layout("input1", "input2")
    arguments = []
    for name in BINARY:
        arguments += [
            op.broadcast(name, perm, real=False),
            *op.scope.quantization(op.operand(name)),
        ]
    end = op.scope.quantization(op.operand("output"))
    op.clamp(op.contrib(op_type, *arguments, *end), perm)


def div_integers(op: Op) -> None:
    """Quotient rounded towards minus infinity, by constants that no quotient overflows for."""
    divisors = op.constant("input2")
    require(bool(np.all((divisors != 0) & (divisors != -1))), "a divisor is 0 or -1")
    a, b = op.real("input1"), op.real("input2")
    rest = op.node("Mod", a, b)  # has the divisor's sign
    op.finish(op.node("Div", op.node("Sub", a, rest), b))


def _comparison(op_type: str, op: Op, *, negated: bool = False) -> None:
    """Comparisons of numbers; booleans are compared as the integers 0 and 1."""
    perm = op.layout("input1", "input2")
    found = op.node(op_type, *(_comparable(op, name, perm) for name in BINARY))
    op.keep(op.node("Not", found) if negated else found, perm)


def _comparable(op: Op, name: str, perm: Perm) -> str:
    value = op.broadcast(name, perm)
    if op.operand(name).type is BOOL8:
        return op.node("Cast", value, to=TensorProto.INT32)
    return value


def _extreme(op_type: str, op: Op) -> None:
    """MAXIMUM and MINIMUM; on stored numbers where all quantizations are equal."""
    perm = op.layout("input1", "input2")
    output = op.operand("output")
    same = all(op.operand(name).quantization == output.quantization for name in BINARY)
    if is_coded(output) and same:
        sides = [op.broadcast(name, perm, real=False) for name in BINARY]
        op.keep(op.node(op_type, *sides), perm)
    else:
        sides = [op.broadcast(name, perm) for name in BINARY]
        op.deliver(op.node(op_type, *sides), perm)


SIXTH = float(np.float32(1 / 6))
"""Slope of the hard sigmoids in NNAPI's models."""


def _unary(op_type: str, op: Op, *, then: str = "") -> None:
    """Operations that an ONNX operator without attributes computes, or two of them."""
    perm = op.layout("input")
    value = op.node(op_type, op.real("input", perm))
    op.deliver(op.node(then, value) if then else value, perm)


def _clip(activation: FuseCode, op: Op) -> None:
    """RELU, RELU1 and RELU6: a clip, of quantized tensors too after requantization."""
    perm = op.layout("input")
    op.deliver(op.scope.graph.activated(op.real("input", perm), activation), perm)


def elu(op: Op) -> None:
    """ELU with coefficient alpha."""
    perm = op.layout("input")
    op.deliver(op.node("Elu", op.real("input", perm), alpha=float(op.scalar("alpha"))), perm)


def hard_swish(op: Op) -> None:
    """Computes x * clip(x + 3, 0, 6) / 6."""
    perm = op.layout("input")
    x = op.real("input", perm)
    gate = op.node("HardSigmoid", x, alpha=SIXTH, beta=0.5)
    op.deliver(op.node("Mul", x, gate), perm)


def prelu(op: Op) -> None:
    """Negative numbers times alpha.

    A single alpha is LeakyRelu's, which ONNX Runtime fuses into a convolution before it.
    """
    slope = op.operand("alpha")
    single = isinstance(slope.value, Data) and slope.size == 1
    if single and op.shape("output") == op.shape("input"):
        alpha = float(slope.item)
        if is_coded(slope):
            alpha = (alpha - slope.zero_point) * slope.scale
        perm = op.layout("input")
        op.deliver(op.node("LeakyRelu", op.real("input", perm), alpha=alpha), perm)
        return
    broadcast = op.operand("input").type is Q8S and op.shape("output") != op.shape("input")
    require(not broadcast, "ONNX Runtime broadcasts no 8-bit input to its slopes")
    _plain("PRelu", ("input", "alpha"), op)


_REALS = (F32, F16)


def cast(op: Op) -> None:
    """Casts the stored numbers, truncating fractions; unsigned 8-bit results saturate."""
    before, after = op.operand("input").type, op.operand("output").type
    layout = op.layout("input")
    value = op.stored("input", layout)
    if before == after or (before in _REALS and after in _REALS):
        op.keep(value, layout)
        return
    if after is Q8 and before is not BOOL8:
        ends = (op.array(end, np.int32 if before is I32 else np.float32) for end in (0, 255))
        value = op.node("Clip", value, *ends)
    dtype = np.dtype(np.float32) if after in _REALS else after.numpy
    op.keep(op.scope.graph.cast(value, helper.np_dtype_to_tensor_dtype(dtype)), layout)


def quantize(op: Op) -> None:
    """Quantizes; ties are rounded to even, not away from zero."""
    layout = op.layout("input")
    op.deliver(op.real("input", layout), layout)


def dequantize(op: Op) -> None:
    """Dequantizes."""
    layout = op.layout("input")
    op.keep(op.real("input", layout), layout)


def dequantize_symmetric(op: Op) -> None:
    """Dequantizes numbers without zero point, with one scale or one per channel."""
    operand = op.operand("input")
    channels = operand.channels
    scales = channels.scales if channels else operand.scale
    axis = {"axis": channels.dim} if channels else {}
    value = op.node("DequantizeLinear", op.stored("input"), op.array(scales), **axis)
    op.keep(value)


_CODED = (Q8, Q8S)
_COMPARED = (F32, F16, Q8, Q8S, I32, BOOL8)
ROWS = (
    row(spec.ADD, partial(_plain, "Add", BINARY), F32, F16, I32),
    row(spec.ADD, partial(_quantized, "QLinearAdd"), *_CODED),
    row(spec.SUB, partial(_plain, "Sub", BINARY), *DATA, I32),
    row(spec.MUL, partial(_plain, "Mul", BINARY), F32, F16, I32),
    row(spec.MUL, partial(_quantized, "QLinearMul"), *_CODED),
    row(spec.DIV, partial(_plain, "Div", BINARY), F32, F16, Q8S),
    row(spec.DIV, div_integers, I32),
    row(spec.POW, partial(_plain, "Pow", ("base", "exponent")), F32, F16),
    row(spec.MAXIMUM, partial(_extreme, "Max"), *DATA, I32),
    row(spec.MINIMUM, partial(_extreme, "Min"), *DATA, I32),
    row(spec.LOGICAL_AND, partial(_plain, "And", BINARY), BOOL8),
    row(spec.LOGICAL_OR, partial(_plain, "Or", BINARY), BOOL8),
    row(spec.EQUAL, partial(_comparison, "Equal"), *_COMPARED),
    row(spec.NOT_EQUAL, partial(_comparison, "Equal", negated=True), *_COMPARED),
    row(spec.LESS, partial(_comparison, "Less"), *_COMPARED),
    row(spec.LESS_EQUAL, partial(_comparison, "LessOrEqual"), *_COMPARED),
    row(spec.GREATER, partial(_comparison, "Greater"), *_COMPARED),
    row(spec.GREATER_EQUAL, partial(_comparison, "GreaterOrEqual"), *_COMPARED),
    row(spec.SELECT, partial(_plain, "Where", ("condition", *BINARY)), *DATA, I32),
    row(spec.ABS, partial(_unary, "Abs"), F32, F16, I32),
    row(spec.EXP, partial(_unary, "Exp"), F32, F16),
    row(spec.FLOOR, partial(_unary, "Floor"), F32, F16),
    row(spec.LOG, partial(_unary, "Log"), F32, F16),
    row(spec.LOGICAL_NOT, partial(_unary, "Not"), BOOL8),
    row(spec.LOGISTIC, partial(_unary, "Sigmoid"), *DATA),
    row(spec.NEG, partial(_unary, "Neg"), F32, F16, I32),
    row(spec.RSQRT, partial(_unary, "Sqrt", then="Reciprocal"), *DATA),
    row(spec.SIN, partial(_unary, "Sin"), F32, F16),
    row(spec.SQRT, partial(_unary, "Sqrt"), F32, F16),
    row(spec.TANH, partial(_unary, "Tanh"), *DATA),
    row(spec.ELU, elu, F32, F16),
    row(spec.HARD_SWISH, hard_swish, *DATA),
    row(spec.PRELU, prelu, *DATA),
    row(spec.RELU, partial(_clip, FuseCode.RELU), *DATA),
    row(spec.RELU1, partial(_clip, FuseCode.RELU1), *DATA),
    row(spec.RELU6, partial(_clip, FuseCode.RELU6), *DATA),
    row(spec.CAST, cast, BOOL8, F32, F16, I32, Q8, Q8S, Q8Y, Q16, Q16Y),
    row(spec.QUANTIZE, quantize, F32, F16),
    row(spec.DEQUANTIZE, dequantize, Q8, Q8S),
    row(spec.DEQUANTIZE, dequantize_symmetric, Q8Y, Q8C),
)
