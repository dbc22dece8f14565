"""Devices for compilations whose client names none, first to last.

Small models stay on nnapi-reference: it takes less time for them than a faster device takes to
start, and forks of the process wait for single operations only.
"""

from __future__ import annotations

from math import inf, prod

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.registry import least_work
from ep_nnapi.nnapi.model import Data, Model, Operation
from ep_nnapi.nnapi.runtime import Device

_CHANNELS = {
    spec.CONV_2D.code: 0,
    spec.GROUPED_CONV_2D.code: 0,
    spec.DEPTHWISE_CONV_2D.code: 3,
    spec.TRANSPOSE_CONV_2D.code: 0,
    spec.FULLY_CONNECTED.code: 0,
}
"""Axis of the weights, the second input, that has the output channels; by the operation's code."""


def default_devices(model: Model | None, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Return a runtime's devices in the order in which they are tried for a model.

    Those that are there because the user names them are first.

    model   None if it has a vendor's operation
    """
    amount = work(model) if model is not None else 0

    def place(device: Device) -> float:
        least = least_work(device.name)
        return least if least <= amount else inf

    return tuple(sorted(devices, key=place))


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
