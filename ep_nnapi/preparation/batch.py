"""Models prepared side by side, each in a process of its own, and a manifest of what came out."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from math import isnan
from pathlib import Path
from typing import TypeAlias

from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, as_files
from ep_nnapi.errors import ModelError, OptionError
from ep_nnapi.files import TEMPORARY, digest_of
from ep_nnapi.preparation import manifest
from ep_nnapi.preparation.job import TIMEOUT, Format, Job, Verification, job_of
from ep_nnapi.preparation.manifest import Prepared, Recipe
from ep_nnapi.preparation.task import Task, clean, failed, locked, prepare_one
from ep_nnapi.preparation.worker_pool import Crew, Limits, limits_of, workers_of

MANIFEST = "manifest.json"
_SAVE_EVERY = 1.0  # seconds: a killed run loses no more than these from its manifest,
_SAVE_SHARE = 20  # or, where many models make saving slow, than so many times what it takes
_FILE_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,7}")  # .txt, .tflite, but not the 2 of v1.2
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Preparation:
    """What became of the models, in their order; `manifest` is where it is written down."""

    models: tuple[Prepared, ...]
    manifest: Path

    @property
    def failed(self) -> tuple[Prepared, ...]:
        """Those that failed."""
        return tuple(m for m in self.models if m.error is not None)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where results go: a folder, and what the names of files about all of it begin with."""

    root: Path
    prefix: str = ""

    @property
    def manifest(self) -> Path:
        return self.root / f"{self.prefix}{MANIFEST}"


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
    progress: Progress | None = None,
    **options: object,
) -> Preparation:
    """Prepares a model, or every .onnx file of a directory, for use without this step.

    model     as `check` takes it, or a directory; in memory, it is called model
    out       a directory, or for one model a file, whose suffix then says the format
    verify    compare each with the original on nnapi-reference, in a process without the original
    inputs    what to compare on, as `run` takes them (default: random numbers)
    tolerance relative to an output's spread (default: by its kind, 1e-4 for float32)
    jobs      models at a time (default: one for each CPU)
    timeout   seconds for one model, all its steps together
    memory    GB for each of its worker processes (default: half of the machine's)
    executor  runs the models instead: any of concurrent.futures, or a cluster's
    progress  called with the numbers of models done and of all
    options   optimization_level, format, target_platform, optimization_style,
              enable_type_reduction, embed, and the provider's
    A model that fails does not stop the others, and leaves nothing behind; when there is only one,
    ModelError or OptionError says why. Raises OptionError for options that do not go together.
    """
    target = Path(out).absolute()
    job = _job(target, options)
    workers, limits = workers_of(jobs), limits_of(timeout, memory)
    with as_files(model, inputs) as (given, files):
        how = _verification(files, tolerance) if verify else None
        work = partial(_prepared, given.absolute(), target, job, how, limits, progress)
        if executor is not None:
            return work(lambda t: executor.submit(prepare_one, t))
        with ThreadPoolExecutor(workers) as own, Crew() as crew:
            return work(lambda t: own.submit(prepare_one, t, crew))


def _prepared(
    source: Path,
    target: Path,
    job: Job,
    how: Verification | None,
    limits: Limits,
    progress: Progress | None,
    submit: Callable[[Task], Future[Prepared]],
) -> Preparation:
    place, pairs = _pairs(source, target, job)
    try:
        place.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{place.root} cannot be made: {error.strerror}") from None
    clean(place.root)
    known = manifest.read(place.manifest)
    recipe = Recipe(job.to_json(), _compared(how), _versions(job.options.calibration))
    task = partial(Task, root=place.root, recipe=recipe, verification=how, limits=limits)
    models = _all(_tasks(source, pairs, task, known), place, submit, progress)
    if source.is_file() and models[0].unusable:
        raise ModelError(_about(source, str(models[0].error)))
    return Preparation(models, place.manifest)


def _about(model: Path, error: str) -> str:
    """The error with the model's name."""
    return error if model.name in error else f"{model}: {error}"


def _verification(inputs: Sequence[str], tolerance: float | None) -> Verification:
    if tolerance is not None and isnan(tolerance):
        raise OptionError("tolerance is nan, which nothing exceeds; give a number")
    return Verification(tuple(map(_absolute, inputs)), tolerance)


def _absolute(given: str) -> str:
    """`[NAME=]FILE` with the file where it is from everywhere."""
    name, equals, file = given.partition("=")
    if not equals or Path(given).exists():
        return str(Path(given).absolute())
    return f"{name}={Path(file).absolute()}"


def _job(target: Path, options: dict[str, object]) -> Job:
    """The job, its format told by the output's suffix where it is not given."""
    if not _names_file(target) or options.get("format") is not None:
        return job_of({k: v for k, v in options.items() if k != "format" or v is not None})
    return job_of({**options, "format": target.suffix.lower().removeprefix(".")})


def _names_file(target: Path) -> bool:
    return target.suffix.lower() in (".onnx", ".ort") and not target.is_dir()


def _pairs(source: Path, target: Path, job: Job) -> tuple[_Place, list[tuple[Path, str]]]:
    """Models and their outputs' names within the place."""
    if source.is_dir():
        return _pairs_of_directory(source, target, job)
    if not source.is_file():
        raise ModelError(f"{source}: no such file or directory")
    place, name = _Place(target), f"{source.stem}{job.suffix}"
    if _names_file(target):
        place, name = _Place(target.parent, f"{target.stem}."), target.name
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
    if _real(place.root / name) == _real(source):
        raise OptionError(f"{source} would be replaced; write to another directory or name")
    return place, [(source, name)]


def _real(path: Path) -> Path:
    """The path without links; Path.resolve raises where a link leads to itself."""
    return Path(os.path.realpath(path))


def _pairs_of_directory(
    source: Path, target: Path, job: Job
) -> tuple[_Place, list[tuple[Path, str]]]:
    if _names_file(target) or (target.exists() and not target.is_dir()):
        raise OptionError(f"{target} is one file, but {source} is a directory; give a directory")
    place = _real(target)
    within = place == _real(source)
    if within and job.format is not Format.ORT:
        raise OptionError(f"format {job.format} writes .onnx files; write to another directory")
    models = [
        path
        for path in sorted(source.rglob("*"))
        if path.suffix.lower() == ".onnx"
        and (path.is_file() or (path.is_symlink() and not path.exists()))
        and not any(part.startswith(TEMPORARY) for part in path.parts)
        and (within or place not in _real(path).parents)
    ]
    if not models:
        raise ModelError(f"{source}: there is no .onnx file in it")
    pairs = [(m, str(m.relative_to(source).with_suffix("")) + job.suffix) for m in models]
    seen: dict[str, Path] = {}
    for model, name in pairs:
        if name in seen:
            raise OptionError(f"{seen[name]} and {model} would both become {name}; rename one")
        seen[name] = model
    return _Place(target), pairs


def _all(
    tasks: Sequence[Task],
    place: _Place,
    submit: Callable[[Task], Future[Prepared]],
    progress: Progress | None,
) -> tuple[Prepared, ...]:
    """Every task's result, in the order of the tasks; the manifest grows as they come."""
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
                _write_down(place, entries)
                saved = time.monotonic()
                pause = max(_SAVE_EVERY, _SAVE_SHARE * (saved - began))
    finally:  # when interrupted, those not begun do not begin
        for future in futures:
            future.cancel()
    _write_down(place, entries)
    return tuple(entries[task.output] for task in tasks)


def _write_down(place: _Place, entries: Mapping[str, Prepared]) -> None:
    """Writes what all share, with what earlier runs and others meanwhile have made and is there."""
    with locked(place.root):
        before = manifest.read(place.manifest)
        there = {
            output: entry
            for output, entry in before.items()
            if all((place.root / name).is_file() for name in entry.outputs)
        }
        every = (there | dict(entries)).values()
        manifest.write(place.manifest, every)
        manifest.write_operators(place.root, place.prefix, every, before.values())


def _result(future: Future[Prepared], task: Task) -> Prepared:
    """A task's result; an executor that broke is this model's failure."""
    try:
        return future.result()
    except Exception as error:  # executors fail in ways of their own
        return failed(task, f"the executor failed: {error!r}")


def _tasks(
    source: Path,
    pairs: Iterable[tuple[Path, str]],
    task: Callable[..., Task],
    known: Mapping[str, Prepared],
) -> list[Task]:
    folder = source if source.is_dir() else source.parent
    return [
        task(m, str(m.relative_to(folder)), output=output, previous=known.get(output))
        for m, output in pairs
    ]


def _compared(how: Verification | None) -> dict[str, object] | None:
    """The verification with digests of its files, which may change."""
    if how is None:
        return None
    files = {given: Path(given.rpartition("=")[2]) for given in how.inputs}
    for file in files.values():
        if not file.is_file():
            raise OptionError(f"{file}: no such input file")
    digests = {given: digest_of(file) for given, file in files.items()}
    return {"inputs": digests, "tolerance": how.tolerance}


def _versions(calibration: str | None) -> dict[str, str]:
    """Of the packages, and the digest of the calibration, which may change."""
    versions = {name: version(name) for name in ("ep-nnapi", "onnxruntime", "onnx")}
    if calibration is not None and Path(calibration).is_file():
        versions["calibration"] = digest_of(Path(calibration))
    return versions
