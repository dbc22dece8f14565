"""Comparison of NNAPI with the CPU provider by output, cluster and node: `compare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import TypeAlias, Unpack

from ep_nnapi.diagnostics.check import check_excluded
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, ProgressCallback, paths_of
from ep_nnapi.diagnostics.output_traits import known_differences, note_of
from ep_nnapi.diagnostics.run_and_compare import compared
from ep_nnapi.diagnostics.session_runs import (
    feeds_of,
    open_session,
    outputs_of,
    run_on_nnapi,
    source,
)
from ep_nnapi.diagnostics.verdict import ErrorMeasures, LessAccurate, Runs, Verdict, by_output
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.errors import ModelError, OptionError, RuntimeFailure
from ep_nnapi.options import values
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.table import HOST, OptionKeywords, Options, parse
from ep_nnapi.options.values import Fallback
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from ep_nnapi.provider.devices import devices
from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from ep_nnapi.provider.observed_cluster import Observation, ObservedCluster, Observer
from ep_nnapi.provider.planner import PlannedCluster
from ep_nnapi.provider.provider import Provider
from ep_nnapi.provider.receipt import fallbacks_of
from ep_nnapi.report.report import ClusterReport, FallbackRuns, Report
from ep_nnapi.sessions.cpu import exact_options

Advance: TypeAlias = Callable[[], None]
"""Called after each run of a cluster."""


@dataclass(frozen=True, slots=True)
class ClusterErrors:
    """Errors of one cluster's outputs, computed from the CPU provider's values.

    measures  by output, over all runs
    verdict   of the run with the largest difference, or of the first one in which NNAPI is less
              accurate
    failure   the device's failure, if it failed in a run
    """

    report: ClusterReport
    measures: Mapping[str, ErrorMeasures]
    verdict: Verdict
    failure: RuntimeFailure | None = None

    @property
    def negative(self) -> bool:
        """True if the device failed, or is beyond the tolerance and less accurate than the CPU."""
        return self.failure is not None or self.verdict.negative

    @property
    def whole(self) -> ErrorMeasures:
        """The measures over all outputs."""
        return ErrorMeasures.over(self.measures.values())

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        return {
            "nodes": list(self.report.nodes),
            "device": self.report.device,
            "outputs": [
                {"output": name, **measures.to_json()} for name, measures in self.measures.items()
            ],
            "differences": [d.to_json() for d in self.verdict.differences],
            "verdict": self.verdict.to_json(),
            "failure": None if self.failure is None else str(self.failure),
            "beyond_tolerance": self.negative,
        }


@dataclass(frozen=True, slots=True)
class _Observed:
    """Collects the errors of clusters, in the order of their first runs."""

    half: bool
    tolerance: float | None
    advance: Advance | None
    clusters: dict[tuple[str, ...], ClusterErrors] = field(default_factory=dict)

    def __call__(self, run: Observation) -> None:
        """Adds the errors of one run; keeps none of its arrays."""
        if self.advance is not None:
            self.advance()
        before = self.clusters.get(run.report.nodes)
        found = self._errors(run)
        self.clusters[run.report.nodes] = found if before is None else _merged(before, found)

    def _errors(self, run: Observation) -> ClusterErrors:
        if run.nnapi is None:
            return ClusterErrors(run.report, {}, Verdict(), run.failure)
        outputs = [run.nnapi], [run.cpu]
        verdict = compared(str(run.model), [run.inputs], outputs, self.tolerance, half=self.half)
        if verdict.less_accurate is not LessAccurate.NONE:
            values = (*run.inputs.values(), *run.cpu.values())
            known = known_differences(run.report.op_types, values, half=self.half)
            verdict = replace(verdict, note=" ".join(filter(None, (verdict.note, note_of(known)))))
        return ClusterErrors(run.report, _measures(*outputs), verdict)


def _merged(before: ClusterErrors, found: ClusterErrors) -> ClusterErrors:
    names = dict.fromkeys((*before.measures, *found.measures))
    parts = (before.measures, found.measures)
    return ClusterErrors(
        before.report,
        {n: ErrorMeasures.over(p[n] for p in parts if n in p) for n in names},
        max(before.verdict, found.verdict, key=_severity),
        before.failure or found.failure,
    )


def _severity(verdict: Verdict) -> tuple[bool, bool, float]:
    return verdict.negative, verdict.less_accurate is not LessAccurate.NONE, verdict.worst


class ObservingProvider(Provider):
    """A provider whose clusters run on the CPU provider too, and whose runs are observed."""

    def __init__(self, options: Options, observe: Observer) -> None:
        """Creates a provider with these options, except for the fallback."""
        # fallback = cpu: clusters have their ONNX nodes for the CPU provider
        super().__init__(replace(options, fallback=Fallback.CPU, receipt=None))
        self._observe = observe

    def plan(self, graph: Graph) -> tuple[PlannedCluster | ObservedCluster, ...]:
        """Returns the clusters of `graph`, observed."""
        return tuple(
            cluster
            if not isinstance(cluster, CompiledCluster | DynamicCluster)
            else ObservedCluster(cluster, self._observe)
            for cluster in super().plan(graph)
        )


def cluster_errors(
    model: str | bytes,
    feeds: Feeds,
    options: Options,
    tolerance: float | None = None,
    advance: Advance | None = None,
) -> list[ClusterErrors]:
    """Runs the model with the CPU provider's values; returns each cluster's errors in run order.

    Clusters that no run reaches (in a branch not taken) are absent.
    """
    observed = _Observed(options.half, tolerance, advance)
    provider = ObservingProvider(options, observed)
    session = open_session(source(model), exact_options(), provider)
    for fed in feeds.runs:
        outputs_of(session, fed, provider)
    return list(observed.clusters.values())


def errors_of_parts(
    model: str | bytes,
    feeds: Feeds,
    options: Options,
    nodes: Sequence[tuple[str, str]],
    size: int,
    tolerance: float | None = None,
) -> list[ClusterErrors]:
    """Returns the errors of the named nodes in clusters of at most `size`; others run on the CPU.

    nodes   all nodes of the model that NNAPI takes: name, and operator type if it is to be taken,
            else ""
    """
    types = {op_type for _, op_type in nodes}
    left = [name for name, op_type in nodes if not op_type and name not in types]
    parts = replace(
        options,
        partitioning=options.partitioning.whole,
        exclude=(*options.exclude, *left),
        max_cluster_nodes=size,
        min_cluster_nodes=1,
    )
    wanted = {name for name, op_type in nodes if op_type}
    found = cluster_errors(model, feeds, parts, tolerance)
    return [c for c in found if wanted.issuperset(c.report.nodes)]


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first operation that is wrong, by itself and from the CPU provider's values.

    errors    of the smallest part of the cluster that is beyond the tolerance: one node, or several
              if no single one of them is
    elsewhere  its errors on another device of the host; None if no other one takes it
    """

    cluster: int
    errors: ClusterErrors
    elsewhere: ClusterErrors | None

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        other = self.elsewhere
        return {
            "cluster": self.cluster,
            "op_types": list(self.errors.report.op_types),
            **self.errors.to_json(),
            "on_another_device": None if other is None else other.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of `compare`.

    seed      of the random inputs; None if inputs were given
    verdict   on the model's outputs: differences, and which provider is less accurate
    measures  errors of each output, over all runs
    clusters  errors of each cluster by itself, by its number in the report; those that ran
    failures  the last device failures in runs, after which a fallback computed the outputs
    fallbacks  what computed runs of clusters in place of their devices, and why
    culprit   the first operation that is wrong in the first cluster that is; None if none is
    nodes     errors of each node by itself, by its name, if requested
    """

    report: Report
    seed: int | None
    verdict: Verdict
    measures: Mapping[str, ErrorMeasures]
    clusters: Mapping[int, ClusterErrors]
    failures: tuple[RuntimeFailure, ...] = ()
    fallbacks: tuple[FallbackRuns, ...] = ()
    culprit: Culprit | None = None
    nodes: Mapping[str, ClusterErrors] = field(default_factory=dict)

    @property
    def node_errors(self) -> dict[str, float]:
        """Largest errors of the nodes, relative to the spreads of their outputs."""
        return {name: found.verdict.worst for name, found in self.nodes.items()}

    @property
    def negative(self) -> bool:
        """True if an output or a cluster is beyond the tolerance and NNAPI less accurate."""
        wrong = any(c.negative for c in self.clusters.values())
        return self.verdict.negative or wrong or bool(self.fallbacks)

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        differences = {d.output: d.to_json() for d in self.verdict.differences}
        return {
            "report": self.report.to_json(),
            "seed": self.seed,
            "verdict": self.verdict.to_json(),
            "outputs": [differences[n] | m.to_json() for n, m in self.measures.items()],
            "clusters": [{"cluster": n, **c.to_json()} for n, c in self.clusters.items()],
            "failures": [str(failure) for failure in self.failures],
            "fallbacks": [fallback.to_json() for fallback in self.fallbacks],
            "culprit": None if self.culprit is None else self.culprit.to_json(),
            "nodes": [{"node": n, "error": error} for n, error in self.node_errors.items()],
            "beyond_tolerance": self.negative,
        }


@checked_arguments
def compare(
    model: ModelSource,
    inputs: Inputs = (),
    *,
    seed: int = 0,
    tolerance: float | None = None,
    by_node: bool = False,
    progress: ProgressCallback | None = None,
    **options: Unpack[OptionKeywords],
) -> Comparison:
    """Compares NNAPI with the CPU provider by output and by cluster, and finds what is wrong.

    model      as for `check`
    inputs     as for `run` (default: random numbers from `seed`)
    tolerance  relative to an output's spread (default: by its kind), for the model's outputs and
               for those of each cluster
    by_node    compare each node on NNAPI by itself too
    progress   called after each step
    Each cluster is fed with the CPU provider's values, so that an error is attributed to the
    cluster that makes it. In the first one that is wrong, the first wrong operation is searched in
    the same way. Raises ModelError, OptionError and RuntimeFailure (a device failed and `fallback`
    is none).
    """
    chosen, model = parse(options), source(model)
    tolerance = values.tolerance("tolerance", tolerance)
    if contents(model):
        raise ModelError(
            "its clusters are compiled ahead of time, and the CPU provider cannot run them; "
            "compare the original model"
        )
    with fixed_model(model, chosen) as (static, rest):
        cpu = open_session(static, exact_options())
        feeds = feeds_of(model, cpu, inputs, seed, sizes=chosen.sizes)
        want = [outputs_of(cpu, fed, None) for fed in feeds.runs]
        provider, got = run_on_nnapi(static, feeds, rest)
        check_excluded(chosen, provider.report)
        verdict = compared(static, feeds.runs, (got, want), tolerance, half=rest.half)
        subject = _ComparedModel(static, feeds, rest, tolerance, provider.report)
        clusters = subject.clusters(progress)
        culprit = subject.culprit(clusters)
        nodes = subject.nodes() if by_node else {}
    return Comparison(
        provider.report,
        seed if paths_of(inputs) == () else None,
        verdict,
        _measures(got, want),
        clusters,
        provider.failures,
        fallbacks_of(provider),
        culprit,
        nodes,
    )


def _measures(got: Runs, want: Runs) -> dict[str, ErrorMeasures]:
    """Returns the measures of each output over all runs."""
    pairs = by_output(got, want).items()
    return {name: ErrorMeasures.over(starmap(ErrorMeasures.of, each)) for name, each in pairs}


@dataclass(frozen=True, slots=True)
class _ComparedModel:
    """A model with its inputs, options and partitioning."""

    model: str | bytes
    feeds: Feeds
    options: Options
    tolerance: float | None
    report: Report

    def clusters(self, progress: ProgressCallback | None) -> dict[int, ClusterErrors]:
        """Returns the errors of each cluster in the order in which they run."""
        done, steps = 0, len(self.report.clusters) * len(self.feeds.runs)

        def advance() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done, max(done, steps))  # a loop's body runs more than once

        found = cluster_errors(self.model, self.feeds, self.options, self.tolerance, advance)
        numbers = {c.nodes: i for i, c in enumerate(self.report.clusters)}
        return {numbers[c.report.nodes]: c for c in found}

    def culprit(self, clusters: Mapping[int, ClusterErrors]) -> Culprit | None:
        """Returns the first wrong operation of the first wrong cluster."""
        for number, cluster in clusters.items():
            if cluster.negative:
                errors = self._first_wrong_part(cluster)
                return Culprit(number, errors, self._elsewhere(errors))
        return None

    def nodes(self) -> dict[str, ClusterErrors]:
        """Returns the errors of each node that NNAPI takes, a QDQ group's for all its nodes."""
        every = [p for c in self.report.clusters for p in zip(c.nodes, c.op_types, strict=True)]
        found = errors_of_parts(self.model, self.feeds, self.options, every, 1, self.tolerance)
        return {name: part for part in found for name in part.report.nodes}

    def _first_wrong_part(self, cluster: ClusterErrors) -> ClusterErrors:
        """Returns the first node of a cluster that is wrong, else the first of its small parts."""
        size = 1
        while size < len(cluster.report.nodes):
            for part in self._parts(cluster.report, size, self.options):
                if part.negative:
                    return part
            size *= 2
        return cluster

    def _elsewhere(self, wrong: ClusterErrors) -> ClusterErrors | None:
        """Returns the errors of the same nodes on another device of the host runtime."""
        on_host = self.options.runtime == HOST and self.options.device_profile is None
        for device in devices(HOST):
            if on_host and device.name == wrong.report.device:
                continue
            host = replace(self.options, runtime=HOST, device=device.name, device_profile=None)
            try:
                found = self._parts(wrong.report, len(wrong.report.nodes), host)
            except OptionError:  # the flags exclude this device, or it has a lower feature level
                continue
            if [c.report.nodes for c in found] == [wrong.report.nodes]:
                return found[0]
        return None

    def _parts(self, cluster: ClusterReport, size: int, options: Options) -> list[ClusterErrors]:
        """Returns the errors of a cluster's nodes in parts of at most `size` nodes."""
        types = dict(zip(cluster.nodes, cluster.op_types, strict=True))
        nodes = [(n, types.get(n, "")) for c in self.report.clusters for n in c.nodes]
        return errors_of_parts(self.model, self.feeds, options, nodes, size, self.tolerance)
