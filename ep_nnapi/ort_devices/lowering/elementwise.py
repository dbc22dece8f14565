"""Element-wise operations of two tensors, with broadcasting, and SELECT."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.operation import Op
from ep_nnapi.ort_devices.row import BINARY, Lowering, row
from ep_nnapi.ort_devices.scope import Perm, is_coded, require


def _arithmetic(op_type: str) -> Lowering:
    """ADD, SUB and MUL: floats, integers, or quantized by way of real numbers."""

    def lower(op: Op) -> None:
        perm = op.layout("input1", "input2")
        sides = (op.broadcast(name, perm) for name in BINARY)
        op.finish(op.node(op_type, *sides), perm)

    return lower


def _quantized(op_type: str) -> Lowering:
    """ADD and MUL of quantized tensors by ONNX Runtime's kernel for them."""

    def lower(op: Op) -> None:
        perm = op.layout("input1", "input2")
        arguments = []
        for name in BINARY:
            arguments += [
                op.broadcast(name, perm, real=False),
                *op.scope.quantization(op.operand(name)),
            ]
        end = op.scope.quantization(op.operand("output"))
        op.clamp(op.contrib(op_type, *arguments, *end), perm)

    return lower


def div_integers(op: Op) -> None:
    """Quotient rounded towards minus infinity, by constants that no quotient overflows for.

    Source: NDK ANEURALNETWORKS_DIV.
    """
    divisors = op.constant("input2")
    require(bool(np.all((divisors != 0) & (divisors != -1))), "a divisor is 0 or -1")
    a, b = op.real("input1"), op.real("input2")
    rest = op.node("Mod", a, b)  # has the divisor's sign
    op.finish(op.node("Div", op.node("Sub", a, rest), b))


def _plain(op_type: str, first: str = "input1", second: str = "input2") -> Lowering:
    """Operations without activation that one ONNX operator computes."""

    def lower(op: Op) -> None:
        perm = op.layout(first, second)
        sides = (op.broadcast(name, perm) for name in (first, second))
        op.deliver(op.node(op_type, *sides), perm)

    return lower


def _comparison(op_type: str, *, negated: bool = False) -> Lowering:
    """Comparisons of numbers; booleans are compared as the integers 0 and 1."""

    def lower(op: Op) -> None:
        perm = op.layout("input1", "input2")
        found = op.node(op_type, *(_comparable(op, name, perm) for name in BINARY))
        op.keep(op.node("Not", found) if negated else found, perm)

    return lower


def _comparable(op: Op, name: str, perm: Perm) -> str:
    value = op.broadcast(name, perm)
    if op.operand(name).type is BOOL8:
        return op.node("Cast", value, to=TensorProto.INT32)
    return value


def select(op: Op) -> None:
    """Elements of input1 where the condition holds, else of input2; both of the output's shape.

    Source: NDK ANEURALNETWORKS_SELECT.
    """
    perm = op.layout("condition", "input1", "input2")
    parts = (op.broadcast(name, perm) for name in ("condition", "input1", "input2"))
    op.deliver(op.node("Where", *parts), perm)


def _extreme(op_type: str) -> Lowering:
    """MAXIMUM and MINIMUM; on stored numbers where all quantizations are equal."""

    def lower(op: Op) -> None:
        perm = op.layout("input1", "input2")
        output = op.operand("output")
        same = {(o.scale, o.zero_point) for o in map(op.operand, BINARY)} == {
            (output.scale, output.zero_point)
        }
        if is_coded(output) and same:
            sides = [op.broadcast(name, perm, real=False) for name in BINARY]
            op.keep(op.node(op_type, *sides), perm)
        else:
            sides = [op.broadcast(name, perm) for name in BINARY]
            op.deliver(op.node(op_type, *sides), perm)

    return lower


_CODED = (Q8, Q8S)
_DATA = (F32, F16, Q8, Q8S)
_COMPARED = (F32, F16, Q8, Q8S, I32, BOOL8)
ROWS = (
    row(spec.ADD, _arithmetic("Add"), F32, F16, I32),
    row(spec.ADD, _quantized("QLinearAdd"), *_CODED),
    row(spec.SUB, _arithmetic("Sub"), *_DATA, I32),
    row(spec.MUL, _arithmetic("Mul"), F32, F16, I32),
    row(spec.MUL, _quantized("QLinearMul"), *_CODED),
    row(spec.DIV, _arithmetic("Div"), F32, F16, Q8S),
    row(spec.DIV, div_integers, I32),
    row(spec.POW, _plain("Pow", "base", "exponent"), F32, F16),
    row(spec.MAXIMUM, _extreme("Max"), *_DATA, I32),
    row(spec.MINIMUM, _extreme("Min"), *_DATA, I32),
    row(spec.LOGICAL_AND, _plain("And"), BOOL8),
    row(spec.LOGICAL_OR, _plain("Or"), BOOL8),
    row(spec.EQUAL, _comparison("Equal"), *_COMPARED),
    row(spec.NOT_EQUAL, _comparison("Equal", negated=True), *_COMPARED),
    row(spec.LESS, _comparison("Less"), *_COMPARED),
    row(spec.LESS_EQUAL, _comparison("LessOrEqual"), *_COMPARED),
    row(spec.GREATER, _comparison("Greater"), *_COMPARED),
    row(spec.GREATER_EQUAL, _comparison("GreaterOrEqual"), *_COMPARED),
    row(spec.SELECT, select, *_DATA, I32),
)
