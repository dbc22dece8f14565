"""Rewrites of a model that are equal and remove refusals, verified before they are saved: `fix`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import onnx
from onnx import ModelProto

from ep_nnapi.diagnostics.check import check
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, as_files
from ep_nnapi.diagnostics.verdict import Verdict
from ep_nnapi.diagnostics.verdict_text import sentences
from ep_nnapi.errors import ModelError, OptionError
from ep_nnapi.files import write_atomically
from ep_nnapi.graph.onnx_io import EXTERNAL_DATA_THRESHOLD
from ep_nnapi.options import parse
from ep_nnapi.preparation.fix_shapes import set_shapes
from ep_nnapi.preparation.job import Format, Job, Level, Verification
from ep_nnapi.preparation.ort_export import save_onnx
from ep_nnapi.preparation.ort_names import rename_generated
from ep_nnapi.preparation.verify import compare, record
from ep_nnapi.report import Report
from ep_nnapi.rewriting.clips import clips_as_min_and_max
from ep_nnapi.rewriting.definitions import expand_definitions
from ep_nnapi.rewriting.int8 import int8_as_uint8
from ep_nnapi.rewriting.transposes import transposes_in_fewer_axes
from ep_nnapi.sessions.custom_ops import custom_ops

Rewrite: TypeAlias = Callable[[ModelProto, Collection[str]], ModelProto | None]
"""Rewrites the named nodes where it can; returns None if it changes nothing."""

Progress: TypeAlias = Callable[[int, int], None]

REWRITES: Mapping[str, Rewrite] = {
    "transposes in fewer axes": transposes_in_fewer_axes,
    "int8 as uint8": int8_as_uint8,
    "Clip as Max and Min": clips_as_min_and_max,
    "operators by their definitions": expand_definitions,
}
_MAX_ROUNDS = 3
"""Rounds in which a rewrite may also rewrite what it has made: definitions of definitions."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rewrite that gains nodes or saves clusters, with the reports before and after it."""

    name: str
    before: Report
    after: Report

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        return {"rewrite": self.name, "before": _counts(self.before), "after": _counts(self.after)}


@dataclass(frozen=True, slots=True)
class Fixed:
    """Result of `fix`.

    before, after   reports on the model as it was and as it is written
    steps           the rewrites that are in it
    useless         names of rewrites that were possible and gain nothing
    verdict         on the outputs of the rewritten model, against the original on the CPU provider
    """

    before: Report
    after: Report
    steps: tuple[Step, ...]
    useless: tuple[str, ...]
    verdict: Verdict | None = None

    @property
    def written(self) -> bool:
        """True if the rewritten model is better and equal, and so has been written."""
        return bool(self.steps) and (self.verdict is None or not self.verdict.negative)

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        verdict = self.verdict
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "steps": [s.to_json() for s in self.steps],
            "useless": list(self.useless),
            "differences": [] if verdict is None else [d.to_json() for d in verdict.differences],
            "verdict": None if verdict is None else verdict.to_json(),
            "sentences": [] if verdict is None else sentences(verdict),
            "written": self.written,
        }


def fix(
    model: ModelSource,
    out: str | Path,
    *,
    inputs: Inputs = (),
    tolerance: float | None = None,
    progress: Progress | None = None,
    **options: object,
) -> Fixed:
    """Rewrites `model` to an equal one of which NNAPI takes more, and writes it to `out` (.onnx).

    model      as for `check`; not an .ort file
    inputs     for the comparison with the original, as for `run` (default: random numbers)
    tolerance  relative to an output's spread (default: by its kind)
    progress   called with the number of rewrites tried and of all
    Sizes of the option `fix` are fixed and shape computations folded by ONNX Runtime. Then each
    rewrite is kept if NNAPI takes more nodes with it, or the same in fewer clusters. The result is
    compared with the original, as `prepare` does, and is not written if it differs or if nothing is
    gained. Raises ModelError and OptionError.
    """
    target = Path(out)
    if target.suffix.lower() != ".onnx" or not target.absolute().parent.is_dir():
        raise OptionError(f"{out}: give the path of an .onnx file in a folder that exists")
    sizes = dict(parse(options).fix)
    rest = {name: value for name, value in options.items() if name != "fix"}
    with (
        custom_ops(parse(options).custom_ops_library),
        as_files(model, inputs) as (path, files),
        TemporaryDirectory(prefix="ep-nnapi-") as folder,
    ):
        if contents(path):
            raise ModelError(f"{path}: it is compiled already; fix the original")
        before = check(path, **rest)
        search = _Search(Path(folder), rest)
        first = search.optimized(_loaded(path, sizes))
        search.start("sizes fixed, shapes folded" if sizes else "shapes folded", before, first)
        for done, (name, rewrite) in enumerate(REWRITES.items(), 1):
            search.attempt(name, rewrite)
            if progress is not None:
                progress(done, len(REWRITES))
        found = Fixed(before, search.report, tuple(search.steps), tuple(search.useless))
        if found.steps:
            recorded = Path(folder, "recorded.npz")
            record(path, Verification(files, tolerance), sizes, recorded)
            verdict = compare(search.saved(), recorded, rest)
            found = replace(found, verdict=verdict)
        if found.written:
            _write(search.model, target)
        return found


def _loaded(path: Path, sizes: Mapping[str, tuple[int, ...]]) -> ModelProto:
    try:
        proto = onnx.load(str(path))
    except Exception as error:  # protobuf's exceptions have no common base class
        raise ModelError(f"{path}: it cannot be rewritten: {error}") from None
    if not proto.graph.node:
        raise ModelError(f"{path}: it cannot be rewritten: it is no .onnx file with nodes")
    set_shapes(proto, sizes)
    return proto


class _Search:
    """The model so far, its report, and the steps that led to it."""

    model: ModelProto
    report: Report

    def __init__(self, folder: Path, options: Mapping[str, object]) -> None:
        self.steps: list[Step] = []
        self.useless: list[str] = []
        self._folder = folder
        self._options = options

    def start(self, name: str, before: Report, first: ModelProto) -> None:
        """Begins with the optimized model, which is a step if it is better than the original."""
        self.model, self.report = first, self._checked(first)
        if _better(self.report, before):
            self.steps.append(Step(name, before, self.report))

    def attempt(self, name: str, rewrite: Rewrite) -> None:
        """Applies a rewrite to the refused nodes, and keeps the result if it is better.

        Nodes of one operator type are rewritten at a time.
        """
        possible = False
        for op_type in dict.fromkeys(r.op_type for r in self.report.rejections):
            model, report = self.model, self.report
            types = {op_type}
            for _ in range(_MAX_ROUNDS):
                names = {r.node for r in report.rejections if r.op_type in types}
                known = {n.op_type for n in model.graph.node}
                rewritten = rewrite(model, names)
                if rewritten is None:
                    break
                possible = True
                try:
                    model = self.optimized(rewritten)
                except ModelError:  # ONNX Runtime has no kernel for what it was rewritten to
                    break
                types |= {n.op_type for n in model.graph.node} - known
                report = self._checked(model)
                if _better(report, self.report):
                    self.steps.append(Step(f"{name} ({op_type})", self.report, report))
                    self.model, self.report = model, report
                    break
        if possible and not any(s.name.startswith(f"{name} (") for s in self.steps):
            self.useless.append(name)

    def optimized(self, model: ModelProto) -> ModelProto:
        """Returns the model after ONNX Runtime's basic optimization, as providers see it."""
        given, saved = self._folder / "given.onnx", self._folder / "optimized.onnx"
        _save(model, given)
        save_onnx(given, saved, Job(Level.BASIC, Format.ONNX))
        rename_generated(saved)
        optimized = onnx.load(str(saved))
        for node in optimized.graph.node:  # reports call a node without a name by its first output
            node.name = node.name or node.output[0]
        return optimized

    def saved(self) -> Path:
        """Returns the path of the model so far."""
        path = self._folder / "fixed.onnx"
        _save(self.model, path)
        return path

    def _checked(self, model: ModelProto) -> Report:
        path = self._folder / "checked.onnx"
        _save(model, path)
        return check(path, **self._options)


def _save(model: ModelProto, path: Path) -> None:
    large = model.ByteSize() > EXTERNAL_DATA_THRESHOLD
    onnx.save_model(model, str(path), save_as_external_data=large, location=f"{path.stem}.weights")


def _write(model: ModelProto, out: Path) -> None:
    if model.ByteSize() > EXTERNAL_DATA_THRESHOLD:
        _save(model, out)
        return
    try:
        write_atomically(out, [model.SerializeToString()])
    except OSError as error:
        raise OptionError(f"{out} cannot be written: {error.strerror}") from None


def _better(report: Report, than: Report) -> bool:
    """True if fewer nodes are left to the CPU provider, or as many with fewer clusters."""
    left, before = report.nodes - report.taken, than.nodes - than.taken
    return (left, len(report.clusters)) < (before, len(than.clusters))


def _counts(report: Report) -> dict[str, int]:
    left = report.nodes - report.taken
    return {"nodes": report.nodes, "left_to_cpu": left, "clusters": len(report.clusters)}
