"""LiteRT's interpreter and schema: the optional package ai-edge-litert, imported on demand."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, OptionError

PACKAGE = "ai-edge-litert"
SIGNATURE = "serving_default"
"""Name of the signature, by which runners find inputs and outputs; TensorFlow's own default."""
INSTALL = "pip install 'ep-nnapi[litert]'"


@cache
def schema() -> ModuleType:
    """The classes of LiteRT's flatbuffer schema; raises OptionError without the extra."""
    return _imported("ai_edge_litert.schema_py_generated")


def interpreter() -> ModuleType:
    """The module of LiteRT's interpreter; raises OptionError without the extra."""
    return _imported("ai_edge_litert.interpreter")


def flatbuffers() -> ModuleType:
    """The package flatbuffers, which ai-edge-litert requires."""
    return _imported("flatbuffers")


def require_installed() -> None:
    """Raises OptionError without the extra; imports nothing."""
    if find_spec("ai_edge_litert") is None:
        raise _missing()


def _missing() -> OptionError:
    return OptionError(f"LiteRT needs the package {PACKAGE}, which is not installed: {INSTALL}")


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise _missing() from None


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
    made = interpreter().Interpreter
    given = (
        {"model_path": str(model)} if isinstance(model, Path) else {"model_content": bytes(model)}
    )
    try:
        found = made(**given, num_threads=threads)
        found.allocate_tensors()
        return FlatModel(found.get_signature_runner(SIGNATURE))
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"LiteRT does not load it: {error}") from None
