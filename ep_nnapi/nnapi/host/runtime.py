"""NNAPI on this host: a runtime whose devices are Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.host.cache import prepared
from ep_nnapi.nnapi.host.device import HostDevice, PreparedModel
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.host.run import COMPUTE, failure
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import Compilation, CompileOptions, Device, RunOptions
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.nnapi.validate import validate
from ep_nnapi.rejection import OptionError
from ep_nnapi.value import Array

_COMPILE = "ANeuralNetworksCompilation_finish"


class HostRuntime:
    """The NNAPI runtime of this package; `Runtime` says what its methods do.

    Any number of threads may use it at once.
    """

    def __init__(self, devices: Sequence[HostDevice] | None = None, feature_level: int = 8) -> None:
        """Devices in the order in which they are shown; by default nnapi-reference alone."""
        if not 1 <= feature_level <= 8:
            raise OptionError(f"feature level {feature_level} is not one of 1 to 8")
        self._devices = (ReferenceDevice(),) if devices is None else tuple(devices)
        self._feature_level = feature_level

    @property
    def feature_level(self) -> int:
        """The runtime's own level, 1 to 8."""
        return self._feature_level

    def devices(self) -> tuple[Device, ...]:
        """The devices, none of a higher level than the runtime."""
        return tuple(
            Device(d.name, d.type, d.version, min(d.feature_level, self._feature_level))
            for d in self._devices
        )

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """For each operation of `model`, whether `device` would execute it."""
        validate(model, self._feature_level)
        with _failing(_COMPILE):
            return self._find(device).supported(model)

    def compile(
        self, model: Model, device: Device, options: CompileOptions | None = None
    ) -> Compilation:
        """`model` prepared for exactly `device`."""
        validate(model, self._feature_level)
        with _failing(_COMPILE):
            found = prepared(self._find(device), model, options or CompileOptions())
        described = [model.operands[i] for i in model.inputs]
        return HostCompilation(found, tuple(described), len(model.outputs))

    def _find(self, device: Device) -> HostDevice:
        for found in self._devices:
            if found.name == device.name:
                return found
        raise failure(_COMPILE, ResultCode.BAD_DATA, f"there is no device {device.name}")


@dataclass(frozen=True, slots=True)
class HostCompilation:
    """A model prepared by a device of the host runtime."""

    prepared: PreparedModel
    inputs: tuple[Operand, ...]
    outputs: int

    def run(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None] = (),
        options: RunOptions | None = None,
    ) -> list[Array]:
        """As `runtime.Compilation`."""
        if len(inputs) != len(self.inputs) or len(outputs) not in (0, self.outputs):
            raise failure(
                COMPUTE,
                ResultCode.BAD_DATA,
                f"{len(inputs)} inputs and {len(outputs)} outputs are given for"
                f" {len(self.inputs)} and {self.outputs}",
            )
        for n, (array, operand) in enumerate(zip(inputs, self.inputs, strict=True)):
            _check_input(n, array, operand)
        given = [*outputs, *[None] * (self.outputs - len(outputs))]
        with _failing(COMPUTE):
            return self.prepared.execute(inputs, given, options or RunOptions())


@contextmanager
def _failing(call: str) -> Iterator[None]:
    """Errors of the block become what the NDK function `call` returns."""
    try:
        yield
    except ShapeError as error:
        raise failure(call, ResultCode.OP_FAILED, str(error)) from error
    except MemoryError as error:
        raise failure(call, ResultCode.OUT_OF_MEMORY, str(error)) from error


def _check_input(n: int, array: Array | None, operand: Operand) -> None:
    """Raises RuntimeFailure unless `array` has the operand's type and declared dimensions."""
    if array is None:
        return
    if array.dtype != operand.type.numpy or not array.flags.c_contiguous:
        wrong = f"{array.dtype} is given for {operand.type.name}"
    elif not operand.dimensions:
        if operand.type.tensor or array.ndim == 0:
            return
        wrong = f"shape {array.shape} is given for a scalar"
    elif len(array.shape) == len(operand.dimensions) and all(
        declared in (0, size)
        for size, declared in zip(array.shape, operand.dimensions, strict=True)
    ):
        return
    else:
        wrong = f"shape {array.shape} is given for {operand.dimensions}"
    raise failure(COMPUTE, ResultCode.BAD_DATA, f"input {n}: {wrong}")
