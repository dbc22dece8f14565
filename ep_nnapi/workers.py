"""Server processes that fork a fresh worker process for each request, and what both sides do.

A server imports once everything that its workers need. What crashes, hangs or exceeds its limits
ends only its own worker. A server reads one JSON request per line from standard input, and writes
the exit code of its worker as one line to standard output. At the end of the input it kills a
running worker and exits.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Any, TypeAlias

from ep_nnapi.nnapi.errors import NnapiError

JsonObject: TypeAlias = dict[str, Any]

RESULT_FILE, OUTPUT_FILE = "result.json", "output.txt"
"""Files of a worker in its folder: its result, and the output that libraries printed."""

ENDED = 86
"""Exit code of a worker in which C's exit was called."""


@dataclass(frozen=True, slots=True)
class WorkerServer:
    """A server process, which runs one worker at a time."""

    process: subprocess.Popen[bytes]

    def exchange(self, request: JsonObject) -> int | None:
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
        self.process.terminate()  # ends it in its imports, which take seconds; later it ignores it
        self.process.wait()
        replies.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self.process.stdin is None or self.process.stdout is None:
            raise NnapiError("the server was started without pipes")
        return self.process.stdin, self.process.stdout


class WorkerPool:
    """Pool of server processes, reused so that imports happen once per server.

    module   what a server imports and serves by: a module whose `main` calls `serve`
    """

    def __init__(self, module: str) -> None:
        self._module = module
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
            server = _start_server(self._module)
            self._all.append(server)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                self._idle.append(server)


def _start_server(module: str) -> WorkerServer:
    """Starts a server without waiting for its imports."""
    own = str(Path(__file__).parents[1])  # workers import this package, not another copy
    path = os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH", ""))))
    # Python 3.12+ warns about fork in threaded processes; ONNX Runtime's only thread is idle
    quiet = "ignore::DeprecationWarning"
    # imported objects are permanent, so garbage collection before `main` only costs time
    begin = f"import gc; gc.disable(); from {module} import main; main()"
    command, pipe = [sys.executable, "-P", "-W", quiet, "-c", begin], subprocess.PIPE
    # one BLAS thread per process: parallel models share the CPUs
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path}
    # Ctrl-C reaches all processes of a terminal; block it here, as the parent closes the input
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return WorkerServer(subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(work: Callable[[JsonObject], None]) -> None:
    """Serves requests until the end of standard input, each by `work` in a process of its own."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # from here on its input ends it, and its worker
    gc.freeze()  # excludes imported objects from collection, so workers neither scan nor copy them
    gc.enable()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        worker = get_context("fork").Process(target=work, args=(request,))
        worker.start()
        over = wait([worker.sentinel, sys.stdin.fileno()], request["seconds"])
        if worker.sentinel not in over:
            worker.kill()
        worker.join()
        with suppress(BrokenPipeError):
            sys.stdout.write(f"{json.dumps(worker.exitcode if over else None)}\n")
            sys.stdout.flush()


def set_up_worker(folder: Path, memory: int | None = None) -> None:
    """Sets up a worker: working folder with a shared lock, redirected output, limit of memory.

    What it or its libraries print goes to the file OUTPUT_FILE of the folder.
    """
    os.chdir(folder)
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)
    nothing, output = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(OUTPUT_FILE, os.O_WRONLY | os.O_CREAT, 0o600),
    )
    for given, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(given, number)
    if memory is not None:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        within = memory if most == resource.RLIM_INFINITY else min(memory, most)
        resource.setrlimit(resource.RLIMIT_AS, (within, most))
    _end_at_exit()


def _end_at_exit() -> None:
    """Makes C's exit, which a kernel may call, end the worker at once with the code `ENDED`.

    Other functions registered for it wait for threads that a forked process does not have.
    """
    library = ctypes.CDLL(None)
    library.__cxa_atexit(library._exit, ctypes.c_void_p(ENDED), None)
