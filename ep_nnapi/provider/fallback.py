"""Fallbacks of a cluster: its ONNX nodes as a model for the CPU provider, or nnapi-reference."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import onnxruntime

from ep_nnapi.lowering.border import Allocate, BoundBorder, Stop
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import health_of
from ep_nnapi.provider.devices import fallback_device
from ep_nnapi.sessions.cpu import exact_options, session_of

ClusterRun: TypeAlias = Callable[[Sequence[Array], Allocate, Stop], None]

_MIN_EXTERNAL_BYTES = 1024  # bytes: smaller constants stay in the model's own file


@dataclass
class CpuModel:
    """A model stored on disk with external weights; its session is created on first use.

    make     returns the model for inputs of the first run's ranks; None once it is stored
    threads  of the session's runs; 0: one per core
    """

    folder: Path
    make: Callable[[Mapping[str, int]], onnx.ModelProto] | None = None
    threads: int = 0
    _session: onnxruntime.InferenceSession | None = None
    _inputs: frozenset[str] = frozenset()
    _lock: ForkableLock = field(default_factory=ForkableLock)

    @property
    def path(self) -> Path:
        """The model's file."""
        return self.folder / "model.onnx"

    @staticmethod
    def write(model: onnx.ModelProto, threads: int = 0) -> CpuModel:
        """Writes `model` to a temporary folder, which is removed together with the result."""
        stored = CpuModel.of(lambda _: model, threads)
        stored._store({})
        return stored

    @staticmethod
    def of(make: Callable[[Mapping[str, int]], onnx.ModelProto], threads: int = 0) -> CpuModel:
        """Returns what the first run writes to such a folder."""
        made = CpuModel(Path(tempfile.mkdtemp(prefix="ep-nnapi-")), make, threads)
        weakref.finalize(made, _remove, made.folder, os.getpid())
        return made

    def _store(self, ranks: Mapping[str, int]) -> None:
        """Writes what is not stored yet, for inputs of these ranks."""
        make, self.make = self.make, None
        if make is not None:
            onnx.save_model(
                make(ranks),
                str(self.path),
                save_as_external_data=True,
                location="weights",
                size_threshold=_MIN_EXTERNAL_BYTES,
            )

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """Returns the outputs computed by the CPU provider; the first run creates the session.

        feeds  the inputs, and constants that the model has: in a loop's body, ONNX Runtime gives
               a cluster these too
        """
        with self._lock:
            if self._session is None:
                self._store({name: array.ndim for name, array in feeds.items()})
                self._session = self._create_session()
                self._inputs = frozenset(i.name for i in self._session.get_inputs())
        read = {name: array for name, array in feeds.items() if name in self._inputs}
        return list(self._session.run(list(outputs), read))

    def _create_session(self) -> onnxruntime.InferenceSession:
        options = exact_options()
        options.intra_op_num_threads = self.threads
        # it runs inside a node of another session: spinning threads would starve that session's
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return session_of(str(self.path), options)


def _remove(folder: Path, owner: int) -> None:
    """Removes a model's folder, but not when a forked child exits: the parent still uses it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def cpu_executor(model: CpuModel, inputs: Sequence[str], outputs: Sequence[str]) -> ClusterRun:
    """Returns an engine that runs a cluster's ONNX nodes on the CPU provider."""

    def run(arrays: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        feeds = dict(zip(inputs, arrays, strict=True))
        for i, result in enumerate(model.run(feeds, outputs)):
            np.copyto(allocate(i, result.shape), result)

    return run


def is_on_reference(compiler: Compiler) -> bool:
    """Returns True if the device of the compiler is that of the fallback."""
    runtime, reference = fallback_device()
    return compiler.health is health_of(runtime) and compiler.device == reference


def reference_executor(compiler: Compiler, model: Model, border: BoundBorder) -> ClusterRun:
    """Returns what runs a cluster's model on nnapi-reference, as precisely as `compiler` asks."""
    runtime, reference = fallback_device()
    options = CompileOptions(precise=compiler.options.precise)
    compilation = runtime.compile(model, reference, options)

    def run(inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        border.run(compilation, inputs, allocate, RunOptions(stop=stop))

    return run
