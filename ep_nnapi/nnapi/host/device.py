"""What a device of the host runtime is: a name, a judgement of operations, prepared models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions


class PreparedModel(Protocol):
    """A model ready to run; any number of threads may execute it at once."""

    def execute(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
        options: RunOptions,
    ) -> list[Array]:
        """The outputs, in the model's order; arguments as `runtime.Compilation.run` has them.

        Element types and declared dimensions have been checked. Raises ShapeError or
        RuntimeFailure.
        """
        ...


class HostDevice(Protocol):
    """A device behind the host runtime."""

    @property
    def name(self) -> str:
        """Unique within a runtime."""
        ...

    @property
    def type(self) -> DeviceCode:
        """What it is shown as."""
        ...

    @property
    def version(self) -> str:
        """Free text."""
        ...

    @property
    def feature_level(self) -> int:
        """1 to 8."""
        ...

    def supported(self, model: Model) -> tuple[bool, ...]:
        """For each operation of a valid model, whether it would be executed."""
        ...

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        """A valid model prepared to run; raises RuntimeFailure."""
        ...
