# ruff: noqa: N802 (functions have the NDK's names)
"""Models under construction, and their calls. Source: NDK ANeuralNetworksModel_*.

Checks run in the same order as Android's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.capi._native import ffi
from ep_nnapi.nnapi.capi.c_arguments import (
    OEM_OPERATION,
    AnyOperand,
    OemOperand,
    bytes_of,
    channels,
    numbers,
    operand_type,
    require,
)
from ep_nnapi.nnapi.capi.device import feature_level, runtime, selected_devices
from ep_nnapi.nnapi.capi.refusal import (
    Handles,
    bad_data,
    bad_state,
    no_extension,
)
from ep_nnapi.nnapi.codes import COPIED_AT_ONCE, OperandCode
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import (
    Data,
    Model,
    Omitted,
    Operand,
    OperandValue,
    Operation,
)
from ep_nnapi.nnapi.spec import BY_CODE
from ep_nnapi.nnapi.validate import MAX_BYTES, check_operation, execution_order, validate

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData, ChannelParams, OperandType
    from ep_nnapi.nnapi.capi.memory import Memory


@dataclass(frozen=True, slots=True)
class FinishedModel:
    """A finished model.

    model      None if it contains a vendor (OEM) operation or type
    order      for each operation of `model`, its index in the order the client added them
    """

    model: Model | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(slots=True)
class ModelBuilder:
    """The object of ANeuralNetworksModel_*, its methods; each of them may raise Refused."""

    level: int
    operands: list[AnyOperand] = field(default_factory=list)
    operations: list[Operation | None] = field(default_factory=list)
    ends: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    identified: set[int] = field(default_factory=set)
    relaxed: bool = False
    closed: bool = False
    _finished: FinishedModel | None = None

    @staticmethod
    def create() -> ModelBuilder:
        """Creates an empty model."""
        return ModelBuilder(feature_level())

    @property
    def finished(self) -> FinishedModel:
        """Returns the finished model; raises Refused(BAD_STATE) if it is unfinished or invalid."""
        if self._finished is None:
            raise bad_state("the model is not finished, or invalid")
        return self._finished

    def require_unfinished(self) -> None:
        """Raises Refused(BAD_STATE) if the model is no longer open for changes."""
        if self.closed:
            raise bad_state(f"the model is {'invalid' if self._finished is None else 'finished'}")

    def operand(self, index: int) -> AnyOperand:
        """Returns the operand at `index` of an open model."""
        self.require_unfinished()
        if not 0 <= index < len(self.operands):
            raise bad_data(f"operand {index} of {len(self.operands)}")
        return self.operands[index]

    def addOperand(self, described: OperandType) -> None:
        """Appends an operand of the given type."""
        self.require_unfinished()
        self.operands.append(operand_type(described, self.level))

    def setOperandValue(self, index: int, buffer: CData, length: int) -> None:
        """Sets a constant from the client's memory; (null, 0) omits the operand."""
        require(buffer, "buffer", length)
        if buffer != ffi.NULL:
            self._check_constant(index, length, copied=True)
            self._set_bytes(index, np.frombuffer(ffi.buffer(buffer, length), np.uint8))
        else:
            self.operand(index)
            self._put(index, Omitted.NO_VALUE)

    def setOperandValueFromMemory(
        self, index: int, memory: Memory, offset: int, length: int
    ) -> None:
        """Sets a constant from a memory object, which is referenced, not copied."""
        self._check_constant(index, length)
        self._set_bytes(index, memory.bytes(offset, length))

    def _check_constant(self, index: int, length: int, *, copied: bool = False) -> None:
        """Raises Refused(BAD_DATA) unless operand `index` takes a constant of `length` bytes.

        copied   True if the data is in the client's own memory; a vendor's scalar then takes any
                 length up to NNAPI's largest operand
        """
        operand = self.operand(index)
        if not operand.known or operand.type is OperandCode.MODEL or not length:
            what = f"{operand.type.name} {list(operand.dimensions)}"
            raise bad_data(f"a constant of {length} bytes for {what}")
        needed = bytes_of(operand, operand.dimensions)
        free = isinstance(operand, OemOperand) and not operand.type.tensor and copied
        if not free and needed != length:
            what = f"{operand.type.name} {list(operand.dimensions)}"
            raise bad_data(f"{what} takes {needed} bytes, not {length}")
        if length > MAX_BYTES:
            raise bad_data(f"{operand.type.name} takes at most {MAX_BYTES} bytes, not {length}")

    def _set_bytes(self, index: int, data: Array) -> None:
        """Sets a checked constant. Up to 128 bytes are copied."""
        self._put(index, Data(data.copy() if data.size <= COPIED_AT_ONCE else data))

    def setOperandValueFromModel(self, index: int, value: ModelBuilder) -> None:
        """Sets the referenced model of an IF or WHILE."""
        self.require_unfinished()
        finished = value.finished
        operand = self.operand(index)
        if operand.type is not OperandCode.MODEL or finished.model is None:
            raise bad_data(f"operand {index} is {operand.type.name}, which holds no such model")
        self._put(index, finished.model)

    def setOperandSymmPerChannelQuantParams(self, index: int, params: ChannelParams) -> None:
        """Sets the per-channel scales of an operand."""
        operand = self.operand(index)
        per_channel = operand.type is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
        if not per_channel or isinstance(operand, OemOperand):
            raise bad_data(f"operand {index} is {operand.type.name}, which has no channels")
        self.operands[index] = replace(operand, channels=channels(params, operand))

    def addOperation(
        self, code: int, n_inputs: int, c_inputs: CData, n_outputs: int, c_outputs: CData
    ) -> None:
        """Appends an operation; its operands must have been added."""
        self.require_unfinished()
        inputs, outputs = numbers(c_inputs, n_inputs), numbers(c_outputs, n_outputs)
        if code != OEM_OPERATION and code not in BY_CODE:
            raise bad_data(f"no operation has the code {code}")
        known = self._known(inputs) & self._known(outputs)
        if code == OEM_OPERATION:
            self.operations.append(None)
            return
        operation = Operation(BY_CODE[code], inputs, outputs)
        if not known:
            raise bad_data(f"{operation.spec.name} takes no vendor's operand")
        try:
            check_operation(operation, self.operands, self.level)  # type: ignore[arg-type]
        except SpecError as error:
            raise bad_data(str(error)) from error
        self.operations.append(operation)

    def identifyInputsAndOutputs(
        self, n_inputs: int, c_inputs: CData, n_outputs: int, c_outputs: CData
    ) -> None:
        """Sets the model's inputs and outputs.

        An operand stays marked even when the call fails: it cannot be named a second time.
        """
        self.require_unfinished()
        inputs, outputs = numbers(c_inputs, n_inputs), numbers(c_outputs, n_outputs)
        self._known(inputs)
        self._known(outputs)
        for index in (*inputs, *outputs):
            if index in self.identified or self.operands[index].value is not None:
                raise bad_data(f"operand {index} has a value, or is an input or output already")
            self.identified.add(index)
        self.ends = inputs, outputs

    def relaxComputationFloat32toFloat16(self, allow: bool) -> None:
        """Allows or forbids computing float32 as float16; nnapi-reference always uses float32."""
        self.require_unfinished()
        self.relaxed = allow

    def getSupportedOperationsForDevices(
        self, devices: CData, count: int, supported: CData
    ) -> None:
        """Gets for each operation, in the order added, whether one of the devices supports it."""
        if count == 0:
            raise bad_data("no devices are given")
        finished = self.finished
        chosen = selected_devices(devices, count)
        answers = [False] * len(finished.order)
        for device in chosen:
            if finished.model is not None:
                able = runtime().supported(finished.model, device)
                for place, yes in zip(finished.order, able, strict=True):
                    answers[place] |= yes
        for place, answer in enumerate(answers):
            supported[place] = answer

    def getExtensionOperandType(self, name: str, code: int) -> int:
        """Always BAD_DATA: there are no vendor extensions."""
        raise no_extension(name)

    def getExtensionOperationType(self, name: str, code: int) -> int:
        """Always BAD_DATA: there are no vendor extensions."""
        raise no_extension(name)

    def setOperandExtensionData(self, index: int, data: CData, length: int) -> None:
        """Always refused: no operand here has an extension type."""
        require(data, "data", length)
        self.operand(index)
        raise bad_data(f"operand {index} is not of a vendor extension's type")

    def finish(self) -> None:
        """Validates the model; it cannot be changed afterwards."""
        self.require_unfinished()
        self.closed = True
        stray = self.identified.difference(*self.ends)
        if stray:
            raise bad_data(f"operand {min(stray)} was named an input or output in another call")
        try:
            self._finished = self._vendor() or self._ordinary()
        except SpecError as error:
            raise bad_data(str(error)) from error

    def _vendor(self) -> FinishedModel | None:
        """Returns the finished model if it contains a vendor operation or type, else None."""
        alien = None in self.operations or any(isinstance(o, OemOperand) for o in self.operands)
        if not alien:
            return None
        if not self.operations:
            raise SpecError("a model takes at least one operation")
        return FinishedModel(None, *self.ends, tuple(range(len(self.operations))))

    def _ordinary(self) -> FinishedModel:
        operands = tuple(o for o in self.operands if isinstance(o, Operand))
        operations = [o for o in self.operations if o is not None]
        unordered = Model(operands, tuple(operations), *self.ends, self.relaxed)
        validate(unordered, self.level)
        order = execution_order(unordered)
        model = unordered  # with what its validation has found
        if order != tuple(range(len(operations))):
            model = replace(unordered, operations=tuple(operations[i] for i in order))
        return FinishedModel(model, *self.ends, order)

    def _known(self, indexes: Sequence[int]) -> bool:
        """True if all are NNAPI's own operands; raises Refused for an index out of range."""
        wrong = next((i for i in indexes if not 0 <= i < len(self.operands)), None)
        if wrong is not None:
            raise bad_data(f"operand {wrong} of {len(self.operands)}")
        return all(isinstance(self.operands[i], Operand) for i in indexes)

    def _put(self, index: int, value: OperandValue) -> None:
        self.operands[index] = replace(self.operands[index], value=value)


MODELS: Handles[ModelBuilder] = Handles("Model", ModelBuilder)
