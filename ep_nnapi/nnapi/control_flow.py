"""Validation of IF and WHILE: operands must match the inputs and outputs of their submodels."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.model import Model, Operand, Operation
from ep_nnapi.nnapi.operand import describe


def check_control_flow(operation: Operation, operands: Sequence[Operand]) -> None:
    """Raise SpecError if the operands of an IF or WHILE do not match its submodels.

    Other operations pass. The operation must already match its spec row.
    Source: ANEURALNETWORKS_IF, ANEURALNETWORKS_WHILE.
    """
    if operation.spec.name not in ("IF", "WHILE"):
        return
    inputs = [operands[i] for i in operation.inputs]
    outputs = [operands[i] for i in operation.outputs]
    if operation.spec.name == "IF":
        _check_condition("IF.condition", inputs[0])
        for name, branch in (("then_model", inputs[1]), ("else_model", inputs[2])):
            model = _model(f"IF.{name}", branch)
            _check_all(f"IF.{name} inputs", _ends(model, model.inputs), inputs[3:])
            _check_all(f"IF.{name} outputs", _ends(model, model.outputs), outputs)
    else:
        _check_while(inputs, outputs)


def _check_while(inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
    """Raise SpecError unless the submodels of a WHILE match its operands.

    Body inputs: loop outputs, internal state, constant inputs. Body outputs: the first two.
    """
    condition = _model("WHILE.condition_model", inputs[0])
    body = _model("WHILE.body_model", inputs[1])
    given = inputs[2:]
    _check_all("WHILE.condition_model inputs", _ends(condition, condition.inputs), given)
    if len(condition.outputs) != 1:
        raise SpecError(f"WHILE.condition_model has {len(condition.outputs)} outputs, it takes 1")
    _check_condition("WHILE.condition_model output", *_ends(condition, condition.outputs))
    taken, returned = _ends(body, body.inputs), _ends(body, body.outputs)
    _check_all("WHILE.body_model inputs", taken, given)
    if not len(outputs) <= len(returned) <= len(taken):
        raise SpecError(
            f"WHILE.body_model has {len(returned)} outputs, it takes {len(outputs)} to {len(taken)}"
        )
    _check_all("WHILE.body_model outputs", returned[: len(outputs)], outputs)
    _check_all("WHILE.body_model outputs", returned, taken[: len(returned)])


def _model(name: str, operand: Operand) -> Model:
    if not isinstance(operand.value, Model):
        raise SpecError(f"{name} has no model")
    return operand.value


def _ends(model: Model, indexes: Sequence[int]) -> list[Operand]:
    return [model.operands[i] for i in indexes]


def _check_condition(name: str, operand: Operand) -> None:
    if operand.type is not OperandCode.TENSOR_BOOL8 or operand.dimensions != (1,):
        raise SpecError(f"{name} is {describe(operand)}, it takes TENSOR_BOOL8 [1]")


def _check_all(name: str, inner: Sequence[Operand], outer: Sequence[Operand]) -> None:
    if len(inner) != len(outer):
        raise SpecError(f"{name}: the model has {len(inner)}, the operation has {len(outer)}")
    for n, (a, b) in enumerate(zip(inner, outer, strict=True)):
        if not compatible(a, b):
            raise SpecError(f"{name}: number {n} is {_quantized(a)} and must fit {_quantized(b)}")


def _quantized(operand: Operand) -> str:
    if operand.channels is not None:
        return f"{describe(operand)} with {operand.channels}"
    if operand.scale == 0:
        return describe(operand)
    return f"{describe(operand)} of scale {operand.scale:g} from {operand.zero_point}"


def compatible(a: Operand, b: Operand) -> bool:
    """Return True if types, quantization parameters and all known dimensions are equal."""
    same_type = (a.type, a.scale, a.zero_point, a.channels) == (
        b.type,
        b.scale,
        b.zero_point,
        b.channels,
    )
    if not a.dimensions or not b.dimensions:
        return same_type
    same_rank = len(a.dimensions) == len(b.dimensions)
    sizes = zip(a.dimensions, b.dimensions, strict=False)
    return same_type and same_rank and all(x == y or 0 in (x, y) for x, y in sizes)
