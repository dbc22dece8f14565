"""Manifest of prepared models (manifest.json): entries, reading, writing, up-to-date checks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from ep_nnapi.diagnostics.output_traits import OutputKind
from ep_nnapi.installed import onnxruntime_version
from ep_nnapi.nnapi.errors import OptionError, printable
from ep_nnapi.nnapi.files import digest_of, read_regular, write_output
from ep_nnapi.preparation.job import Format, Job

TypeFacts: TypeAlias = dict[str, object] | list[object] | None


def merged(lines: Iterable[str]) -> list[str]:
    """Returns one line for each domain and opset, with the union of operators and their types.

    lines  as ONNX Runtime writes them for one model: `domain;opset;Operator{types},Operator` with
           the types as JSON

    >>> merged(['ai.onnx;13;Gemm{"inputs": {"0": ["float"]}}', "ai.onnx;13;Relu,Gemm"])
    ['ai.onnx;13;Gemm{"inputs": {"0": ["float"]}},Relu']
    """
    found: dict[tuple[str, int], dict[str, TypeFacts]] = {}
    for line in lines:
        domain, opset, rest = line.split(";", 2)
        operators = found.setdefault((domain, int(opset)), {})
        for name, types in _operators(rest):
            operators[name] = _union(operators.get(name), types)
    return [
        f"{domain};{opset};" + ",".join(f"{n}{_text(t)}" for n, t in sorted(operators.items()))
        for (domain, opset), operators in sorted(found.items())
    ]


def _operators(text: str) -> Iterator[tuple[str, TypeFacts]]:
    """Yields the names and types of the operators in `Operator{types},Operator`."""
    decoder = json.JSONDecoder()
    while text:
        name, types = text, None
        end = min((i for i in (text.find(","), text.find("{")) if i >= 0), default=len(text))
        name, rest = text[:end], text[end:]
        if rest.startswith("{"):
            types, length = decoder.raw_decode(rest)
            rest = rest[length:]
        yield name, types
        text = rest.removeprefix(",")


def _union(a: object, b: object) -> TypeFacts:
    """Returns the union of two JSON values, recursively."""
    if isinstance(a, dict) and isinstance(b, dict):
        return {k: _union(a.get(k), b.get(k)) for k in sorted(a.keys() | b.keys())}
    if isinstance(a, list) and isinstance(b, list):
        return [*a, *(x for x in b if x not in a)]
    return a if b is None else b  # type: ignore[return-value]


def _text(types: TypeFacts) -> str:
    return "" if types is None else json.dumps(types)


_VERSION = 2


class Status(StrEnum):
    """Outcome for one model."""

    PREPARED = "prepared"
    UP_TO_DATE = "up to date"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything besides the model's bytes that determines the output.

    job           `Job.to_json`
    verification  tolerance, and input files with their digests; None if nothing was compared
    versions      package versions, and the digest of a calibration file if one was given
    """

    job: Mapping[str, object]
    verification: Mapping[str, object] | None
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Manifest entry of one model.

    model        path relative to the given directory
    output       path relative to the manifest's folder, as are the names in `outputs`
    sources      digests of the model's files, by path relative to its folder
    outputs      digests of the written files; empty on failure
    report       `Report.to_json`
    level        optimization level of what was written: basic in place of nnapi-aware where ONNX
                 Runtime's own format, by way of which it is saved, lacks a type of the model's
    compiled     fields of `CompiledPart`, for format context: what is compiled ahead of time
    differences  from the original, one for each model output
    operators    lines of required_operators.config
    error        the reason for a failure, in one sentence
    unusable     True if the cause is the model or an option, not the comparison of the result
    skipped      True if it was up to date
    """

    model: str
    output: str
    recipe: CacheKey
    sources: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    report: Mapping[str, Any] | None = None
    level: str | None = None
    differences: Sequence[Mapping[str, Any]] = ()
    operators: Sequence[str] = ()
    compiled: Mapping[str, int] | None = None
    error: str | None = None
    unusable: bool = False
    skipped: bool = False

    @property
    def status(self) -> Status:
        """The outcome."""
        if self.error is not None:
            return Status.FAILED
        return Status.UP_TO_DATE if self.skipped else Status.PREPARED

    @property
    def worst(self) -> float | None:
        """The largest finite difference relative to an output's spread; None if there is none."""
        apart = (d["relative"] for d in self.differences if d.get("kind") != OutputKind.RANDOM)
        return max((a for a in apart if a is not None), default=None)

    @property
    def random(self) -> tuple[str, ...]:
        """Outputs made of random numbers, which cannot be compared."""
        return tuple(d["output"] for d in self.differences if d.get("kind") == OutputKind.RANDOM)

    def to_json(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        data = asdict(self)
        del data["skipped"]
        return {"status": str(self.status), **data}


def versions_of(job: Job) -> dict[str, str]:
    """Returns the packages' versions, with a digest to detect a changed calibration file.

    Raises OptionError if the job needs an extra that is not installed.
    """
    names = ["ep-nnapi", "onnx"]
    if job.format is Format.TFLITE:
        from ep_nnapi.litert import package  # slow to import

        package.require_installed()
        names.append(package.PACKAGE)
    versions = {name: version(name) for name in names}
    versions["onnxruntime"] = onnxruntime_version()
    calibration = job.options.calibration
    if calibration is not None and Path(calibration).is_file():
        versions["calibration"] = digest_of(Path(calibration))
    return versions


def up_to_date(
    entry: Prepared, model: Path, recipe: CacheKey, root: Path, deadline: float | None = None
) -> bool:
    """Returns True if `entry` succeeded with `recipe` and the digests of all its files match.

    Checks the model's files and the outputs. Raises TimeoutError past `deadline`, as
    `files.digest_of`.
    """
    return (
        entry.error is None
        and entry.recipe == recipe
        and bool(entry.outputs)
        and all(
            _has(model.parent / name, digest, deadline) for name, digest in entry.sources.items()
        )
        and model.name in entry.sources
        and all(_has(root / name, digest, deadline) for name, digest in entry.outputs.items())
    )


def _has(path: Path, digest: str, deadline: float | None) -> bool:
    return path.is_file() and digest_of(path, deadline) == digest


def read(path: Path) -> dict[str, Prepared]:
    """Returns the entries of a manifest by output; none if it is missing, invalid or outdated.

    Raises OptionError if it exists and cannot be opened, since writing would fail too.
    """
    try:
        data = json.loads(read_regular(path))
        if data["format"] != _VERSION:
            return {}
        return {e["output"]: _entry(e) for e in data["models"]}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # not a valid manifest: prepare everything again
        return {}
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}") from None


def _entry(data: Mapping[str, Any]) -> Prepared:
    """Returns an entry from its JSON data; for invalid data raises what `read` catches."""
    rest = {k: v for k, v in data.items() if k not in ("status", "recipe")}
    entry = Prepared(recipe=CacheKey(**data["recipe"]), **rest)
    digests = {**entry.sources, **entry.outputs}
    texts = (entry.model, entry.output, *digests, *digests.values(), *entry.operators)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("names, digests and operators are text")
    _operators_name(entry.recipe.job)
    merged(entry.operators)
    return entry


def write(path: Path, entries: Iterable[Prepared]) -> None:
    """Writes the manifest atomically."""
    models = [e.to_json() for e in sorted(entries, key=lambda e: e.output)]
    write_output(path, json.dumps({"format": _VERSION, "models": models}, indent=1) + "\n")


def write_operators(
    folder: Path, prefix: str, entries: Iterable[Prepared], before: Iterable[Prepared]
) -> None:
    """Writes the required_operators*.config files for reduced builds of ONNX Runtime.

    Each lists the operators of the .ort files prepared in one way. Deletes the files that the
    entries `before` needed and the current `entries` do not.
    """
    by_name: dict[str, list[Prepared]] = {}
    for e in sorted(entries, key=lambda e: e.output):
        if e.error is None and e.operators:
            by_name.setdefault(_operators_name(e.recipe.job), []).append(e)
    for old in {_operators_name(e.recipe.job) for e in before if e.operators} - by_name.keys():
        (folder / f"{prefix}{old}").unlink(missing_ok=True)
    for name, found in by_name.items():
        head = ["# Generated from model/s:", *(f"# - {printable(e.output)}" for e in found)]
        lines = merged([line for e in found for line in e.operators])
        write_output(folder / f"{prefix}{name}", "\n".join([*head, *lines]) + "\n")


def _operators_name(job: Mapping[str, object]) -> str:
    types = "_and_types" if job["enable_type_reduction"] else ""
    style = ".with_runtime_opt" if job["optimization_style"] == "runtime" else ""
    return f"required_operators{types}{style}.config"
