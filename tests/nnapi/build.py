"""Small models, and what is said of them."""

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, INT32, Q8, Q8S, RELU
from ep_nnapi.nnapi.validate import required_level, validate


def tensor(code, *dims, scale=0.0, zero_point=0, **more):
    return Operand(code, dims, scale, zero_point, **more)


ELEMENTS = {
    **{"float64": F32, "float32": F32, "float16": F16, "bool": BOOL8},
    **{"int64": I32, "int32": I32, "uint8": Q8, "int8": Q8S},
}
SCALARS = {bool: OperandCode.BOOL, int: INT32, float: OperandCode.FLOAT32}


def constant(array, scale=0.0, zero_point=0):
    array = np.asarray(array)
    code = ELEMENTS[array.dtype.name]
    data = Data.of(array.astype(code.numpy, copy=False))
    return Operand(code, array.shape, scale, zero_point, value=data)


def scalar(code, number):
    return Operand(code, value=Data.of(np.array(number, code.numpy)))


def operand(given):
    """An operand as it is; a constant for an array, a number or a model."""
    if isinstance(given, Operand):
        return given
    if isinstance(given, Model):
        return Operand(OperandCode.MODEL, value=given)
    return constant(given) if np.ndim(given) else scalar(SCALARS[type(given)], given)


def one(spec, inputs, outputs, *origin, **named):
    """A model of one operation, whose inputs without a value are the model's."""
    operands = (*map(operand, inputs), *outputs)
    ins = tuple(range(len(inputs)))
    outs = tuple(range(len(inputs), len(operands)))
    free = tuple(i for i in ins if operands[i].value is None)
    return Model(operands, (Operation(spec, ins, outs, origin),), free, outs, **named)


X = tensor(F32, 2, 3)
NONE = scalar(INT32, 0)


def relu(operand=X):
    return one(RELU, [operand], [operand])


def chain(*edges, size=None):
    """RELUs from operand to operand; 0 is the input, the last one the output."""
    size = size or max(max(e) for e in edges) + 1
    operations = tuple(Operation(RELU, (a,), (b,)) for a, b in edges)
    return Model((X,) * size, operations, (0,), (size - 1,))


def refuses(model, sentence, level=8):
    with pytest.raises(SpecError) as caught:
        validate(model, level)
    assert str(caught.value) == sentence


def accepted_from(model, level):
    assert required_level(model) == level
    validate(model, level)
    if level > 1:
        with pytest.raises(SpecError, match=f"needs feature level {level}"):
            validate(model, level - 1)


def quantized(*scales, zero_point=0):
    return [tensor(Q8, 2, 2, scale=s, zero_point=zero_point) for s in scales]
