"""Operations for tests of profiles, each in a model of its own."""

from dataclasses import replace

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.profile.form import OperationUse, uses
from ep_nnapi.nnapi.spec import BY_NAME

F32, Q8, I32 = (
    OperandCode.TENSOR_FLOAT32,
    OperandCode.TENSOR_QUANT8_ASYMM,
    OperandCode.TENSOR_INT32,
)


def tensor(*dims: int, code: OperandCode = F32, value: object = None, zero: int = 0) -> Operand:
    data = None if value is None else Data.of(np.broadcast_to(value, dims).astype(code.numpy))
    scale = 0.5 if code.quantized else 0.0
    return Operand(code, dims, scale, zero, value=data)


def scalar(value: bool | int | float) -> Operand:
    code = {bool: OperandCode.BOOL, int: OperandCode.INT32, float: OperandCode.FLOAT32}[type(value)]
    return Operand(code, value=Data.of(np.array(value, code.numpy)))


def model(name: str, inputs: list[Operand], *outputs: Operand, relaxed: bool = False) -> Model:
    operands = (*inputs, *outputs)
    ins, outs = tuple(range(len(inputs))), tuple(range(len(inputs), len(operands)))
    given = tuple(i for i in ins if operands[i].value is None)
    return Model(operands, (Operation(BY_NAME[name], ins, outs),), given, outs, relaxed)


def use(name: str, inputs: list[Operand], *outputs: Operand, relaxed: bool = False) -> OperationUse:
    (found,) = uses(model(name, inputs, *outputs, relaxed=relaxed))
    return found


def add(activation: int = 0, relaxed: bool = False, **changes: object) -> OperationUse:
    """An ADD of two images; `changes` of its first operand."""
    image = tensor(1, 4, 4, 2)
    inputs = [replace(image, **changes), image, scalar(activation)]
    return use("ADD", inputs, image, relaxed=relaxed)
