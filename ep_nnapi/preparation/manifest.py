"""What was prepared, from what and how: manifest.json, and which of it is still up to date."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ep_nnapi.errors import OptionError, printable
from ep_nnapi.files import digest_of, write_text
from ep_nnapi.preparation.required_operators import merged

_VERSION = 2


class Status(StrEnum):
    """What became of one model."""

    PREPARED = "prepared"
    UP_TO_DATE = "up to date"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides, with the model's own bytes, what comes out: the key of a manifest's entry.

    job           `Job.to_json`
    verification  what it was compared on, files with their digests; None where it was not
    versions      of the packages that made it, and a calibration's digest where one was given
    """

    job: Mapping[str, object]
    verification: Mapping[str, object] | None
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One model's entry.

    model        relative to what was given
    output       relative to the manifest's folder, as are the names in `outputs`
    sources      digests of the model's files, by path relative to its folder
    outputs      digests of what was written; empty when it failed
    report       `Report.to_json`
    differences  from the original, one for each output
    operators    lines of required_operators.config
    error        why it failed, in one sentence
    unusable     whether it failed for what the model or an option is, not for what came out
    """

    model: str
    output: str
    recipe: Recipe
    sources: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    report: Mapping[str, Any] | None = None
    differences: Sequence[Mapping[str, Any]] = ()
    operators: Sequence[str] = ()
    error: str | None = None
    unusable: bool = False
    skipped: bool = False

    @property
    def status(self) -> Status:
        """What became of it."""
        if self.error is not None:
            return Status.FAILED
        return Status.UP_TO_DATE if self.skipped else Status.PREPARED

    @property
    def worst(self) -> float | None:
        """The largest difference relative to a spread; None where there is none."""
        apart = [d["relative"] for d in self.differences if d["relative"] is not None]
        return max(apart, default=None)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        data = asdict(self)
        del data["skipped"]
        return {"status": str(self.status), **data}


def up_to_date(
    entry: Prepared, model: Path, recipe: Recipe, root: Path, deadline: float | None = None
) -> bool:
    """Whether what `entry` says was written from the very model as `recipe` says, and is there.

    Raises TimeoutError past `deadline`, as `files.digest_of`.
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
    """The entries of a manifest by output; none where it is missing or not ours to read.

    Raises OptionError where it cannot be opened: then it could not be written either.
    """
    try:
        data = json.loads(path.read_text())
        if data["format"] != _VERSION:
            return {}
        return {e["output"]: _entry(e) for e in data["models"]}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # of another version, or not ours to read: everything is prepared again
        return {}
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}") from None


def _entry(data: Mapping[str, Any]) -> Prepared:
    """An entry as it was written; raises as `read` catches it for what was written by others."""
    rest = {k: v for k, v in data.items() if k not in ("status", "recipe")}
    entry = Prepared(recipe=Recipe(**data["recipe"]), **rest)
    digests = {**entry.sources, **entry.outputs}
    texts = (entry.model, entry.output, *digests, *digests.values(), *entry.operators)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("names, digests and operators are text")
    _operators_name(entry.recipe.job)
    merged(entry.operators)
    return entry


def write(path: Path, entries: Iterable[Prepared]) -> None:
    """The manifest, whole or not at all."""
    models = [e.to_json() for e in sorted(entries, key=lambda e: e.output)]
    write_text(path, json.dumps({"format": _VERSION, "models": models}, indent=1) + "\n")


def write_operators(
    folder: Path, prefix: str, entries: Iterable[Prepared], before: Iterable[Prepared]
) -> None:
    """What a build of ONNX Runtime needs for all .ort files: ONNX Runtime's own kind of file.

    Files that were about the entries `before`, and are about none any more, go.
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
        write_text(folder / f"{prefix}{name}", "\n".join([*head, *lines]) + "\n")


def _operators_name(job: Mapping[str, object]) -> str:
    types = "_and_types" if job["enable_type_reduction"] else ""
    style = ".with_runtime_opt" if job["optimization_style"] == "runtime" else ""
    return f"required_operators{types}{style}.config"
