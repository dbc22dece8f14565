"""Models whose sizes are expressions in NNAPI's own form: with dimensions that executions set.

Source: NDK ANeuralNetworksOperandType (a dimension of 0 is unknown), and
ANeuralNetworksExecution_setInput, whose type then has the sizes of a run.
"""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.expressions import Symbols
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.sizes import Size, bound

LEVEL = 3
"""Feature level from which on executions tell the sizes of their outputs."""


@frozen
class SizeInput:
    """An input of a model whose contents are computed from the sizes of a run.

    numbers  its elements, of which some are a `Size`
    shape    () for a scalar
    """

    numbers: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def array(self) -> Array:
        """The contents, of numbers."""
        return np.array(self.numbers, self.dtype).reshape(self.shape)

    def bind(self, symbols: Symbols) -> SizeInput:
        """The input with numbers for its sizes."""
        return replace(self, numbers=bound(self.numbers, symbols))


def with_open_dimensions(model: Model) -> tuple[Model, tuple[SizeInput, ...]]:
    """Return the model with dimensions left open, and the inputs that it has besides its own.

    A size that is an expression becomes an unknown dimension. A constant that holds such sizes
    becomes an input, after the others; the shape of a RESHAPE with one of them holds -1 instead.
    """
    uses = [
        (index, (operation.spec, place) == (spec.RESHAPE, 1))
        for operation in model.operations
        for place, index in enumerate(operation.inputs)
    ]
    shapes = {index for index, is_shape in uses if is_shape}
    shapes -= {index for index, is_shape in uses if not is_shape}
    operands = [operand.opened() for operand in model.operands]
    added: dict[int, SizeInput] = {}
    for index, operand in enumerate(operands):
        value, code = operand.value, operand.type
        if not isinstance(value, Data) or not value.numbers:
            continue
        known = [-1 if isinstance(n, Size) else n for n in value.numbers]
        if index in shapes and known.count(-1) == 1:
            operands[index] = replace(operand, value=Data.of_sizes(known, code.numpy))
        else:
            operands[index] = replace(operand, value=None)
            shape = operand.dimensions if code.tensor else ()
            added[index] = SizeInput(value.numbers, shape, code.numpy)
    inputs = (*model.inputs, *added)
    made = Model(tuple(operands), model.operations, inputs, model.outputs, model.relaxed)
    return made, tuple(added.values())
