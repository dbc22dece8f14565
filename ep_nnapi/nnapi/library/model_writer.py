"""Models built through the C API."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.library.binding import ChannelParams, Functions, Handle, OperandType, create
from ep_nnapi.nnapi.library.weights import SharedWeights
from ep_nnapi.nnapi.model import Data, Model, Omitted, Operand, Operation


def write_model(functions: Functions, weights: SharedWeights, model: Model) -> Handle:
    """The finished NNAPI model for `model`, which `weights.share` returned.

    Raises RuntimeFailure, which names the operand or the operation with its ONNX nodes.
    """
    return _Writer(functions, weights).write(model)


def operand_type(operand: Operand, dimensions: Sequence[int]) -> OperandType:
    """The NDK's description of an operand's type, with these dimensions."""
    array = uint32s(dimensions)
    struct = OperandType(
        operand.type,
        len(dimensions),
        ctypes.cast(array, ctypes.c_void_p) if dimensions else None,
        operand.scale,
        operand.zero_point,
    )
    struct.dimensions_array = array  # the pointer does not keep it alive
    return struct


def uint32s(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    """The numbers as an array of uint32_t."""
    return (ctypes.c_uint32 * len(numbers))(*numbers)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes a model and its submodels, each once."""

    functions: Functions
    weights: SharedWeights
    _written: dict[int, Handle] = field(default_factory=dict)

    def write(self, model: Model) -> Handle:
        """The finished NNAPI model."""
        if id(model) not in self._written:
            inner = [self.write(o.value) for o in model.operands if isinstance(o.value, Model)]
            needs = (model, *inner)
            handle = create(self.functions, "Model_create", needs=needs)
            self._fill(handle.value, model)
            self._written[id(model)] = handle
        return self._written[id(model)]

    def _fill(self, handle: int, model: Model) -> None:
        for index, operand in enumerate(model.operands):
            with _about(f"operand {index}"):
                self._operand(handle, index, operand)
        for number, operation in enumerate(model.operations):
            with _about(_described(number, operation)):
                ends = (*_counted(operation.inputs), *_counted(operation.outputs))
                self.functions.call("Model_addOperation", handle, operation.spec.code, *ends)
        ends = (*_counted(model.inputs), *_counted(model.outputs))
        self.functions.call("Model_identifyInputsAndOutputs", handle, *ends)
        if model.relaxed and self.functions.has("Model_relaxComputationFloat32toFloat16"):
            self.functions.call("Model_relaxComputationFloat32toFloat16", handle, True)
        self.functions.call("Model_finish", handle)

    def _operand(self, handle: int, index: int, operand: Operand) -> None:
        call = self.functions.call
        shown = operand_type(operand, operand.dimensions)
        call("Model_addOperand", handle, ctypes.byref(shown))
        if operand.channels is not None:
            scales = (ctypes.c_float * len(operand.channels.scales))(*operand.channels.scales)
            params = ChannelParams(
                operand.channels.dim, len(scales), ctypes.cast(scales, ctypes.c_void_p)
            )
            name = "Model_setOperandSymmPerChannelQuantParams"
            call(name, handle, index, ctypes.byref(params))
        if isinstance(operand.value, Omitted):
            call("Model_setOperandValue", handle, index, None, 0)
        elif isinstance(operand.value, Model):
            inner = self.write(operand.value).value
            call("Model_setOperandValueFromModel", handle, index, inner)
        elif operand.value is not None:
            self._constant(handle, index, operand.value)

    def _constant(self, handle: int, index: int, data: Data) -> None:
        size, place = data.size, self.weights.place(data)
        if place is None:
            address = data.bytes.ctypes.data
            self.functions.call("Model_setOperandValue", handle, index, address, size)
        else:
            memory, offset = place.memory.value, place.offset
            name = "Model_setOperandValueFromMemory"
            self.functions.call(name, handle, index, memory, offset, size)


def _counted(indexes: Sequence[int]) -> tuple[int, ctypes.Array[ctypes.c_uint32]]:
    return len(indexes), uint32s(indexes)


def _described(number: int, operation: Operation) -> str:
    nodes = f" of {', '.join(operation.origin)}" if operation.origin else ""
    return f"operation {number} ({operation.spec.name}){nodes}"


@contextmanager
def _about(what: str) -> Iterator[None]:
    """Add `what` to the failures of the block."""
    try:
        yield
    except RuntimeFailure as failure:
        raise RuntimeFailure(failure.call, failure.code, what) from failure
