"""Parallel preparation of models in worker processes, with a manifest of the results."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, ProgressCallback, as_files
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.files import (
    TEMPORARY_PREFIX,
    digest_of,
    os_errors,
    require_name,
    why_no_file,
)
from ep_nnapi.options import values
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.table import PrepareKeywords
from ep_nnapi.preparation import manifest
from ep_nnapi.preparation.job import FLATBUFFER, TIMEOUT, Format, Job, Verification, job_of
from ep_nnapi.preparation.manifest import CacheKey, Prepared
from ep_nnapi.preparation.task import Task, clean, failed, locked, prepare_one
from ep_nnapi.preparation.worker_pool import Limits, limits_of, step_pool, workers_of

MANIFEST = "manifest.json"
_SAVE_EVERY = 1.0  # seconds between saves: the most that a killed run loses from its manifest
_SAVE_SHARE = 20  # where saving is slow, the pause is this multiple of its duration instead
_FILE_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,7}")  # matches .txt and .tflite, but not the .2 of v1.2


@dataclass(frozen=True, slots=True)
class Preparation:
    """Results for the models, in input order, and the path of the manifest that lists them."""

    models: tuple[Prepared, ...]
    manifest: Path

    @property
    def failed(self) -> tuple[Prepared, ...]:
        """The models that failed."""
        return tuple(m for m in self.models if m.error is not None)


@checked_arguments
def prepare(  # noqa: PLR0913 (all but two by name)
    model: ModelSource,
    out: str | os.PathLike[str],
    *,
    verify: bool = True,
    inputs: Inputs = (),
    tolerance: float | None = None,
    jobs: int | None = None,
    timeout: float = TIMEOUT,
    memory: float | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[PrepareKeywords],
) -> Preparation:
    """Prepares a model, or every .onnx file of a directory, offline and writes the results.

    model     as for `check`, or a directory; the output of an in-memory model is named model
    out       a directory, or for one model a file, whose suffix then selects the format
    verify    compare each with the original on nnapi-reference, in a process without the original
    inputs    inputs for this comparison, as for `run` (default: random numbers)
    tolerance relative to an output's spread (default: by its kind, 1e-4 for float32)
    jobs      number of models prepared in parallel (default: one for each CPU)
    timeout   seconds for one model, all its steps together
    memory    GB for each worker process (default: half of the machine's memory)
    executor  any concurrent.futures.Executor, local or of a compute cluster, to run the models
    progress  called with the number of finished models and the total
    options   optimization_level, format, target_platform, optimization_style,
              enable_type_reduction, embed, partial, alternatives, and the provider's
    A model that fails does not stop the others and leaves no output. For a single unusable model,
    raises ModelError with the reason. Raises OptionError for options that cannot be combined.
    """
    target = Path(out).absolute()
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise OptionError(
            f"executor is {executor!r}; give an Executor, such as dask's get_executor()"
        )
    job = _job(target, options)
    workers, limits = workers_of(jobs), limits_of(timeout, memory)
    with as_files(model, inputs) as (given, files):
        verification = _verification(files, tolerance) if verify else None
        work = partial(_prepared, given.absolute(), target, job, verification, limits, progress)
        if executor is not None:
            return work(lambda t: executor.submit(prepare_one, t))
        with ThreadPoolExecutor(workers) as own, step_pool() as pool:
            return work(lambda t: own.submit(prepare_one, t, pool))


def _prepared(
    source: Path,
    target: Path,
    job: Job,
    verification: Verification | None,
    limits: Limits,
    progress: ProgressCallback | None,
    submit: Callable[[Task], Future[Prepared]],
) -> Preparation:
    listing, pairs = _outputs_of(source, target, job)
    root = listing.parent
    with os_errors(f"{root} cannot be made"):
        root.mkdir(parents=True, exist_ok=True)
    clean(root)
    known = manifest.read(listing)
    recipe = CacheKey(job.to_json(), _verification_key(verification), manifest.versions_of(job))
    folder = source if source.is_dir() else source.parent
    names = ((m, str(m.relative_to(folder)), output) for m, output in pairs)
    tasks = [
        Task(m, name, root, output, recipe, verification, limits, known.get(output))
        for m, name, output in names
    ]
    models = _run_all(tasks, listing, submit, progress)
    if source.is_file() and models[0].unusable:
        error = str(models[0].error)
        raise ModelError(error if source.name in error else f"{source}: {error}")
    return Preparation(models, listing)


def _verification(inputs: Sequence[str], tolerance: float | None) -> Verification:
    limit = values.tolerance("tolerance", tolerance)
    return Verification(tuple(map(_absolute, inputs)), limit)


def _absolute(given: str) -> str:
    """Returns `[NAME=]FILE` with an absolute path."""
    name, equals, file = given.partition("=")
    if not equals or Path(given).exists():
        return str(Path(given).absolute())
    return f"{name}={Path(file).absolute()}"


def _job(target: Path, options: PrepareKeywords) -> Job:
    """Returns the job; without an explicit format, the suffix of an output file selects it."""
    if not _names_file(target) or options.get("format") is not None:
        return job_of({k: v for k, v in options.items() if k != "format" or v is not None})
    return job_of({**options, "format": target.suffix.lower().removeprefix(".")})


def _names_file(target: Path) -> bool:
    return target.suffix.lower() in (".onnx", ".ort", FLATBUFFER) and not target.is_dir()


def _outputs_of(source: Path, target: Path, job: Job) -> tuple[Path, list[tuple[Path, str]]]:
    """Returns the manifest's path, and each model with the name of its output in its folder."""
    require_name(source)
    if source.is_dir():
        return _outputs_of_directory(source, target, job)
    if not source.is_file():
        raise ModelError(f"{source}: {why_no_file(source, 'no such file or directory')}")
    listing, name = target / MANIFEST, f"{source.stem}{job.suffix}"
    if _names_file(target):
        listing, name = target.with_name(f"{target.stem}.{MANIFEST}"), target.name
        ending = f".{job.suffix.rpartition('.')[2]}"
        if target.suffix.lower() != ending:
            raise OptionError(
                f"{target.name} is no name for format {job.format}, which writes {ending} files"
            )
    elif target.exists() and not target.is_dir():
        raise OptionError(f"{target} is a file that is no model; give a directory")
    elif _FILE_SUFFIX.fullmatch(target.suffix) and not target.is_dir():
        ending = job.suffix.rpartition(".")[2]
        raise OptionError(
            f"{target.name} is no name for format {job.format}, which writes .{ending} files; "
            f"give {target.stem}.{ending}, or a directory (mkdir it if its name is to have a dot)"
        )
    if _real(listing.with_name(name)) == _real(source):
        raise OptionError(f"{source} would be replaced; write to another directory or name")
    return listing, [(source, name)]


def _real(path: Path) -> Path:
    """Returns the path with symlinks resolved; unlike Path.resolve, accepts symlink loops."""
    return Path(os.path.realpath(path))


def _outputs_of_directory(
    source: Path, target: Path, job: Job
) -> tuple[Path, list[tuple[Path, str]]]:
    if _names_file(target) or (target.exists() and not target.is_dir()):
        raise OptionError(f"{target} is one file, but {source} is a directory; give a directory")
    folder = _real(target)
    within = folder == _real(source)
    if within and job.format not in (Format.ORT, Format.TFLITE):
        raise OptionError(f"format {job.format} writes .onnx files; write to another directory")
    models = models_in(source, None if within else folder)
    pairs = [(m, str(m.relative_to(source).with_suffix("")) + job.suffix) for m in models]
    seen: dict[str, Path] = {}
    for model, name in pairs:
        if name in seen:
            raise OptionError(f"{seen[name]} and {model} would both become {name}; rename one")
        seen[name] = model
    return target / MANIFEST, pairs


def models_in(source: Path, without: Path | None = None) -> list[Path]:
    """Returns the .onnx files in a directory and those below; raises ModelError for none.

    without   a folder below whose files are left out, with symlinks resolved
    """
    models = [
        path
        for path in sorted(source.rglob("*"))
        if path.suffix.lower() == ".onnx"
        and (path.is_file() or (path.is_symlink() and not path.exists()))
        and not any(part.startswith(TEMPORARY_PREFIX) for part in path.parts)
        and without not in _real(path).parents
    ]
    if not models:
        raise ModelError(f"{source}: there is no .onnx file in it")
    return models


def _run_all(
    tasks: Sequence[Task],
    listing: Path,
    submit: Callable[[Task], Future[Prepared]],
    progress: ProgressCallback | None,
) -> tuple[Prepared, ...]:
    """Runs all tasks and returns their results in order, saving the manifest periodically."""
    entries: dict[str, Prepared] = {}
    saved, pause = time.monotonic(), _SAVE_EVERY
    futures = {submit(task): task for task in tasks}
    if progress is not None:
        progress(0, len(tasks))
    try:
        for done, future in enumerate(as_completed(futures), start=1):
            entry = _result(future, futures[future])
            entries[entry.output] = entry
            if progress is not None:
                progress(done, len(tasks))
            began = time.monotonic()
            if began - saved > pause:
                _save_manifest(listing, entries)
                saved = time.monotonic()
                pause = max(_SAVE_EVERY, _SAVE_SHARE * (saved - began))
    finally:  # on interruption, do not start pending tasks
        for future in futures:
            future.cancel()
    _save_manifest(listing, entries)
    return tuple(entries[task.output] for task in tasks)


def _save_manifest(listing: Path, entries: Mapping[str, Prepared]) -> None:
    """Writes the shared files, merged with entries of other runs whose outputs still exist."""
    root, prefix = listing.parent, listing.name.removesuffix(MANIFEST)
    with locked(root):
        before = manifest.read(listing)
        there = {
            output: entry
            for output, entry in before.items()
            if all((root / name).is_file() for name in entry.outputs)
        }
        every = (there | dict(entries)).values()
        manifest.write(listing, every)
        manifest.write_operators(root, prefix, every, before.values())


def _result(future: Future[Prepared], task: Task) -> Prepared:
    """Returns a task's result; an exception in the executor becomes a failed entry."""
    try:
        return future.result()
    except Exception as error:  # executors have no common exception type
        return failed(task, f"the executor failed: {error!r}")


def _verification_key(verification: Verification | None) -> dict[str, object] | None:
    """Returns the verification as plain data, with digests to detect changed input files."""
    if verification is None:
        return None
    files = {given: Path(given.rpartition("=")[2]) for given in verification.inputs}
    for file in files.values():
        if not file.is_file():
            raise OptionError(f"{file}: no such input file")
    digests = {given: digest_of(file) for given, file in files.items()}
    return {"inputs": digests, "tolerance": verification.tolerance}
