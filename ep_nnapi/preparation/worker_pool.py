"""Workers for preparing models, each a process of its own that has met no other model.

Their keeper imports once what all of them need. A model that crashes its worker, hangs or grows
beyond the limits ends that worker only.
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

from ep_nnapi.errors import ModelError, NnapiError, OptionError

Data: TypeAlias = dict[str, Any]

KEEPER = "ep_nnapi.preparation.worker"
ANSWER, SAID = "answer.json", "said.txt"
"""Files of a worker in its folder: what it found, and what libraries printed."""

_MOST = 1e6  # seconds, GB: what the system calls behind the limits can still count
_KINDS = {"ModelError": ModelError, "OptionError": OptionError}
_NO_MEMORY = (
    "MemoryError",  # Python's
    "bad_alloc",  # C++'s
    "bad allocation",
    "Failed to allocate memory",  # ONNX Runtime's
    "failed to allocate memory",  # OpenBLAS's
    "Cannot allocate memory",  # the system's
    "Resource temporarily unavailable",  # a thread without a stack
)

_ROOM = 1 << 16
"""Bytes that a library may leave free when it cannot write the next block: more than any block."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one model may take: seconds for all its steps, bytes of memory for each of them.

    Without a number of bytes it is half of the memory of the machine that does it.
    """

    seconds: float
    memory: int | None = None

    @property
    def bytes(self) -> int:
        """The limit of a worker here."""
        if self.memory is not None:
            return self.memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2

    def exceeded(self) -> ModelError:
        """The error of a model that took longer than `seconds`."""
        return ModelError(f"it took longer than {self.seconds:g} seconds; allow more with timeout")


def workers_of(jobs: int | None) -> int:
    """How many models at a time; raises OptionError for less than one."""
    if jobs is not None and jobs < 1:
        raise OptionError(f"jobs is {jobs}; it must be 1 or more")
    return jobs or os.cpu_count() or 1


def limits_of(timeout: float, memory: float | None) -> Limits:
    """The limits in seconds and GB; raises OptionError for what is no limit."""
    for name, given in (("timeout", timeout), ("memory", memory)):
        if given is not None and not 0 < given <= _MOST:
            raise OptionError(f"{name} is {given:g}; it must be above 0 and at most {_MOST:g}")
    return Limits(timeout, None if memory is None else int(memory * 1e9))


@dataclass(frozen=True, slots=True)
class Keeper:
    """The process that workers come from, one after the other."""

    process: subprocess.Popen[bytes]

    def exchange(self, order: Data) -> int | None:
        """The exit code of a worker that carried out `order`; None where time was up.

        Raises NnapiError when there is no keeper any more.
        """
        try:
            orders, answers = self._pipes()
            orders.write(json.dumps(order).encode() + b"\n")
            orders.flush()
            code: int | None = json.loads(answers.readline())
        except (BrokenPipeError, ValueError):
            self.close()
            raise NnapiError("there is no worker process; its keeper does not start") from None
        return code

    def close(self) -> None:
        """Ends it, and with it the worker that it may have."""
        orders, answers = self._pipes()
        with suppress(BrokenPipeError):
            orders.close()
        self.process.wait()
        answers.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self.process.stdin is None or self.process.stdout is None:
            raise NnapiError("the keeper was started without pipes")
        return self.process.stdin, self.process.stdout


class Crew:
    """Keepers that rest between models, so that only the first ones wait for imports."""

    def __init__(self) -> None:
        self._all: list[Keeper] = []
        self._idle: list[Keeper] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all of them and the work they do."""
        for keeper in self._all:
            keeper.close()

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        """One that nobody else has meanwhile."""
        try:
            keeper = self._idle.pop()
        except IndexError:
            keeper = _start()
            self._all.append(keeper)
        try:
            yield keeper
        finally:
            if keeper.process.poll() is None:
                self._idle.append(keeper)


@dataclass(frozen=True, slots=True)
class Shift:
    """One model's time with a keeper's workers, in a folder of its own."""

    keeper: Keeper
    folder: Path
    limits: Limits
    started: float = field(default_factory=monotonic)

    @property
    def deadline(self) -> float:
        """The time at which it ends, as time.monotonic counts."""
        return self.started + self.limits.seconds

    def ask(self, do: str, task: Data) -> Data:
        """What a new worker finds, doing `do` of its `TASKS`.

        Raises ModelError or OptionError as it did, ModelError for a crash and for a limit exceeded,
        OSError where the disk is full, NnapiError for anything else.
        """
        left = max(0.0, self.deadline - monotonic())
        order = {
            "do": do,
            "task": task,
            "folder": str(self.folder),
            "seconds": left,
            "memory": self.limits.bytes,
        }
        for name in (ANSWER, SAID):
            (self.folder / name).unlink(missing_ok=True)
        code = self.keeper.exchange(order)
        if code is None:
            raise self.limits.exceeded()
        return self._judge(code, _text(self.folder / ANSWER), _text(self.folder / SAID))

    def _judge(self, code: int, answer: str, said: str) -> Data:
        try:
            found: Data = json.loads(answer)
        except ValueError:
            found = {"error": "", "kind": ""}
        if "error" not in found:
            return found
        _check_room(self.folder)
        if any(text in found["error"] + said for text in _NO_MEMORY):
            raise ModelError(
                f"it needs more than {self.limits.bytes / 1e9:.3g} GB of memory; "
                "allow more with memory"
            )
        if found["error"]:
            raise _KINDS.get(found["kind"], NnapiError)(found["error"])
        if code < 0:
            name = signal.Signals(-code).name
            raise ModelError(
                f"the model made ONNX Runtime crash ({name}) in its worker process; "
                "another format or level may do"
            )
        raise NnapiError(f"the worker process failed: {_last_line(said) or f'exit code {code}'}")


def _check_room(folder: Path) -> None:
    """Raises OSError where nothing can be written any more, which libraries say in many ways."""
    more = folder / "more"
    try:
        more.write_bytes(bytes(_ROOM))
    finally:
        more.unlink(missing_ok=True)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def _start() -> Keeper:
    """A keeper, which gets ready while others work."""
    own = str(Path(__file__).parents[2])  # this package, before whatever else there is
    path = os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH", ""))))
    # from 3.12 on Python warns of forks beside threads; ONNX Runtime has one, which only waits
    quiet = "ignore::DeprecationWarning"
    # what imports make stays, so there is no garbage to look for before its `main`
    begin = f"import gc; gc.disable(); from {KEEPER} import main; main()"
    command, pipe = [sys.executable, "-P", "-W", quiet, "-c", begin], subprocess.PIPE
    # models that are prepared side by side share the CPUs
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path}
    # Ctrl-C goes to all processes of a terminal; whoever asks ends this one's input then
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return Keeper(subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
