"""Candidates of tuning: provider, level and options of a session, their trial, and the choice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import onnxruntime

from ep_nnapi.diagnostics.compare import cluster_errors
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.diagnostics.run_and_compare import compared
from ep_nnapi.diagnostics.session_runs import open_session, outputs_of
from ep_nnapi.diagnostics.verdict import Runs, Verdict
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.options.settings import FILE_OPTIONS, Chosen, Settings
from ep_nnapi.options.table import HOST, LITERT, parse, to_strings
from ep_nnapi.options.target import NnapiFlag, flag_names
from ep_nnapi.options.values import Partitioning
from ep_nnapi.ort.session import SESSION_LEVELS
from ep_nnapi.preparation.job import Format, Job, Level
from ep_nnapi.preparation.ort_export import save_onnx
from ep_nnapi.provider.devices import heeds_float16, tunable_devices
from ep_nnapi.provider.provider import Provider
from ep_nnapi.report.report import Report
from ep_nnapi.sessions.cpu import exact_options

if TYPE_CHECKING:
    from ep_nnapi.tuning.search import Timing

NNAPI_AWARE = "nnapi-aware"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run a model.

    level    of the saved model, as for `prepare`
    options  provider options; with the CPU at most `intra_op_num_threads`
    changes  short names of what differs from the first candidate of its provider and device
    """

    provider: Chosen
    level: str
    options: Mapping[str, object] = field(default_factory=dict)
    changes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name for tables, unique among the candidates of one run."""
        if self.provider is Chosen.CPU:
            return ", ".join((f"CPU {self.level}", *self.changes))
        return ", ".join((f"NNAPI {self.options['device']}", self.level, *self.changes))

    @property
    def on_cpu(self) -> bool:
        """True if the provider is off."""
        return self.provider is Chosen.CPU

    def settings(self, measured: Mapping[str, object]) -> Settings:
        """Returns its settings; options that name files are left to the caller."""
        options = to_strings(parse(self.options))
        kept = {name: value for name, value in options.items() if name not in FILE_OPTIONS}
        return Settings(self.provider, self.level, kept, measured)


def on_the_cpu(given: Mapping[str, object]) -> Iterator[Candidate]:
    """Yields the candidates with the provider off: extended, all, and all on one thread.

    If the given options have a number of threads, only extended and all, with that number.
    """
    threads = {n: v for n, v in given.items() if n == "intra_op_num_threads"}
    yield Candidate(Chosen.CPU, "extended", threads)
    yield Candidate(Chosen.CPU, "all", threads)
    if not threads and (os.cpu_count() or 1) > 1:
        yield Candidate(Chosen.CPU, "all", {"intra_op_num_threads": 1}, ("1 thread",))


def on_devices(given: Mapping[str, object]) -> Iterator[Candidate]:
    """Yields the first candidate of each device, or of the device that the options name."""
    for name in tunable_devices(parse(given)):
        yield Candidate(Chosen.NNAPI, NNAPI_AWARE, {**given, "device": name})


def variants(first: Candidate) -> Iterator[Candidate]:
    """Yields candidates that differ from the first one of a device in one respect.

    What the first one's options set is not varied.
    """
    given = first.options
    for level in ("basic", "extended"):
        yield replace(first, level=level)
    if "partitioning" not in given:
        yield _with(first, "worth_it", partitioning=str(Partitioning.WORTH_IT))
    chosen = parse(given)
    if "flags" not in given:
        halves = [NnapiFlag.USE_FP16] if heeds_float16(chosen) else []
        for flag in (*halves, NnapiFlag.USE_NCHW):
            yield _with(first, flag_names(flag), flags=flag_names(flag))
    own_threads = chosen.runtime in (HOST, LITERT) and chosen.device != REFERENCE_DEVICE
    if own_threads and "intra_op_num_threads" not in given and (os.cpu_count() or 1) > 1:
        yield _with(first, "1 thread", intra_op_num_threads=1)


def combined(first: Candidate, better: list[Candidate]) -> Candidate:
    """Returns the candidate with the changes of several; of two levels or flags, the earlier."""
    result = first
    for candidate in better:
        new = {n: v for n, v in candidate.options.items() if first.options.get(n) != v}
        if candidate.level != first.level and result.level == first.level:
            result = replace(result, level=candidate.level)
        elif new and not new.keys() & (result.options.keys() - first.options.keys()):
            options, changes = {**result.options, **new}, (*result.changes, *candidate.changes)
            result = replace(result, options=options, changes=changes)
    return result


def without_nodes(candidate: Candidate, names: tuple[str, ...]) -> Candidate:
    """Returns the candidate that leaves these nodes to the CPU too."""
    before = parse(candidate.options).exclude
    count = f"{len(names)} node{'s' if len(names) > 1 else ''} left to the CPU"
    return _with(candidate, count, exclude=(*before, *names))


def _with(first: Candidate, change: str, **options: object) -> Candidate:
    merged = {**first.options, **options}
    return replace(first, options=merged, changes=(*first.changes, change))


_FASTER, _AS_FAST = 1.02, 0.97
"""Least gain that counts, as sessions alike differ by 2 %; and as none lost where more is won."""
_LESS_CPU = 0.9
"""Largest ratio of processor times that counts as less: smaller differences are within noise."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and what is known of it.

    timing   None if it could not be measured
    verdict  on its outputs; None with the provider off, which computes the expected ones
    report   device placement; None with the provider off
    within   True if its outputs are within the tolerance
    problem  why it cannot be chosen, if it cannot
    """

    candidate: Candidate
    timing: Timing | None = None
    verdict: Verdict | None = None
    report: Report | None = None
    within: bool = True
    problem: str = ""

    @property
    def eligible(self) -> bool:
        """True if it may be chosen."""
        return self.timing is not None and self.within and not self.problem

    @property
    def seconds(self) -> float:
        """Median seconds per run; infinite without a timing."""
        return float("inf") if self.timing is None else self.timing.seconds

    def apart(self, other: Measured) -> bool:
        """True if both are measured and their confidence intervals do not overlap."""
        return bool(self.timing and other.timing and self.timing.apart(other.timing))

    def gain_over(self, cpu: Measured) -> tuple[float, float]:
        """Returns the interval of the CPU provider's time over this one's; both are measured."""
        assert self.timing is not None
        assert cpu.timing is not None
        return self.timing.gain_over(cpu.timing)

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        report = self.report
        return {
            "name": self.candidate.name,
            "provider": str(self.candidate.provider),
            "optimization_level": self.candidate.level,
            "options": dict(self.candidate.settings({}).options),
            "timing": None if self.timing is None else asdict(self.timing),
            "nodes": None if report is None else report.nodes,
            "taken": None if report is None else report.taken,
            "clusters": None if report is None else len(report.clusters),
            "largest_difference": None if self.verdict is None else self.verdict.worst,
            "within_tolerance": self.within,
            "problem": self.problem or None,
        }


@dataclass(frozen=True, slots=True)
class Winner:
    """The recommended candidate, and the reason in one sentence."""

    best: Measured
    reason: str


def choose(found: Sequence[Measured]) -> Winner:
    """Returns the choice among candidates, of which at least one has the provider off.

    NNAPI is taken if it is faster than the CPU provider beyond doubt, then the candidate with the
    fewest changes of those that may be the fastest; else if it is as fast beyond doubt and needs
    clearly less processor time.
    """
    eligible = [m for m in found if m.eligible]
    cpu = min((m for m in eligible if m.candidate.on_cpu), key=lambda m: m.seconds)
    nnapi = [m for m in eligible if not m.candidate.on_cpu]
    if not nnapi:
        left = next(m for m in found if not m.candidate.on_cpu)
        why = f"{left.candidate.name}: {left.problem}"
        return Winner(cpu, f"No candidate with NNAPI can be taken; {why}.")
    faster = [m for m in nnapi if m.gain_over(cpu)[0] >= _FASTER]
    if faster:
        fastest = min(faster, key=lambda m: m.seconds)
        close = [m for m in faster if not m.apart(fastest)]
        best = min(close, key=lambda m: (len(m.candidate.changes), m.seconds))
        return Winner(best, f"{_compared(best, cpu)}: {cpu.seconds / best.seconds:.2g} x as fast.")
    as_fast = [m for m in nnapi if m.gain_over(cpu)[0] >= _AS_FAST]
    relieving = [m for m in as_fast if _cpu_seconds(m) < _LESS_CPU * _cpu_seconds(cpu)]
    if relieving:
        best = min(relieving, key=_cpu_seconds)
        less = f"{_cpu_seconds(best) * 1e3:.3g} instead of {_cpu_seconds(cpu) * 1e3:.3g} ms"
        return Winner(best, f"{_compared(best, cpu)}: as fast, with {less} of processor time.")
    rival = min(nnapi, key=lambda m: m.seconds)
    if rival.gain_over(cpu)[1] >= 1:
        return Winner(cpu, f"{_compared(rival, cpu)}: NNAPI is not faster beyond doubt.")
    slower = f"{rival.seconds / cpu.seconds:.2g} x as slow"
    return Winner(cpu, f"{_compared(rival, cpu)}: NNAPI loses, {slower}.")


def _cpu_seconds(found: Measured) -> float:
    return float("inf") if found.timing is None else found.timing.cpu_seconds


def _compared(nnapi: Measured, cpu: Measured) -> str:
    return (
        f"{nnapi.candidate.name} takes {nnapi.seconds * 1e3:.3g} ms, {cpu.candidate.name} "
        f"{cpu.seconds * 1e3:.3g} ms"
    )


NodeNames: TypeAlias = tuple[str, ...]
"""Names of nodes that are taken or left together: one node, or the members of a QDQ group."""


def nodes_to_leave(subject: Subject, candidate: Candidate) -> tuple[str, ...]:
    """Returns names of nodes without which the candidate is within the tolerance.

    The nodes with the largest errors, each by itself and from the CPU provider's values, come
    first. No node of the result can be taken as well without exceeding the tolerance.
    """
    single = replace(parse(candidate.options), max_cluster_nodes=1, min_cluster_nodes=1)
    errors = cluster_errors(subject.model, subject.accuracy, single, subject.tolerance)
    ranked = sorted(errors, key=lambda c: -c.verdict.worst)

    def within(groups: Sequence[NodeNames]) -> bool:
        names = tuple(name for group in groups for name in group)
        tried = without_nodes(candidate, names)
        got = subject.open(tried).outputs(subject.accuracy)
        return subject.within(subject.judged(got, tried.options))

    groups = fewest([c.report.nodes for c in ranked], within)
    return tuple(name for group in groups for name in group)


def fewest(
    ranked: Sequence[NodeNames], within: Callable[[Sequence[NodeNames]], bool]
) -> list[NodeNames]:
    """Returns a set of groups with `within` true, from which no group can be dropped.

    ranked   all groups, the most likely first; `within` is true for all of them
    Bisects for the shortest beginning of the ranking that is enough, then drops what it does not
    need.
    """
    few, enough = 0, len(ranked)  # not enough, and enough
    while enough - few > 1:
        middle = (few + enough) // 2
        if within(ranked[:middle]):
            enough = middle
        else:
            few = middle
    left = list(ranked[:enough])
    for group in reversed(ranked[: enough - 1]):  # the last one is needed, as bisection found
        rest = [g for g in left if g != group]
        if within(rest):
            left = rest
    return left


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to tune, with its inputs and what the CPU provider computes from them.

    feeds      inputs to measure with, all of which are run in turn
    accuracy   inputs to judge the accuracy with
    want       the CPU provider's outputs for these
    tolerance  relative to an output's spread; None: by its kind
    folder     for models saved at a level
    """

    model: str | bytes
    feeds: Feeds
    accuracy: Feeds
    want: Runs
    tolerance: float | None
    folder: Path

    def judged(self, got: Sequence[Mapping[str, Array]], options: Mapping[str, object]) -> Verdict:
        """Returns the verdict on a candidate's outputs."""
        half = parse(options).half
        outputs = (got, self.want)
        return compared(self.model, self.accuracy.runs, outputs, self.tolerance, half=half)

    def within(self, verdict: Verdict) -> bool:
        """True if outputs are within the tolerance.

        The default tolerances also allow what is no less accurate than the CPU provider.
        """
        if self.tolerance is None:
            return not verdict.negative
        return not any(d.exceeds for d in verdict.differences)

    def open(self, candidate: Candidate) -> Session:
        """Returns a session of the candidate; raises ModelError, OptionError and NnapiError."""
        options = exact_options()
        threads = parse(candidate.options).intra_op_num_threads
        options.graph_optimization_level = SESSION_LEVELS[candidate.level]
        if candidate.on_cpu:
            options.intra_op_num_threads = threads or 0
            return Session(open_session(self.model, options))
        model = self.model
        if candidate.level == "extended":  # fused before NNAPI sees the nodes, as `prepare` saves
            saved = self.folder / "extended.onnx"
            if not saved.exists():
                save_onnx(model, saved, Job(Level.EXTENDED, Format.ONNX))
            model = str(saved)
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        provider = Provider(parse(candidate.options))
        return Session(open_session(model, options, provider), provider)


@dataclass(frozen=True, slots=True)
class Session:
    """A stock session, with its provider if NNAPI is on."""

    session: onnxruntime.InferenceSession
    provider: Provider | None = None

    @property
    def report(self) -> Report | None:
        """Device placement; None with the provider off."""
        return None if self.provider is None else self.provider.report

    def outputs(self, feeds: Feeds) -> list[Mapping[str, Array]]:
        """Returns the outputs of each run."""
        return [outputs_of(self.session, fed, self.provider) for fed in feeds.runs]

    def run(self, feeds: Feeds) -> None:
        """Runs all inputs once."""
        for fed in feeds.runs:
            self.session.run(None, dict(fed))
