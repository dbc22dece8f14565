"""The work of a model, by its declared sizes."""

from __future__ import annotations

from math import inf, prod

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Data, Model, Operation
from ep_nnapi.nnapi.signature import NO_TRAITS
from ep_nnapi.nnapi.sizes import at_present, is_symbolic

_CHANNELS = {
    spec.CONV_2D.code: 0,
    spec.GROUPED_CONV_2D.code: 0,
    spec.DEPTHWISE_CONV_2D.code: 3,
    spec.TRANSPOSE_CONV_2D.code: 0,
    spec.FULLY_CONNECTED.code: 0,
}
"""Axis of the weights, the second input, that has the output channels; by the operation's code."""


def work(model: Model) -> int:
    """Return the multiply-accumulates of a model by its declared sizes; unknown ones count as 1.

    Elements of outputs and constants count for operations that are no convolution or product.
    """
    return sum(_operation_work(model, operation) for operation in model.operations)


def _operation_work(model: Model, operation: Operation) -> int:
    out = sum(_elements(model, index) for index in operation.outputs)
    axis = _CHANNELS.get(operation.spec.code)
    if axis is not None:
        dimensions = model.operands[operation.inputs[1]].dimensions
        return out * prod(d or 1 for i, d in enumerate(dimensions) if i != axis)
    values = (model.operands[index].value for index in operation.inputs)
    inner = sum(work(value) for value in values if isinstance(value, Model))
    constants = (i for i in operation.inputs if isinstance(model.operands[i].value, Data))
    return out + inner + sum(_elements(model, index) for index in constants)


def _elements(model: Model, index: int) -> int:
    return prod(size or 1 for size in model.operands[index].dimensions)


def most_work(model: Model) -> float:
    """Return about how many products and elements a run computes at most; infinite if unknown.

    An operation that is not known to treat each element alone may treat each with every other one.
    """
    every = [operand.dimensions for operand in model.operands]
    shapes = [tuple(map(at_present, dims)) if is_symbolic(dims) else dims for dims in every]
    sizes = [*map(prod, shapes)]
    known = model.checked or all(operand.known for operand in model.operands)
    if not known or 0 in sizes or Model in [type(operand.value) for operand in model.operands]:
        return inf  # how often a loop runs depends on what is given
    most = 0
    for operation in model.operations:
        code, axis = operation.spec.code, _CHANNELS.get(operation.spec.code)
        out = sum(map(sizes.__getitem__, operation.outputs))
        if axis is not None:
            weights = operation.inputs[1]
            most += out * sizes[weights] // shapes[weights][axis]  # products for each element
        elif code == spec.BATCH_MATMUL.code:
            most += out * max(shapes[operation.inputs[0]][-2:])
        else:
            taken = sum(map(sizes.__getitem__, operation.inputs))
            most += out * taken if operation.spec.traits is NO_TRAITS else out + taken
    return most
