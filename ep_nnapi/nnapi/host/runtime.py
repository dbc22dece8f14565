"""NNAPI host runtime, with devices that are Python objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.codes import COMPUTE, FINISH, DeviceCode, ResultCode, failure
from ep_nnapi.nnapi.errors import NnapiError, OptionError, RuntimeFailure
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import (
    Compilation,
    CompileOptions,
    Device,
    RunOptions,
    checked,
    direct_session,
    fits,
)
from ep_nnapi.nnapi.shapes.operands import ShapeError
from ep_nnapi.nnapi.validate import validate


class PreparedModel(Protocol):
    """A model ready to run; thread-safe, executions may be concurrent."""

    def execute(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> list[Array]:
        """Run the model; arguments and result as in `runtime.Compilation.run`.

        The caller has checked element types and declared dimensions. Raises ShapeError or
        RuntimeFailure.
        """


class HostDevice(Protocol):
    """A device of the host runtime, as a Python object."""

    @property
    def name(self) -> str:
        """Device name, unique within a runtime."""

    @property
    def type(self) -> DeviceCode:
        """Device type that the runtime reports."""

    @property
    def version(self) -> str:
        """Version, free text."""

    @property
    def feature_level(self) -> int:
        """Feature level, 1 to 8."""

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool for each operation of a valid model: True if the device supports it."""

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        """Prepare a valid model to run; raises RuntimeFailure."""


@runtime_checkable
class SizedDevice(Protocol):
    """A device that prepares a model with symbolic sizes once, for all that meet conditions.

    It adds the conditions that the prepared model relies on to the trace of the sizes.
    """

    @property
    def takes_sizes(self) -> bool:
        """True if `prepare` takes models whose sizes are expressions."""

    @property
    def whole_operators(self) -> Collection[str]:
        """Names of composites that it computes without their members, see `SizedRuntime`."""


class HostRuntime:
    """The NNAPI runtime of this package; see `Runtime` for the methods.

    Thread-safe.
    """

    def __init__(self, devices: Sequence[HostDevice] | None = None, feature_level: int = 8) -> None:
        """Create a runtime; `devices` in the order reported, by default nnapi-reference only."""
        if not 1 <= feature_level <= 8:
            raise OptionError(f"feature level {feature_level} is not one of 1 to 8")
        self._devices = (ReferenceDevice(),) if devices is None else tuple(devices)
        self.feature_level = feature_level

    def devices(self) -> tuple[Device, ...]:
        """The devices, their feature levels limited to the runtime's."""
        return tuple(
            Device(d.name, d.type, d.version, min(d.feature_level, self.feature_level))
            for d in self._devices
        )

    def share(self, model: Model) -> Model:
        """The model itself: devices of this process read its constants where they are."""
        return model

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """One bool for each operation of `model`: True if `device` supports it."""
        validate(model, self.feature_level)
        with _failing(FINISH):
            answers = tuple(self._find(device).supported(model))
        if len(answers) != len(model.operations):
            detail = (
                f"{device.name} answers for {len(answers)} of {len(model.operations)} operations"
            )
            raise failure(FINISH, ResultCode.OP_FAILED, detail)
        return answers

    def compile(
        self, model: Model, device: Device, options: CompileOptions | None = None
    ) -> Compilation:
        """Compile `model` for `device` only; one with sizes for devices that take them."""
        validate(model, self.feature_level)
        if model.conditions and not self.takes_sizes(device):
            raise failure(FINISH, ResultCode.BAD_DATA, f"{device.name} compiles numbers only")
        with _failing(FINISH):
            found = self._find(device).prepare(model, options or CompileOptions())
        ins, outs = (
            [model.operands[i].opened() for i in ends] for ends in (model.inputs, model.outputs)
        )
        return HostCompilation(found, tuple(ins), tuple(outs))

    def takes_sizes(self, device: Device) -> bool:
        """True if `device` compiles models whose sizes are expressions."""
        found = self._find(device)
        return isinstance(found, SizedDevice) and found.takes_sizes

    def whole_operators(self, device: Device) -> Collection[str]:
        """Names of composites that `device` computes without their members."""
        found = self._find(device)
        return found.whole_operators if isinstance(found, SizedDevice) else ()

    def _find(self, device: Device) -> HostDevice:
        for found in self._devices:
            if found.name == device.name:
                return found
        raise failure(FINISH, ResultCode.BAD_DATA, f"there is no device {device.name}")


_NO_LIMITS = RunOptions()
Expected: TypeAlias = tuple[np.dtype[np.generic], tuple[int, ...]]
"""Element type and declared dimensions of an operand."""


@dataclass(frozen=True)
class HostCompilation:
    """A model prepared by a device of the host runtime."""

    prepared: PreparedModel
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    def run(
        self, inputs: Arrays, outputs: Arrays = (), options: RunOptions | None = None
    ) -> list[Array]:
        """Run the model, as `runtime.Compilation.run`."""
        if not (_exact(inputs, self._inputs) and _exact(outputs, self._outputs)):
            outputs = checked(inputs, outputs, self.inputs, self.outputs)
        try:
            results = self.prepared.execute(inputs, outputs, options or _NO_LIMITS)
        except Exception as error:
            _raise_failure(COMPUTE, error)
        if not _exact(results, self._outputs):
            _check_results(results, self.outputs)
        return results

    def direct_session(self) -> object | None:
        """Return the device's session, as `runtime.direct_session`."""
        return direct_session(self.prepared)

    @cached_property
    def _inputs(self) -> tuple[Expected, ...]:
        return tuple(map(_expected, self.inputs))

    @cached_property
    def _outputs(self) -> tuple[Expected, ...]:
        return tuple(map(_expected, self.outputs))


def _expected(operand: Operand) -> Expected:
    return operand.type.numpy, operand.dimensions


def _exact(arrays: Arrays, expected: Sequence[Expected]) -> bool:
    """Return True if all arrays are given, of these types and dimensions, all of them known.

    A quick answer for most runs; otherwise the arrays are checked one by one.
    """
    return len(arrays) == len(expected) and all(
        isinstance(array, np.ndarray)
        and array.shape == dimensions
        and array.dtype == dtype
        and array.flags.c_contiguous
        for array, (dtype, dimensions) in zip(arrays, expected, strict=True)
    )


@contextmanager
def _failing(call: str) -> Iterator[None]:
    """Convert errors of the block, including device bugs, to failures of NDK call `call`."""
    try:
        yield
    except Exception as error:
        _raise_failure(call, error)


def _raise_failure(call: str, error: Exception) -> NoReturn:
    """Raise the failure of NDK call `call` that an error of a device is reported as."""
    if isinstance(error, NnapiError) and not isinstance(error, ShapeError):
        raise error
    if isinstance(error, ShapeError):
        raise failure(call, ResultCode.OP_FAILED, str(error)) from error
    if isinstance(error, MemoryError):
        raise failure(call, ResultCode.OUT_OF_MEMORY, str(error)) from error
    raise failure(call, ResultCode.OP_FAILED, f"{type(error).__name__}: {error}") from error


def _check_results(results: Sequence[Array], outputs: Sequence[Operand]) -> None:
    """Raises RuntimeFailure unless a device's results match the model's outputs."""
    if len(results) != len(outputs):
        raise _defect(f"{len(results)} results are returned for {len(outputs)} outputs")
    for n, (array, operand) in enumerate(zip(results, outputs, strict=True)):
        if not isinstance(array, np.ndarray) or array.dtype != operand.type.numpy:
            kind = getattr(array, "dtype", type(array).__name__)
            raise _defect(f"output {n}: {kind} is returned for {operand.type.name}")
        if not fits(array, operand):
            raise _defect(f"output {n}: shape {array.shape} is returned for {operand.dimensions}")


def _defect(detail: str) -> RuntimeFailure:
    return failure(COMPUTE, ResultCode.OP_FAILED, detail)
