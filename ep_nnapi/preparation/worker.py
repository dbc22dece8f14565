"""Server process that forks a worker process for each step of preparing a model.

Importing this module imports everything that workers need. The server reads one JSON request per
line from standard input, and writes the exit code of its worker as one line to standard output. At
the end of the input it kills a running worker and exits.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path

from ep_nnapi.diagnostics.verdict import sentences
from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.preparation.job import NO_VERIFY_ADVICE, Format, Verification, job_of
from ep_nnapi.preparation.pipeline import save_prepared
from ep_nnapi.preparation.tflite import EXPOSED, compare_flatbuffers
from ep_nnapi.preparation.verify import compare, record
from ep_nnapi.preparation.worker_pool import ENDED, OUTPUT_FILE, RESULT_FILE, Data
from ep_nnapi.sessions.cpu import custom_ops


def _save(task: Data) -> Data:
    """Prepares `model` and writes it to `out`."""
    model, out, scratch = (Path(task[name]) for name in ("model", "out", "scratch"))
    saved = save_prepared(model, out, job_of(task["job"]), scratch)
    return {
        "report": saved.report.to_json(),
        "operators": saved.operators,
        "compiled": saved.compiled and asdict(saved.compiled),
        "external_files": [str(p) for p in saved.external_files],
    }


def _record(task: Data) -> Data:
    """Records the original's outputs."""
    model, how = Path(task["model"]), Verification(**task["verification"])
    fixed = dict(job_of(task["job"]).options.fix)
    exposed = Path(task["scratch"], EXPOSED)
    inner = exposed if exposed.is_file() else None
    try:
        return {"tolerance": record(model, how, fixed, Path(task["recorded"]), inner)}
    except (ModelError, OptionError) as error:
        raise type(error)(f"{error}; {NO_VERIFY_ADVICE}") from None


def _verify(task: Data) -> Data:
    """Compares the outputs of the prepared model `out` with the recorded ones."""
    job, out, recorded = job_of(task["job"]), Path(task["out"]), Path(task["recorded"])
    options = replace(job.options, fix=())  # `out` has these shapes already
    if job.format is Format.TFLITE:
        found = compare_flatbuffers(out.parent, recorded, options)
    else:
        found = compare(out, recorded, options)
    return {
        "differences": [d.to_json() for d in found.differences],
        "refused": " ".join(sentences(found)) if found.negative else None,
    }


STEPS: Mapping[str, Callable[[Data], Data]] = {
    "save": _save,
    "record": _record,
    "verify": _verify,
}


def main() -> None:
    """Serves requests until the end of standard input."""
    gc.freeze()  # excludes imported objects from collection, so workers neither scan nor copy them
    gc.enable()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        worker = get_context("fork").Process(target=_work, args=(request,))
        worker.start()
        over = wait([worker.sentinel, sys.stdin.fileno()], request["seconds"])
        if worker.sentinel not in over:
            worker.kill()
        worker.join()
        with suppress(BrokenPipeError):
            sys.stdout.write(f"{json.dumps(worker.exitcode if over else None)}\n")
            sys.stdout.flush()


def _work(request: Data) -> None:
    """Serves one request in the forked worker."""
    folder = Path(request["folder"])
    _set_up_worker(folder, request["memory"])
    try:
        with custom_ops(_library(request["task"])):
            found = STEPS[request["step"]](request["task"])
    except NnapiError as error:
        found = {"error": str(error), "kind": type(error).__name__}
    (folder / RESULT_FILE).write_text(json.dumps(found))


def _library(task: Data) -> str | None:
    """Returns the path of the custom operator library that a task's job names, if any."""
    return job_of(task["job"]).options.custom_ops_library if "job" in task else None


def _set_up_worker(folder: Path, memory: int) -> None:
    """Sets up the worker: working folder with a shared lock, redirected output, memory limit."""
    os.chdir(folder)
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)
    nothing, output = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(OUTPUT_FILE, os.O_WRONLY | os.O_CREAT, 0o600),
    )
    for given, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(given, number)
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
