"""Interface of a device of the host runtime: capabilities and model preparation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions


class PreparedModel(Protocol):
    """A model ready to run; thread-safe, executions may be concurrent."""

    def execute(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
        options: RunOptions,
    ) -> list[Array]:
        """Run the model; arguments and result as in `runtime.Compilation.run`.

        The caller has checked element types and declared dimensions. Raises ShapeError or
        RuntimeFailure.
        """
        ...


class HostDevice(Protocol):
    """A device behind the host runtime."""

    @property
    def name(self) -> str:
        """Device name, unique within a runtime."""
        ...

    @property
    def type(self) -> DeviceCode:
        """Device type that the runtime reports."""
        ...

    @property
    def version(self) -> str:
        """Version, free text."""
        ...

    @property
    def feature_level(self) -> int:
        """Feature level, 1 to 8."""
        ...

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool for each operation of a valid model: True if the device supports it."""
        ...

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        """Prepare a valid model to run; raises RuntimeFailure."""
        ...


@runtime_checkable
class SizedDevice(Protocol):
    """A device that prepares a model whose sizes are expressions for all that they may be.

    What it finds out about them, it notes in their trace: the conditions of the prepared model.
    """

    takes_sizes: ClassVar[bool]
