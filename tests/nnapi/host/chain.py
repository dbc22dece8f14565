"""Models of several operations, put together one by one."""

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation
from ep_nnapi.nnapi.runtime import RunOptions
from tests.nnapi.host.oracle import REFERENCE, RUNTIME

SCALARS = {bool: OperandCode.BOOL, int: OperandCode.INT32, float: OperandCode.FLOAT32}


class Chain:
    """Operands are referred to by index once they are added; `inputs` are the model's, in order."""

    def __init__(self, *inputs: Operand):
        self.operands = list(inputs)
        self.operations = []
        self.inputs = list(range(len(inputs)))
        self.fed = []

    def put(self, stored) -> int:
        """An input, and what to feed."""
        self.inputs.append(len(self.operands))
        self.fed.append(stored.array)
        return self._add(stored.operand)

    def constant(self, array, operand: Operand) -> int:
        """Elements that are part of the model."""
        return self._add(
            Operand(
                operand.type, array.shape, operand.scale, operand.zero_point, value=Data.of(array)
            )
        )

    def inner(self, model: Model) -> int:
        """A model that an operation runs."""
        return self._add(Operand(OperandCode.MODEL, value=model))

    def apply(self, row, inputs, *outputs: Operand) -> tuple[int, ...]:
        """An operation; gives the indexes of its outputs."""
        found = tuple(map(self._add, outputs))
        self.operations.append(Operation(row, tuple(inputs), found))
        return found

    def scalars(self, *numbers) -> tuple[int, ...]:
        """Scalars of the types that go with Python's."""
        codes = [SCALARS[type(number)] for number in numbers]
        arrays = [np.array(n, c.numpy) for n, c in zip(numbers, codes, strict=True)]
        return tuple(
            self._add(Operand(c, value=Data.of(a))) for c, a in zip(codes, arrays, strict=True)
        )

    def model(self, *outputs: int) -> Model:
        """The model with these outputs."""
        operands, operations = tuple(self.operands), tuple(self.operations)
        return Model(operands, operations, tuple(self.inputs), outputs)

    def run(self, *outputs: int) -> list[np.ndarray]:
        """Outputs of the model for the inputs that were added."""
        return run(self.model(*outputs), *self.fed)

    def _add(self, operand: Operand) -> int:
        self.operands.append(operand)
        return len(self.operands) - 1


def run(model: Model, *arrays: np.ndarray, **options) -> list[np.ndarray]:
    """Outputs of a model; `options` of the run."""
    return RUNTIME.compile(model, REFERENCE).run(arrays, options=RunOptions(**options))
