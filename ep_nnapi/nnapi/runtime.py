"""The one interface through which NNAPI is spoken: the host runtime, or a real library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.codes import DeviceCode, PreferenceCode, PriorityCode
from ep_nnapi.nnapi.model import Model

REFERENCE_DEVICE = "nnapi-reference"


@dataclass(frozen=True, slots=True)
class Device:
    """A device as NNAPI shows it; `feature_level` is 1 to 8."""

    name: str
    type: DeviceCode
    version: str
    feature_level: int


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile.

    cache_dir, token   both or neither; the token has 32 bytes
    timeout_ns         nanoseconds a compilation may take; None: no limit
    precise            the host computes relaxed models in float32; else it rounds all float32
                       numbers to float16 between operations, as accelerators do
    """

    preference: PreferenceCode = PreferenceCode.FAST_SINGLE_ANSWER
    priority: PriorityCode = PriorityCode.MEDIUM
    cache_dir: str | None = None
    token: bytes | None = None
    timeout_ns: int | None = None
    precise: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Limits of one run, in nanoseconds; None: no deadline, NNAPI's default loop timeout.

    stop   called between operations, where a runtime can; what it raises ends the run
    """

    timeout_ns: int | None = None
    loop_timeout_ns: int | None = None
    stop: Callable[[], None] | None = None


class Compilation(Protocol):
    """A compiled model; any number of threads may run it at once."""

    def run(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None] = (),
        options: RunOptions = ...,
    ) -> list[Array]:
        """The outputs, in the model's order.

        inputs    C-contiguous, of the operands' element types; shapes settle unknown dimensions;
                  None leaves an optional input out
        outputs   where given, an array of the output's type and exact shape that receives it and
                  is returned

        Raises RuntimeFailure(call, code) with the NDK name of the code.
        """
        ...


class Runtime(Protocol):
    """An NNAPI runtime."""

    @property
    def feature_level(self) -> int:
        """The runtime's own level, 1 to 8."""
        ...

    def devices(self) -> tuple[Device, ...]:
        """Its devices, in its order."""
        ...

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """For each operation of `model`, whether `device` would execute it."""
        ...

    def compile(self, model: Model, device: Device, options: CompileOptions = ...) -> Compilation:
        """`model` prepared for exactly `device`.

        Raises SpecError (the model is illegal) or RuntimeFailure (the device failed).
        """
        ...
