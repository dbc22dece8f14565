"""A run of a model recorded by ONNX Runtime's profiler: `run --profile`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import onnxruntime

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import write_atomically
from ep_nnapi.sessions.cpu import exact_options

OpenAndRun: TypeAlias = Callable[[onnxruntime.SessionOptions], onnxruntime.InferenceSession]


def record_trace(path: Path, open_and_run: OpenAndRun) -> None:
    """Writes ONNX Runtime's profile of a session to `path`, as JSON for Perfetto.

    open_and_run  opens a session with the given options, runs the model and returns the session
    Raises OptionError if the file cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = exact_options()
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder, "profile"))
        recorded = Path(open_and_run(options).end_profiling())
        try:
            write_atomically(path, [recorded.read_bytes()])
        except OSError as error:
            raise OptionError(f"{path} cannot be written: {error.strerror}") from None
