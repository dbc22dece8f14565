"""Steps of a preparation in worker processes: their limits, and what their ends mean."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from time import monotonic

from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.options import values
from ep_nnapi.workers import ENDED, OUTPUT_FILE, RESULT_FILE, JsonObject, WorkerPool, WorkerServer

SERVER_MODULE = "ep_nnapi.preparation.worker"

_MAX_LIMIT = 1e6  # seconds, GB: the system calls behind the limits accept no more
_ERROR_TYPES = {"ModelError": ModelError, "OptionError": OptionError}
_NO_MEMORY = (
    "MemoryError",  # Python's
    "bad_alloc",  # C++'s
    "bad allocation",
    "Failed to allocate memory",  # ONNX Runtime's
    "failed to allocate memory",  # OpenBLAS's
    "Cannot allocate memory",  # the system's
    "Resource temporarily unavailable",  # a thread without a stack
)

_PROBE_BYTES = 1 << 16
"""Size in bytes of a test write; exceeds any block that a library fails to write on a full disk."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for one model: seconds for all its steps, and bytes of memory for each step.

    Without `memory`, the limit is half of the memory of the machine that runs the worker.
    """

    seconds: float
    memory: int | None = None

    @property
    def bytes(self) -> int:
        """The memory limit of a worker on this machine, in bytes."""
        if self.memory is not None:
            return self.memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2

    def timeout_error(self) -> ModelError:
        """Returns the error for a model that took longer than `seconds`."""
        return ModelError(f"it took longer than {self.seconds:g} seconds; allow more with timeout")


def workers_of(jobs: int | None) -> int:
    """Returns the number of parallel models (default: one per CPU); OptionError if below 1."""
    return (os.cpu_count() or 1) if jobs is None else values.count("jobs", jobs)


def limits_of(timeout: float, memory: float | None) -> Limits:
    """Returns the limits for seconds and GB; raises OptionError unless they are in (0, 1e6]."""
    for name, given in (("timeout", timeout), ("memory", memory)):
        if given is not None and not (isinstance(given, Real) and 0 < given <= _MAX_LIMIT):
            raise OptionError(f"{name} is {given!r}; it must be above 0 and at most {_MAX_LIMIT:g}")
    return Limits(timeout, None if memory is None else int(memory * 1e9))


def step_pool() -> WorkerPool:
    """Returns a pool of the servers of preparations, reused between models."""
    return WorkerPool(SERVER_MODULE)


@dataclass(frozen=True, slots=True)
class StepRunner:
    """Exclusive use of a server for one model, with a folder and a time limit."""

    server: WorkerServer
    folder: Path
    limits: Limits
    started: float = field(default_factory=monotonic)

    @property
    def deadline(self) -> float:
        """The end of the time limit, on the clock of time.monotonic."""
        return self.started + self.limits.seconds

    def run(self, step: str, task: JsonObject) -> JsonObject:
        """Runs `step`, a key of `STEPS`, in a new worker and returns its result.

        Raises the worker's ModelError or OptionError, ModelError for a crash or an exceeded limit,
        OSError if the disk is full, and NnapiError for any other failure.
        """
        left = max(0.0, self.deadline - monotonic())
        request = {
            "step": step,
            "task": task,
            "folder": str(self.folder),
            "seconds": left,
            "memory": self.limits.bytes,
        }
        for name in (RESULT_FILE, OUTPUT_FILE):
            (self.folder / name).unlink(missing_ok=True)
        code = self.server.exchange(request)
        if code is None:
            raise self.limits.timeout_error()
        return self._result_of(
            code, _text(self.folder / RESULT_FILE), _text(self.folder / OUTPUT_FILE)
        )

    def _result_of(self, code: int, result: str, output: str) -> JsonObject:
        try:
            found: JsonObject = json.loads(result)
        except ValueError:
            found = {"error": "", "kind": ""}
        if "error" not in found:
            return found
        _check_disk_space(self.folder)
        if any(text in found["error"] + output for text in _NO_MEMORY):
            raise ModelError(
                f"it needs more than {self.limits.bytes / 1e9:.3g} GB of memory; "
                "allow more with memory"
            )
        if found["error"]:
            raise _ERROR_TYPES.get(found["kind"], NnapiError)(found["error"])
        if code < 0:
            name = signal.Signals(-code).name
            raise ModelError(
                f"the model made ONNX Runtime, or LiteRT, crash ({name}) in its worker process; "
                "another format or level may do"
            )
        if code == ENDED:
            raise ModelError(
                f"the model ended its worker process ({_last_line(output)}), perhaps for random "
                "inputs: give --input, or --no-verify"
            )
        raise NnapiError(f"the worker process failed: {_last_line(output) or f'exit code {code}'}")


def _check_disk_space(folder: Path) -> None:
    """Raises OSError if the disk is full; libraries report this in too many ways to match."""
    more = folder / "more"
    try:
        more.write_bytes(bytes(_PROBE_BYTES))
    finally:
        more.unlink(missing_ok=True)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]
