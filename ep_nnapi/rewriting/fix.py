"""Rewrites of a model that are equal and remove rejections, verified before they are saved: `fix`.

Each rewrite that gains nodes for NNAPI or saves clusters is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TypeAlias, Unpack

import onnx
from onnx import ModelProto

from ep_nnapi.diagnostics.check import checked
from ep_nnapi.diagnostics.fixed_model import write_in
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, ProgressCallback, as_files
from ep_nnapi.diagnostics.session_runs import Ranges, feeds_of, open_session, values_that_fit
from ep_nnapi.diagnostics.verdict import Verdict, sentences
from ep_nnapi.graph.onnx_io import EXTERNAL_DATA_THRESHOLD, read_model, save
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.files import write_output
from ep_nnapi.options import values
from ep_nnapi.options.fixed import Fix
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.table import OptionKeywords, Options, parse
from ep_nnapi.preparation.job import Format, Job, Level, Verification
from ep_nnapi.preparation.ort_export import rename_generated, save_onnx
from ep_nnapi.preparation.verify import compare, record
from ep_nnapi.report.report import Report
from ep_nnapi.rewriting.int64 import (
    Interval,
    check_ranges,
    inputs_in_range,
    int64_as_int32,
    int64_inputs,
    observed_ranges,
)
from ep_nnapi.rewriting.rewrites import (
    clips_as_min_and_max,
    expand_definitions,
    int8_as_uint8,
    transposes_in_fewer_axes,
)
from ep_nnapi.sessions.cpu import custom_ops, exact_options

Rewrite: TypeAlias = Callable[[ModelProto, Collection[str]], ModelProto | None]
"""Rewrites the named nodes where it can; returns None if it changes nothing."""

_MAX_ROUNDS = 3
"""Rounds in which a rewrite may also rewrite what it has made: definitions of definitions."""


@dataclass(frozen=True, slots=True)
class RewriteStep:
    """One rewrite that gains nodes or saves clusters, with the reports before and after it."""

    name: str
    before: Report
    after: Report

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        return {"rewrite": self.name, "before": _counts(self.before), "after": _counts(self.after)}


class RewriteSearch:
    """The model so far, its report, and the steps that led to it."""

    model: ModelProto
    report: Report

    def __init__(self, folder: Path, options: Options) -> None:
        self.steps: list[RewriteStep] = []
        self.useless: list[str] = []
        self._folder = folder
        self._options = options

    def start(self, name: str, before: Report, first: ModelProto) -> None:
        """Begins with the optimized model, which is a step if it is better than the original."""
        self.model, self.report = first, self._checked(first)
        if _better(self.report, before):
            self.steps.append(RewriteStep(name, before, self.report))

    def attempt(self, name: str, rewrite: Rewrite) -> None:
        """Applies a rewrite to the rejected nodes, and keeps the result if it is better.

        Nodes of one operator type are rewritten at a time.
        """
        possible = kept = False
        for op_type in self._rejected_types():
            for model, report in self._rounds(rewrite, op_type):
                possible = True
                if _better(report, self.report):
                    self.steps.append(RewriteStep(f"{name} ({op_type})", self.report, report))
                    self.model, self.report, kept = model, report, True
                    break
        if possible and not kept:
            self.useless.append(name)

    def gains(self, rewrite: Rewrite) -> bool:
        """True if a rewrite of rejected nodes of some operator type is better; keeps nothing."""
        return any(
            _better(report, self.report)
            for op_type in self._rejected_types()
            for _, report in self._rounds(rewrite, op_type)
        )

    def _rejected_types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.op_type for r in self.report.rejections))

    def _rounds(self, rewrite: Rewrite, op_type: str) -> Iterator[tuple[ModelProto, Report]]:
        """Yields the rewritten model with its report, then that with its new nodes rewritten too.

        Ends where nothing is left to rewrite, or ONNX Runtime has no kernel for the result.
        """
        model, report = self.model, self.report
        types = {op_type}
        for _ in range(_MAX_ROUNDS):
            names = {r.node for r in report.rejections if r.op_type in types}
            known = {n.op_type for n in model.graph.node}
            rewritten = rewrite(model, names)
            if rewritten is None:
                return
            try:
                model = self.optimized(rewritten)
            except ModelError:
                return
            types |= {n.op_type for n in model.graph.node} - known
            report = self._checked(model)
            yield model, report

    def optimized(self, model: ModelProto) -> ModelProto:
        """Returns the model after ONNX Runtime's basic optimization, as providers see it."""
        given, saved = self._folder / "given.onnx", self._folder / "optimized.onnx"
        save(model, given)
        save_onnx(given, saved, Job(Level.BASIC, Format.ONNX))
        rename_generated(saved)
        optimized = onnx.load(str(saved))
        for node in optimized.graph.node:  # reports call a node without a name by its first output
            node.name = node.name or node.output[0]
        return optimized

    def saved(self) -> Path:
        """Returns the path of the model so far."""
        path = self._folder / "fixed.onnx"
        save(self.model, path)
        return path

    def _checked(self, model: ModelProto) -> Report:
        path = self._folder / "checked.onnx"
        save(model, path)
        return checked(path, self._options, written=True)


def _better(report: Report, than: Report) -> bool:
    """True if fewer nodes are left to the CPU provider, or as many with fewer clusters."""
    left, before = report.nodes - report.taken, than.nodes - than.taken
    return (left, len(report.clusters)) < (before, len(than.clusters))


def _counts(report: Report) -> dict[str, int]:
    left = report.nodes - report.taken
    return {"nodes": report.nodes, "left_to_cpu": left, "clusters": len(report.clusters)}


REWRITES: Mapping[str, Rewrite] = {
    "transposes in fewer axes": transposes_in_fewer_axes,
    "int8 as uint8": int8_as_uint8,
    "Clip as Max and Min": clips_as_min_and_max,
    "operators by their definitions": expand_definitions,
}

NO_RANGES: Ranges = MappingProxyType({})
_SEED = 0
_MASK = (0, 1)
"""The range assumed of an input to see if knowing it gains anything."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Result of `fix`.

    before, after   reports on the model as it was and as it is written
    steps           the rewrites that are in it
    useless         names of rewrites that were possible and gain nothing
    verdict         on the outputs of the rewritten model, against the original on the CPU provider
    unknown_ranges  INT64 inputs whose range, if it were stated, would make NNAPI take more; with
                    the range of the given inputs, None if none are given
    """

    before: Report
    after: Report
    steps: tuple[RewriteStep, ...]
    useless: tuple[str, ...]
    verdict: Verdict | None = None
    unknown_ranges: Mapping[str, Interval | None] = field(default_factory=dict)

    @property
    def written(self) -> bool:
        """True if the model was written: more of it runs on NNAPI, with the same outputs."""
        return bool(self.steps) and (self.verdict is None or not self.verdict.negative)

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        verdict = self.verdict
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "steps": [s.to_json() for s in self.steps],
            "useless": list(self.useless),
            "unknown_ranges": dict(self.unknown_ranges),
            "differences": [] if verdict is None else [d.to_json() for d in verdict.differences],
            "verdict": None if verdict is None else verdict.to_json(),
            "sentences": [] if verdict is None else sentences(verdict),
            "written": self.written,
        }


@checked_arguments
def fix(
    model: ModelSource,
    out: str | Path,
    *,
    inputs: Inputs = (),
    ranges: Ranges = NO_RANGES,
    tolerance: float | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[OptionKeywords],
) -> Fixed:
    """Rewrites `model` to an equal one of which NNAPI takes more, and writes it to `out` (.onnx).

    model      as for `check`; not an .ort file
    inputs     for the comparison with the original, as for `run` (default: random numbers)
    ranges     least and greatest element of INT64 inputs by name, as (0, 1) of a mask; the
               rewritten model is equal for inputs in these ranges
    tolerance  relative to an output's spread (default: by its kind)
    progress   called with the number of rewrites tried and of all
    Sizes of the option `fix` are fixed and shape computations folded by ONNX Runtime. Then each
    rewrite is kept if NNAPI takes more nodes with it, or the same in fewer clusters. The result is
    compared with the original, as `prepare` does, and is not written if it differs or if nothing is
    gained. Raises ModelError and OptionError.
    """
    chosen, target = parse(options), Path(out)
    tolerance = values.tolerance("tolerance", tolerance)
    if target.suffix.lower() != ".onnx" or not target.absolute().parent.is_dir():
        raise OptionError(f"{out}: give the path of an .onnx file in a folder that exists")
    with (
        custom_ops(chosen.custom_ops_library),
        as_files(model, inputs) as (path, files),
        TemporaryDirectory(prefix="ep-nnapi-") as folder,
    ):
        given = _FixInputs(path, files, ranges, Path(folder), chosen)
        found, search = _searched(given, progress or (lambda done, total: None))
        if found.steps:
            recorded = given.folder / "recorded.npz"
            record(path, Verification(given.inputs(), tolerance), chosen.fix, recorded)
            verdict = compare(search.saved(), recorded, given.checked_options)
            found = replace(found, verdict=verdict)
        if found.written:
            _write(search.model, target)
        return found


@dataclass(frozen=True, slots=True)
class _FixInputs:
    """What `fix` was given, as files, and a folder for its own."""

    model: Path
    files: tuple[str, ...]
    ranges: Ranges
    folder: Path
    options: Options

    @property
    def checked_options(self) -> Options:
        """The options for models whose sizes are fixed already."""
        return replace(self.options, fix=())

    def inputs(self) -> tuple[str, ...]:
        """Returns files of inputs within the ranges, for the comparison."""
        if not self.ranges:
            return self.files
        return inputs_in_range(self._feeds(), self.files, self.ranges, self.folder)

    def observed(self) -> dict[str, Interval]:
        """Returns the ranges of the given INT64 inputs."""
        return observed_ranges(self._feeds())

    def _feeds(self) -> tuple[Mapping[str, Array], ...]:
        session = open_session(str(self.model), exact_options())
        return feeds_of(str(self.model), session, self.files, _SEED, self.options.fix).runs

    def int64_as_int32(self, ranges: Ranges) -> Rewrite:
        """Returns the rewrite for these ranges, which reads the ranges of other values."""

        def rewrite(model: ModelProto, names: Collection[str]) -> ModelProto | None:
            every = {name for node in model.graph.node for name in (*node.input, *node.output)}
            if int64_as_int32(model, names, every) is None:
                return None
            path = self.folder / "ranges.onnx"
            save(model, path)
            return int64_as_int32(model, names, values_that_fit(path, ranges))

        return rewrite


def _searched(given: _FixInputs, progress: ProgressCallback) -> tuple[Fixed, RewriteSearch]:
    """Tries all rewrites; returns what is gained, and the search with the model."""
    if contents(given.model):
        raise ModelError(f"{given.model}: it is compiled already; fix the original")
    before = checked(given.model, given.checked_options, written=True)
    proto = _loaded(given.model, given.options.fix)
    check_ranges(proto, given.ranges)
    given.inputs()  # inputs outside of the ranges are refused before the work
    search = RewriteSearch(given.folder, given.checked_options)
    first = search.optimized(proto)
    search.start(
        "sizes fixed, shapes folded" if given.options.fix else "shapes folded", before, first
    )
    rewrites = {**REWRITES, "INT64 as INT32": given.int64_as_int32(given.ranges)}
    for done, (name, rewrite) in enumerate(rewrites.items(), 1):
        search.attempt(name, rewrite)
        progress(done, len(rewrites))
    unknown = [
        name
        for name in int64_inputs(proto)
        if name not in given.ranges
        and search.gains(given.int64_as_int32({**given.ranges, name: _MASK}))
    ]
    observed = given.observed() if unknown and given.files else {}
    steps, useless = tuple(search.steps), tuple(search.useless)
    ranges = {name: observed.get(name) for name in unknown}
    return Fixed(before, search.report, steps, useless, unknown_ranges=ranges), search


def _loaded(path: Path, fix: Fix) -> ModelProto:
    proto = read_model(path)
    if proto is None or not proto.graph.node:
        raise ModelError(
            f"{path}: it cannot be rewritten: it is no .onnx file with nodes; give the one that it "
            "was made of"
        )
    write_in(proto, fix)
    return proto


def _write(model: ModelProto, out: Path) -> None:
    if model.ByteSize() > EXTERNAL_DATA_THRESHOLD:
        save(model, out)
        return
    write_output(out, model.SerializeToString())
