"""A process of its own for each model: one that crashes a parser ends only its own worker.

One line of JSON on standard input, one on standard output; when the input ends, so does the worker.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeAlias

from ep_nnapi.rejection import ModelError, NnapiError, OptionError

Data: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that waits for its one task."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]

    def ask(self, task: Data) -> Data:
        """Its answer to `task`.

        Raises ModelError or OptionError as it did, NnapiError for anything else but a crash, which
        is the model's: ModelError.
        """
        answer = self._exchange(task)
        code = self.process.wait()
        self.said.seek(0)
        return _judge(answer, code, self.said.read().decode(errors="replace"))

    def _exchange(self, task: Data) -> bytes:
        """Writes the task and reads the answer; the input stays open until then."""
        if self.process.stdin is None or self.process.stdout is None:
            raise NnapiError("the worker has no pipes")
        try:
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()
            return self.process.stdout.read()
        except BrokenPipeError:
            with suppress(BrokenPipeError):  # what is still in its buffer goes nowhere either
                self.process.stdin.close()
            return b""


@contextmanager
def started(do: str, folder: Path, keep: int) -> Iterator[Worker]:
    """A worker for a task of `TASKS`, at work in `folder`; it gets ready while others work.

    keep  a file descriptor that it holds open as long as it lives
    """
    environment = {**os.environ, "PYTHONPATH": _path()}
    command = [sys.executable, "-P", "-m", "ep_nnapi.worker", do]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=said,
            cwd=folder,
            env=environment,
            pass_fds=(keep,),
        ) as process,
    ):
        try:
            yield Worker(process, said)
        finally:
            process.kill()


def _judge(answer: bytes, code: int, said: str) -> Data:
    if code < 0:
        name = signal.Signals(-code).name
        raise ModelError(f"the model made ONNX Runtime crash ({name}) in its worker process")
    try:
        found: Data = json.loads(answer)
    except ValueError:
        last = said.strip().rpartition("\n")[2] or f"exit code {code}"
        raise NnapiError(f"the worker process failed: {last}") from None
    if "error" in found:
        kinds = {"ModelError": ModelError, "OptionError": OptionError}
        raise kinds.get(found["kind"], NnapiError)(found["error"])
    return found


def _path() -> str:
    """Where this package is, before whatever else there is."""
    own = str(Path(__file__).parents[1])
    return os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH", ""))))


def _stage(task: Data) -> Data:
    """Prepares `model` as `out`; records what the original computes where that is asked for."""
    from ep_nnapi.job import Verification, job_of
    from ep_nnapi.preparing import beside, stage
    from ep_nnapi.verifying import record, tolerance_for

    model = Path(task["model"])
    job = job_of(task["job"])
    staged, tolerance = stage(model, Path(task["out"]), job), None
    if task["verification"] is not None:
        how = Verification(**task["verification"])
        record(model, how, dict(job.options.fix), Path(task["recorded"]))
        tolerance = tolerance_for(how, model)
    return {
        "tolerance": tolerance,
        "report": staged.report.to_json(),
        "operators": staged.operators,
        "beside": [str(p) for p in beside(model)],
    }


def _verify(task: Data) -> Data:
    """Compares `out` with what was recorded."""
    from ep_nnapi.job import job_of
    from ep_nnapi.options import to_strings
    from ep_nnapi.verifying import compare

    options = to_strings(job_of(task["job"]).options)
    found = compare(Path(task["out"]), Path(task["recorded"]), options)
    return {"differences": [asdict(d) for d in found]}


TASKS: Mapping[str, Callable[[Data], Data]] = {"stage": _stage, "verify": _verify}
_NEEDS = {"stage": ("preparing", "verifying"), "verify": ("verifying",)}


def main() -> None:
    """Answers the one task on standard input."""
    # what libraries print goes with the diagnostics
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    do = sys.argv[1]
    for name in _NEEDS[do]:
        import_module(f"ep_nnapi.{name}")
    task = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    try:
        found = TASKS[do](task)
    except NnapiError as error:
        found = {"error": str(error), "kind": type(error).__name__}
    json.dump(found, answer)
    answer.close()
    os._exit(0)  # the reading thread holds standard input


def _end_with(stream: IO[bytes]) -> None:
    """Ends this process when the one that asked is gone."""
    stream.read()
    os._exit(1)


if __name__ == "__main__":
    main()
