"""Operations for tests of profiles, each in a model of its own."""

from dataclasses import replace

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.profile.form import OperationUse, uses
from ep_nnapi.nnapi.spec import BY_NAME
from tests.nnapi.build import one

F32, Q8, I32 = (
    OperandCode.TENSOR_FLOAT32,
    OperandCode.TENSOR_QUANT8_ASYMM,
    OperandCode.TENSOR_INT32,
)


def tensor(*dims: int, code: OperandCode = F32, value: object = None, zero: int = 0) -> Operand:
    data = None if value is None else Data.of(np.broadcast_to(value, dims).astype(code.numpy))
    scale = 0.5 if code.quantized else 0.0
    return Operand(code, dims, scale, zero, value=data)


def model(name: str, inputs: list[object], *outputs: Operand, relaxed: bool = False) -> Model:
    return one(BY_NAME[name], inputs, outputs, relaxed=relaxed)


def use(name: str, inputs: list[object], *outputs: Operand, relaxed: bool = False) -> OperationUse:
    (found,) = uses(model(name, inputs, *outputs, relaxed=relaxed))
    return found


def add(activation: int = 0, relaxed: bool = False, **changes: object) -> OperationUse:
    """An ADD of two images; `changes` of its first operand."""
    image = tensor(1, 4, 4, 2)
    inputs = [replace(image, **changes), image, activation]
    return use("ADD", inputs, image, relaxed=relaxed)
