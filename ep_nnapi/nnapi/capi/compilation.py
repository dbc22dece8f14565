# ruff: noqa: N802 (functions have the NDK's names)
"""Compilations, and their calls. Source: NDK ANeuralNetworksCompilation_*.

Checks run in the same order as Android's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.capi._native import ffi, lib
from ep_nnapi.nnapi.capi.c_arguments import require
from ep_nnapi.nnapi.capi.device import default_devices, runtime, selected_devices
from ep_nnapi.nnapi.capi.model import FinishedModel, ModelBuilder
from ep_nnapi.nnapi.capi.refusal import (
    Handles,
    Refused,
    bad_data,
    bad_state,
    code_of,
    no_extension,
    op_failed,
)
from ep_nnapi.nnapi.codes import TOKEN_BYTES, PreferenceCode, PriorityCode, ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure, module_logger
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import (
    REFERENCE_DEVICE,
    Compilation,
    CompileOptions,
    Device,
    RunOptions,
)

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


_NOT_RETRIED = (
    ResultCode.MISSED_DEADLINE_TRANSIENT,
    ResultCode.MISSED_DEADLINE_PERSISTENT,
)
"""Failures that are not retried on another device."""


ALIGNMENT, PADDING = 64, 1
"""Preferred alignment and padding of the devices: a cache line, and no padding."""


class Direction(StrEnum):
    """Use of an operand or a memory by an execution."""

    INPUT = "input"
    OUTPUT = "output"


@dataclass(eq=False)
class CompilationBuilder:
    """The object of ANeuralNetworksCompilation_*, its methods; each of them may raise Refused.

    devices  those that the client named; None to let the runtime choose
    options  relaxed models are computed in float32, as on Android's own CPU device
    """

    model: FinishedModel
    devices: tuple[Device, ...] | None = None
    options: CompileOptions = field(default_factory=lambda: CompileOptions(precise=True))
    finished: bool = False
    _compiled: tuple[Device, Compilation] | None = None

    @staticmethod
    def create(model: ModelBuilder) -> CompilationBuilder:
        """Creates a compilation of a finished model; the runtime chooses the device."""
        return CompilationBuilder(model.finished)

    @staticmethod
    def createForDevices(model: ModelBuilder, devices: CData, count: int) -> CompilationBuilder:
        """Creates a compilation for named devices: the first that takes the whole model is used."""
        if count == 0:
            raise bad_data("no devices are given")
        chosen = selected_devices(devices, count)
        return CompilationBuilder(model.finished, chosen)

    def setPreference(self, preference: int) -> None:
        """Sets the execution preference (PreferenceCode)."""
        self.require_unfinished()
        if preference not in set(PreferenceCode):
            raise bad_data(f"no preference has the code {preference}")
        self.options = replace(self.options, preference=PreferenceCode(preference))

    def setPriority(self, priority: int) -> None:
        """Sets the priority relative to other compilations."""
        self.require_unfinished()
        if priority not in set(PriorityCode):
            raise bad_data(f"no priority has the code {priority}")
        self.options = replace(self.options, priority=PriorityCode(priority))

    def setTimeout(self, duration: int) -> None:
        """Sets the time limit of finishing, in nanoseconds; 0 for no limit."""
        self.require_unfinished()
        self.require_single_device("a timeout")
        self.options = replace(self.options, timeout_ns=duration or None)

    def setCaching(self, directory: str, token: CData) -> None:
        """Sets the cache directory, and a token of 32 bytes that identifies the model."""
        self.require_unfinished()
        digest = bytes(ffi.buffer(token, TOKEN_BYTES))
        self.options = replace(self.options, cache_dir=directory, token=digest)

    def getPreferredMemoryAlignmentForInput(self, index: int) -> int:
        """Gets the preferred alignment of an input's address, in bytes."""
        return self._preferred(Direction.INPUT, index, ALIGNMENT)

    def getPreferredMemoryPaddingForInput(self, index: int) -> int:
        """Gets the number of bytes to whose multiple an input's length is best padded."""
        return self._preferred(Direction.INPUT, index, PADDING)

    def getPreferredMemoryAlignmentForOutput(self, index: int) -> int:
        """Gets the preferred alignment of an output's address, in bytes."""
        return self._preferred(Direction.OUTPUT, index, ALIGNMENT)

    def getPreferredMemoryPaddingForOutput(self, index: int) -> int:
        """Gets the number of bytes to whose multiple an output's length is best padded."""
        return self._preferred(Direction.OUTPUT, index, PADDING)

    def addExtensionAttribute(self, name: str, code: int, data: CData, length: int) -> None:
        """Always refused: no device here has vendor extensions."""
        require(data, "data", length)
        self.require_unfinished()
        raise no_extension(name)

    def require_ready(self) -> tuple[Device, Compilation]:
        """Returns what executes it; raises Refused(BAD_STATE) if it is unfinished or failed."""
        if self._compiled is None:
            raise bad_state("the compilation is not finished, or failed")
        return self._compiled

    def _preferred(self, use: Direction, index: int, value: int) -> int:
        self.require_ready()
        self.operand(use, index)
        return value

    @cached_property
    def inputs(self) -> tuple[Operand, ...]:
        """The model's inputs."""
        return tuple(self._model.operands[i] for i in self.model.inputs)

    @cached_property
    def outputs(self) -> tuple[Operand, ...]:
        """The model's outputs."""
        return tuple(self._model.operands[i] for i in self.model.outputs)

    def operand(self, direction: Direction, index: int) -> Operand:
        """Returns an input or output; raises Refused(BAD_DATA) for an index out of range."""
        operands = self.inputs if direction is Direction.INPUT else self.outputs
        if not 0 <= index < len(operands):
            raise bad_data(f"{direction} {index} of {len(operands)}")
        return operands[index]

    def finish(self) -> None:
        """Compiles the model."""
        self.require_unfinished()
        self.finished = True
        begin, timeout = time.monotonic_ns(), self.options.timeout_ns
        devices = self.devices
        if devices is None:
            devices = default_devices(self.model.model, runtime().devices())
        compiled = self._compile(devices)
        if timeout is not None and time.monotonic_ns() - begin > timeout:
            raise Refused(ResultCode.MISSED_DEADLINE_TRANSIENT, "compiling took too long")
        self._compiled = compiled

    def run(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> list[Array]:
        """Returns the outputs, as `runtime.Compilation.run` does.

        If the runtime chose the device and it fails, the reference device runs the model instead.
        A result whose shape contradicts the output's raises Refused(OP_FAILED).
        """
        device, compiled = self.require_ready()
        try:
            return compiled.run(inputs, outputs, options)
        except RuntimeFailure as failure:
            if code_of(failure) is ResultCode.OUTPUT_INSUFFICIENT_SIZE:
                raise op_failed(failure.detail) from failure
            if not self._may_fall_back(device) or code_of(failure) in _NOT_RETRIED:
                raise
            logger.warning("%s failed, %s takes over: %s", device.name, REFERENCE_DEVICE, failure)
        reference = [d for d in runtime().devices() if d.name == REFERENCE_DEVICE]
        self._compiled = self._compile(reference)
        return self._compiled[1].run(inputs, outputs, options)

    def require_single_device(self, what: str) -> None:
        """Raises Refused(BAD_DATA) unless the client named exactly one device."""
        if self.devices is None or len(self.devices) != 1:
            raise bad_data(f"{what} takes a compilation for exactly one device")

    def require_unfinished(self) -> None:
        """Raises Refused(BAD_STATE) once `finish` has been called."""
        if self.finished:
            raise bad_state("the compilation is finished")

    @property
    def _model(self) -> Model:
        if self.model.model is None:
            raise bad_data("no device executes a vendor's operation")
        return self.model.model

    def _supported(self, device: Device) -> bool:
        model = self.model.model
        return model is not None and all(runtime().supported(model, device))

    def _compile(self, devices: Sequence[Device]) -> tuple[Device, Compilation]:
        """Compiles for the first device that supports every operation.

        If that fails and is replaceable, the next ones are tried. A device is asked only when its
        turn comes: host-cpu loads ONNX Runtime, which a forked child cannot unload.
        """
        failed: RuntimeFailure | None = None
        for device in filter(self._supported, devices):
            if device.name != REFERENCE_DEVICE:  # it has loaded ONNX Runtime
                wait_at_exit()
            try:
                return device, runtime().compile(self._model, device, self.options)
            except RuntimeFailure as failure:
                if not self._may_fall_back(device):
                    raise
                logger.warning("%s did not compile the model: %s", device.name, failure)
                failed = failure
        raise failed or bad_data("no device executes all operations of the model")

    def _may_fall_back(self, device: Device) -> bool:
        return self.devices is None and device.name != REFERENCE_DEVICE


COMPILATIONS: Handles[CompilationBuilder] = Handles("Compilation", CompilationBuilder)


@cache
def wait_at_exit() -> None:
    """Have the end of the process wait for executions; call it once ONNX Runtime is loaded.

    Its destructors, which run when the process ends, do not wait. Python's own exit handlers do,
    but a program of C never calls them.
    """
    lib.watch_exit()


@ffi.def_extern(name="before_exit")
def _before_exit() -> None:
    CONCURRENT_RUNS.before_exit()


logger = module_logger(__name__)
