"""Pool of server processes that fork a fresh worker process for each step of a preparation.

A server imports once everything that its workers need. A model that crashes, hangs or exceeds its
limits ends only its own worker.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, Any, TypeAlias

from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError

Data: TypeAlias = dict[str, Any]

SERVER_MODULE = "ep_nnapi.preparation.worker"
RESULT_FILE, OUTPUT_FILE = "result.json", "output.txt"
"""Files of a worker in its folder: its result, and the output that libraries printed."""

ENDED = 86
"""Exit code of a worker whose model called C's exit."""

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
    if jobs is not None and jobs < 1:
        raise OptionError(f"jobs is {jobs}; it must be 1 or more")
    return jobs or os.cpu_count() or 1


def limits_of(timeout: float, memory: float | None) -> Limits:
    """Returns the limits for seconds and GB; raises OptionError unless they are in (0, 1e6]."""
    for name, given in (("timeout", timeout), ("memory", memory)):
        if given is not None and not 0 < given <= _MAX_LIMIT:
            raise OptionError(f"{name} is {given:g}; it must be above 0 and at most {_MAX_LIMIT:g}")
    return Limits(timeout, None if memory is None else int(memory * 1e9))


@dataclass(frozen=True, slots=True)
class WorkerServer:
    """A server process, which runs one worker at a time."""

    process: subprocess.Popen[bytes]

    def exchange(self, request: Data) -> int | None:
        """Runs a worker for `request` and returns its exit code; None after a timeout.

        Raises NnapiError if the server process has ended.
        """
        try:
            requests, replies = self._pipes()
            requests.write(json.dumps(request).encode() + b"\n")
            requests.flush()
            code: int | None = json.loads(replies.readline())
        except (BrokenPipeError, ValueError):
            self.close()
            raise NnapiError("the server of the worker processes does not start") from None
        return code

    def close(self) -> None:
        """Stops the server and any running worker."""
        requests, replies = self._pipes()
        with suppress(BrokenPipeError):
            requests.close()
        self.process.wait()
        replies.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self.process.stdin is None or self.process.stdout is None:
            raise NnapiError("the server was started without pipes")
        return self.process.stdin, self.process.stdout


class WorkerPool:
    """Pool of server processes, reused between models so that imports happen once per server."""

    def __init__(self) -> None:
        self._all: list[WorkerServer] = []
        self._idle: list[WorkerServer] = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        """Stops all servers and their workers."""
        for server in self._all:
            server.close()

    @contextmanager
    def server(self) -> Iterator[WorkerServer]:
        """Yields an idle or new server for exclusive use."""
        try:
            server = self._idle.pop()
        except IndexError:
            server = _start_server()
            self._all.append(server)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                self._idle.append(server)


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

    def run(self, step: str, task: Data) -> Data:
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

    def _result_of(self, code: int, result: str, output: str) -> Data:
        try:
            found: Data = json.loads(result)
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
                f"the model made ONNX Runtime crash ({name}) in its worker process; "
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


def _start_server() -> WorkerServer:
    """Starts a server without waiting for its imports."""
    own = str(Path(__file__).parents[2])  # workers import this package, not another copy
    path = os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH", ""))))
    # Python 3.12+ warns about fork in threaded processes; ONNX Runtime's only thread is idle
    quiet = "ignore::DeprecationWarning"
    # imported objects are permanent, so garbage collection before `main` only costs time
    begin = f"import gc; gc.disable(); from {SERVER_MODULE} import main; main()"
    command, pipe = [sys.executable, "-P", "-W", quiet, "-c", begin], subprocess.PIPE
    # one BLAS thread per process: parallel models share the CPUs
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path}
    # Ctrl-C reaches all processes of a terminal; block it here, as the parent closes the input
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return WorkerServer(subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
