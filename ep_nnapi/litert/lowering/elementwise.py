"""Element-wise operations of two tensors, with broadcasting, and SELECT."""

from __future__ import annotations

from ep_nnapi.litert.operation import FlatLowering, FlatOp
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.row import BINARY, row
from ep_nnapi.ort_devices.scope import require


def _arithmetic(operator: str, kind: str) -> FlatLowering:
    """Arithmetic with a fused activation, whose codes are LiteRT's too."""

    def lower(op: FlatOp) -> None:
        op.run(operator, BINARY, kind, fusedActivationFunction=op.number("activation"))

    return lower


def _plain(
    operator: str, kind: str = "", names: tuple[str, str] = BINARY, *, same: bool = False
) -> FlatLowering:
    """Operations without activation; `same`: on stored numbers, of one quantization."""

    def lower(op: FlatOp) -> None:
        if same:
            op.same_quantization(*names)
        op.run(operator, names, kind)

    return lower


def _comparison(operator: str, kind: str) -> FlatLowering:
    """Comparisons; quantized numbers of two scales end LiteRT's process for some scales."""

    def lower(op: FlatOp) -> None:
        first, second = (op.operand(name) for name in BINARY)
        same = (first.scale, first.zero_point) == (second.scale, second.zero_point)
        require(same, "the operands have different quantizations")
        signed = op.signed(*BINARY)
        inputs = [op.tensor(name, signed=signed) for name in BINARY]
        op.graph.operator(operator, inputs, [op.out()], (kind, {}))

    return lower


def select(op: FlatOp) -> None:
    """Elements of input1 where the condition holds, else of input2.

    Source: NDK ANEURALNETWORKS_SELECT.
    """
    op.same_quantization("input1", "input2")
    shapes = {op.shape(name) for name in ("condition", "input1", "input2")}
    require(len(shapes) == 1, "the operands have different shapes")
    signed = op.signed("input1", "input2")
    values = [op.tensor(name, signed=signed) for name in ("input1", "input2")]
    inputs = [op.tensor("condition"), *values]
    op.graph.operator("SELECT_V2", inputs, [op.out(signed=signed)], ("SelectV2", {}))


_DATA = (F32, Q8, Q8S)
_NUMBERS = (*_DATA, I32)
ROWS = (
    row(spec.ADD, _arithmetic("ADD", "Add"), *_NUMBERS),
    row(spec.SUB, _arithmetic("SUB", "Sub"), *_NUMBERS),
    row(spec.MUL, _arithmetic("MUL", "Mul"), *_NUMBERS),
    row(spec.DIV, _arithmetic("DIV", "Div"), F32),
    row(spec.POW, _plain("POW", "Pow", ("base", "exponent")), F32),
    row(spec.PRELU, _plain("PRELU", "", ("input", "alpha")), *_DATA),
    row(spec.MAXIMUM, _plain("MAXIMUM", "MaximumMinimum", same=True), *_NUMBERS),
    row(spec.MINIMUM, _plain("MINIMUM", "MaximumMinimum", same=True), *_NUMBERS),
    row(spec.LOGICAL_AND, _plain("LOGICAL_AND", "LogicalAnd"), BOOL8),
    row(spec.LOGICAL_OR, _plain("LOGICAL_OR", "LogicalOr"), BOOL8),
    row(spec.EQUAL, _comparison("EQUAL", "Equal"), *_NUMBERS, BOOL8),
    row(spec.NOT_EQUAL, _comparison("NOT_EQUAL", "NotEqual"), *_NUMBERS, BOOL8),
    row(spec.LESS, _comparison("LESS", "Less"), *_NUMBERS),
    row(spec.LESS_EQUAL, _comparison("LESS_EQUAL", "LessEqual"), *_NUMBERS),
    row(spec.GREATER, _comparison("GREATER", "Greater"), *_NUMBERS),
    row(spec.GREATER_EQUAL, _comparison("GREATER_EQUAL", "GreaterEqual"), *_NUMBERS),
    row(spec.SELECT, select, *_NUMBERS),
)
