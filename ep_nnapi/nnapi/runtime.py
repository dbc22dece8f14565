"""Interface of an NNAPI runtime, implemented by the host runtime and by the native library.

Also what every runtime does alike: checks of the arrays of a run, digests of models for caches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.codes import (
    COMPUTE,
    DeviceCode,
    PreferenceCode,
    PriorityCode,
    ResultCode,
    failure,
)
from ep_nnapi.nnapi.errors import Reason, RuntimeFailure
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.model import Data, Model, Operand

REFERENCE_DEVICE = "nnapi-reference"


@frozen
class Device:
    """A device as NNAPI reports it; `feature_level` is 1 to 8."""

    name: str
    type: DeviceCode
    version: str
    feature_level: int


class Spin(Enum):
    """When threads of a device that have no work spin: they wait actively, and so start sooner."""

    ALWAYS = "always"
    IN_RUNS = "in runs"
    NEVER = "never"


@frozen
class CompileOptions:
    """Options of a compilation.

    cache_dir          folder of the compilation cache; None: no cache
    token              name of the model in it, 32 bytes; None: the model's digest, which devices
                       compute that have a cache
    timeout_ns         time limit of the compilation in nanoseconds; None: no limit
    precise            True: the host runtime computes relaxed models in float32; False: it rounds
                       float32 values to float16 between operations, as accelerators do
    threads            of one run, for devices that have threads of their own; 0: their own choice
    spin               of these threads
    instances          compiled models at most, for devices on which one thread at a time runs each
    """

    preference: PreferenceCode = PreferenceCode.FAST_SINGLE_ANSWER
    priority: PriorityCode = PriorityCode.MEDIUM
    cache_dir: str | None = None
    token: bytes | None = None
    timeout_ns: int | None = None
    precise: bool = False
    threads: int = 0
    spin: Spin = Spin.IN_RUNS
    instances: int = 1


@frozen
class Duration:
    """Durations of one execution in nanoseconds, None where the device does not measure them.

    on_hardware   on the device's hardware
    in_driver     in the driver, transport within the device included
    """

    on_hardware: int | None
    in_driver: int | None


class TimedOperation(NamedTuple):
    """One operation of a run, in time.perf_counter_ns() time.

    origin  names of the ONNX nodes that it came from
    bytes   size of its inputs, constants included, and of its outputs
    """

    name: str
    origin: tuple[str, ...]
    bytes: int
    start_ns: int
    end_ns: int


@frozen
class RunOptions:
    """Limits of one run, in nanoseconds; None: no deadline, NNAPI's default loop timeout.

    stop      called between operations if the runtime supports it; an exception ends the run
    measure   called with the device's own measurement after a run, if the runtime has one
    on_operation  called after each operation if the runtime runs them one by one, also for those of
              a control flow operation's submodels, which end before it
    """

    timeout_ns: int | None = None
    loop_timeout_ns: int | None = None
    stop: Callable[[], None] | None = None
    measure: Callable[[Duration], None] | None = None
    on_operation: Callable[[TimedOperation], None] | None = None


class Compilation(Protocol):
    """A compiled model; thread-safe, runs may be concurrent."""

    def run(self, inputs: Arrays, outputs: Arrays = (), options: RunOptions = ...) -> list[Array]:
        """Run the model and return the outputs in the model's order.

        inputs    C-contiguous, of the operands' element types; their shapes replace unknown
                  dimensions; None omits an optional input
        outputs   None, or an array of the output's type and exact shape, which is filled and
                  returned

        Raises RuntimeFailure(call, code) with the NDK name of the result code.
        """


@runtime_checkable
class Program(Protocol):
    """A compiled model that a function in C runs, on arrays whose shapes are known.

    address   of the model
    runner    address of int (*)(void *model, const void *const *inputs, void *const *outputs),
              which returns 0 if it fails; thread-safe
    """

    address: int
    runner: int


def direct_session(made: object) -> object | None:
    """Return what may run a compilation, or a prepared model, without it: a session or a `Program`.

    None if runs have to go through it, as they have unless it has a method of this name. The answer
    may change with each run.
    """
    ask: Callable[[], object | None] | None = getattr(made, "direct_session", None)
    return None if ask is None else ask()


class Runtime(Protocol):
    """An NNAPI runtime."""

    @property
    def feature_level(self) -> int:
        """The runtime's feature level, 1 to 8."""

    def devices(self) -> tuple[Device, ...]:
        """The devices in the runtime's order."""

    def share(self, model: Model) -> Model:
        """An equal model, with its constants where the runtime reads them without another copy.

        Models of the same runtime object share equal constants. The caller drops `model`.
        """

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """One bool for each operation of `model`: True if `device` supports it."""

    def compile(self, model: Model, device: Device, options: CompileOptions = ...) -> Compilation:
        """Compile `model` for `device` only.

        Raises SpecError if the model is illegal, RuntimeFailure if the device fails.
        """


@runtime_checkable
class SizedRuntime(Protocol):
    """A runtime some of whose devices compile models whose sizes are expressions."""

    def takes_sizes(self, device: Device) -> bool:
        """True if the device does."""

    def whole_operators(self, device: Device) -> Collection[str]:
        """Names of composites that the device computes in such models without their members."""


@runtime_checkable
class ExplainingRuntime(Protocol):
    """A runtime that knows why its device declines operations."""

    def explanation(self, model: Model, declined: Iterable[int]) -> str:
        """The reason why the device does not support these operations, for a message."""


@runtime_checkable
class ExaminedDevice(Protocol):
    """A runtime that knows what its device computes wrongly, or hangs, dies or fails in."""

    def verdicts(self, model: Model, declined: Iterable[int]) -> Mapping[int, tuple[Reason, str]]:
        """The reason and what the device does, for those of these operations that have a flaw."""


def checked(
    inputs: Arrays,
    outputs: Arrays,
    model_inputs: Sequence[Operand],
    model_outputs: Sequence[Operand],
) -> Arrays:
    """The output arrays, None for each that is not given.

    Raises RuntimeFailure (BAD_DATA) unless the arrays fit the model's inputs and outputs; the
    shapes of outputs are not checked.
    """
    if len(inputs) != len(model_inputs) or len(outputs) not in (0, len(model_outputs)):
        raise _wrong(
            f"{len(inputs)} inputs and {len(outputs)} outputs are given for"
            f" {len(model_inputs)} and {len(model_outputs)}"
        )
    for n, (array, operand) in enumerate(zip(inputs, model_inputs, strict=True)):
        _check_type(f"input {n}", array, operand)
        if array is not None and not fits(array, operand):
            raise _wrong(f"input {n}: shape {array.shape} is given for {operand.dimensions}")
    given = outputs or [None] * len(model_outputs)
    for n, (array, operand) in enumerate(zip(given, model_outputs, strict=True)):
        _check_type(f"output {n}", array, operand)
    return given


def fits(array: Array, operand: Operand) -> bool:
    """Return True if the array has the declared dimensions; 0 matches any size."""
    declared = operand.dimensions
    if operand.type.tensor and not declared:
        return True
    return array.ndim == len(declared) and all(
        size in (0, given) for given, size in zip(array.shape, declared, strict=True)
    )


def check_output(given: Array | None, shape: tuple[int, ...]) -> None:
    """Raise RuntimeFailure if an array of another shape is given for an output of this one."""
    if given is not None and given.shape != shape:
        detail = f"an output array has shape {given.shape}, the output has {shape}"
        raise failure(COMPUTE, ResultCode.OUTPUT_INSUFFICIENT_SIZE, detail)


def delivered(result: Array, given: Array | None) -> Array:
    """The result, in the caller's array if one is given; raises as `check_output`."""
    check_output(given, result.shape)
    if given is None or given is result:
        return result
    np.copyto(given, result)
    return given


def _check_type(what: str, array: Array | None, operand: Operand) -> None:
    if array is not None and array.dtype != operand.type.numpy:
        raise _wrong(f"{what}: {array.dtype} is given for {operand.type.name}")
    if array is not None and not array.flags.c_contiguous:
        raise _wrong(f"{what}: an array is given that is not C-contiguous")


def _wrong(detail: str) -> RuntimeFailure:
    return failure(COMPUTE, ResultCode.BAD_DATA, detail)


def model_digest(model: Model) -> bytes:
    """The SHA-256 of everything in a model that determines its results; origins are not part.

    Submodels are digested once each.
    """
    return _digest(model, {})


def with_token(options: CompileOptions, model: Model) -> CompileOptions:
    """Return the options with the model's digest as token, if its cache has no token yet."""
    if options.cache_dir is None or options.token is not None:
        return options
    return replace(options, token=model_digest(model))


def _digest(model: Model, done: dict[int, bytes]) -> bytes:
    if id(model) not in done:
        operations = [(o.spec.code, o.inputs, o.outputs) for o in model.operations]
        ends = (model.inputs, model.outputs, model.relaxed)
        whole = hashlib.sha256(repr((operations, ends)).encode())
        for operand in model.operands:
            whole.update(_described(operand, done))
        done[id(model)] = whole.digest()
    return done[id(model)]


def _described(operand: Operand, done: dict[int, bytes]) -> bytes:
    value, channels = operand.value, operand.channels
    about = (int(operand.type), operand.dimensions, operand.scale, operand.zero_point)
    scales = None if channels is None else (channels.dim, channels.scales)
    text = repr((about, scales, type(value).__name__)).encode()
    if isinstance(value, Data):
        return text + hashlib.sha256(value.bytes.data).digest()
    return text + (_digest(value, done) if isinstance(value, Model) else b"")
