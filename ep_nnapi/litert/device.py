"""LiteRT as an NNAPI device: which operations a flatbuffer can hold, and what they compute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from ep_nnapi.litert.convert import convert, obstacles
from ep_nnapi.litert.interpreter import FlatModel, load
from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.codes import COMPUTE, DeviceCode, ResultCode, failure
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.host.runtime import HostRuntime, PreparedModel
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.nnapi.shapes import ShapeError

LITERT = "litert"
_FINISH = "ANeuralNetworksCompilation_finish"


@dataclass(frozen=True, slots=True)
class LiteRtDevice:
    """LiteRT's interpreter as an NNAPI device; what it prepares are flatbuffers."""

    name: str = LITERT
    type: DeviceCode = DeviceCode.CPU
    version: str = "1"
    feature_level: int = 8

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool for each operation: True if LiteRT computes it exactly."""
        return tuple(not reason for reason in obstacles(model))

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        """Return the model, whose flatbuffer is made when it is first run.

        Raises RuntimeFailure for other operations.
        """
        reason = next(filter(None, obstacles(model)), None)
        if reason is not None:
            raise failure(_FINISH, ResultCode.BAD_DATA, f"{self.name}: {reason}")
        return PreparedFlatModel(model, max(options.threads, 1))


@dataclass(slots=True)
class PreparedFlatModel:
    """A model that LiteRT's interpreter computes, with numbered inputs and outputs: i0, o0."""

    model: Model
    threads: int
    _loaded: FlatModel | None = None
    _lock: Lock = field(default_factory=Lock)

    def loaded(self) -> FlatModel:
        """The flatbuffer in an interpreter; raises OptionError without the extra."""
        with self._lock:
            if self._loaded is None:
                self._loaded = load(convert(self.model), self.threads)
            return self._loaded

    def execute(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> list[Array]:
        """Run the model, as `device.PreparedModel.execute`."""
        feeds: dict[str, Array] = {}
        for n, array in enumerate(inputs):
            if array is None:
                raise ShapeError(f"input {n} is missing, its value is required")
            feeds[f"i{n}"] = array
        try:
            found = self.loaded().run(feeds)
        except ModelError as error:
            raise failure(COMPUTE, ResultCode.OP_FAILED, str(error)) from None
        results = [found[f"o{n}"] for n in range(len(found))]
        for result, out in zip(results, outputs, strict=False):
            if out is not None:
                np.copyto(out, result)
        return [
            result if n >= len(outputs) or outputs[n] is None else outputs[n]  # type: ignore[misc]
            for n, result in enumerate(results)
        ]


class LiteRtRuntime(HostRuntime):
    """A runtime whose only device is LiteRT."""

    def __init__(self) -> None:
        """Create the runtime; LiteRT itself is imported when a model is compiled."""
        super().__init__((LiteRtDevice(),))

    def explanation(self, model: Model, declined: Iterable[int]) -> str:
        """The reasons why LiteRT does not compute these operations."""
        found = obstacles(model)
        return "; ".join(dict.fromkeys(found[i] for i in declined))
