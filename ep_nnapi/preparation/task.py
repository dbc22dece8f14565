"""Preparation of one model by worker processes in a scratch folder, then publication of its files.

The folder is locked while a process works in it, so that a later run can detect abandoned folders.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.nnapi.files import TEMPORARY_PREFIX, digest_of, require_file
from ep_nnapi.preparation.job import FLATBUFFER, NO_VERIFY_ADVICE, Verification
from ep_nnapi.preparation.manifest import CacheKey, Prepared, up_to_date
from ep_nnapi.preparation.worker_pool import Limits, StepRunner, step_pool
from ep_nnapi.workers import WorkerPool

_WORK = "model"


@dataclass(frozen=True, slots=True)
class Task:
    """One model to prepare, with all data that another process or machine needs for it.

    name      the model's name in the manifest
    root      the output folder
    output    path of the prepared model, relative to `root`
    previous  the manifest entry of an earlier run
    """

    model: Path
    name: str
    root: Path
    output: str
    recipe: CacheKey
    verification: Verification | None
    limits: Limits
    previous: Prepared | None = None


def prepare_one(task: Task, pool: WorkerPool | None = None) -> Prepared:
    """Prepares the model unless it is up to date, and returns its entry; errors are in the entry.

    pool   server processes to use (default: a temporary one)
    """
    if pool is None:
        with step_pool() as own:
            return prepare_one(task, own)
    started = monotonic()
    try:
        require_file(task.model)
        if task.previous and up_to_date(
            task.previous, task.model, task.recipe, task.root, started + task.limits.seconds
        ):
            return replace(task.previous, skipped=True)
        with pool.server() as server, _scratch(task.root) as folder:
            return _prepared(task, StepRunner(server, folder, task.limits, started))
    except (ModelError, OptionError) as error:
        return failed(task, str(error), unusable=True)
    except NnapiError as error:
        return failed(task, str(error))
    except OSError as error:
        late = isinstance(error, TimeoutError)
        place = error.filename2 or error.filename or task.root
        why = str(task.limits.timeout_error()) if late else f"{place}: {error.strerror}"
        return failed(task, why, unusable=late)


def failed(task: Task, why: str, *, unusable: bool = False) -> Prepared:
    """Returns the entry of a model that could not be prepared, for the reason `why`."""
    return Prepared(task.name, task.output, task.recipe, error=why, unusable=unusable)


def clean(root: Path) -> None:
    """Deletes temporary files and abandoned scratch folders that killed runs left in `root`."""
    with locked(root):
        for left in root.glob(f"{TEMPORARY_PREFIX}*"):
            if left.is_file():
                left.unlink(missing_ok=True)
                continue
            with suppress(OSError), locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def locked(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Holds a file lock on the folder; waits for conflicting locks, or raises OSError for LOCK_NB.

    For output folders, lock while looking for abandoned folders or changing shared files.
    """
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)


def _prepared(task: Task, runner: StepRunner) -> Prepared:
    work = runner.folder / _WORK
    work.mkdir()
    out = work / Path(task.output).name
    asked: dict[str, Any] = {
        "job": task.recipe.job,
        "model": str(task.model),
        "out": str(out),
        "scratch": str(runner.folder),
        "recorded": str(runner.folder / "recorded.npz"),
        "verification": task.verification and asdict(task.verification),
    }
    sources = {task.model.name: digest_of(task.model, runner.deadline)}
    saved = runner.run("save", asked)
    sources |= _digests(task.model.parent, map(Path, saved["external_files"]), runner.deadline)
    entry = Prepared(
        task.name,
        task.output,
        task.recipe,
        sources,
        report=saved["report"],
        level=saved["level"],
        operators=saved["operators"],
        compiled=saved["compiled"],
    )
    if task.verification is not None:
        runner.run("record", asked)
        verdict = runner.run("verify", asked)
        entry = replace(entry, differences=verdict["differences"])
        if verdict["refused"] is not None:
            error = (
                f"the prepared model differs from the original. {verdict['refused']} Nothing is "
                f"written; allow more with tolerance, or {NO_VERIFY_ADVICE}"
            )
            return replace(entry, error=error)
    return replace(entry, outputs=_publish(work, out.name, task))


def _publish(work: Path, main: str, task: Task) -> dict[str, str]:
    """Moves the files into place, the model last, and returns their digests.

    The names of weight files contain digests, so a model in place always refers to its own weights.
    """
    home = (task.root / task.output).parent
    names = sorted((p.name for p in work.iterdir()), key=lambda name: (name == main, name))
    digests = _digests(work, [work / name for name in names])
    with locked(task.root):
        home.mkdir(parents=True, exist_ok=True)
        for name in names:
            (work / name).replace(home / name)
        _delete_replaced(home, Path(main), digests.keys())
    folder = Path(task.output).parent
    return {str(folder / name): digest for name, digest in digests.items()}


_BESIDE = {
    ".onnx": r"\.[0-9a-f]{16}\.(weights|data)",
    FLATBUFFER: rf"(_nnapi_[0-9]+)?{re.escape(FLATBUFFER)}",
}
"""What follows the name of a model in those of its files, by its suffix."""


def _delete_replaced(home: Path, main: Path, kept: Collection[str]) -> None:
    """Deletes weights and flatbuffers of earlier models with the same name."""
    if ending := _BESIDE.get(main.suffix.lower()):
        for path in home.iterdir():
            if path.name not in kept and re.fullmatch(re.escape(main.stem) + ending, path.name):
                path.unlink(missing_ok=True)


def _digests(folder: Path, files: Iterable[Path], deadline: float | None = None) -> dict[str, str]:
    return {os.path.relpath(f, folder): digest_of(f, deadline) for f in files if f.is_file()}


@contextmanager
def _scratch(root: Path) -> Iterator[Path]:
    """Yields a temporary folder in `root`, with a shared lock like those that workers take."""
    with ExitStack() as stack:
        with locked(root):
            folder = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=root))
            stack.enter_context(locked(folder, fcntl.LOCK_SH))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
