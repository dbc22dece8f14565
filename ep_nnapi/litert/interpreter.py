"""Flatbuffers in LiteRT's interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ep_nnapi.litert import extra
from ep_nnapi.litert.flat_graph import SIGNATURE
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError


@dataclass(frozen=True)
class FlatModel:
    """A flatbuffer that is ready to run; thread-safe, runs wait for one another."""

    runner: Any
    _lock: Lock = field(default_factory=Lock)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self.runner.get_input_details())

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name; raises ModelError if LiteRT cannot compute them."""
        try:
            with self._lock:
                results = self.runner(**{name: np.asarray(a) for name, a in feeds.items()})
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"LiteRT cannot run it: {error}") from None
        return {name: np.array(array) for name, array in results.items()}


def load(model: bytes | bytearray | Path, threads: int = 1) -> FlatModel:
    """A flatbuffer in an interpreter.

    Raises ModelError if LiteRT does not load it, OptionError without the extra.
    """
    made = extra.interpreter().Interpreter
    given = (
        {"model_path": str(model)} if isinstance(model, Path) else {"model_content": bytes(model)}
    )
    try:
        found = made(**given, num_threads=threads)
        found.allocate_tensors()
        return FlatModel(found.get_signature_runner(SIGNATURE))
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"LiteRT does not load it: {error}") from None
