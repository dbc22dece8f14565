"""Errors of each cluster by itself: NNAPI and the CPU provider from the CPU provider's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ep_nnapi.diagnostics.check import given_to_session, open_session, source
from ep_nnapi.diagnostics.error_measures import ErrorMeasures
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.diagnostics.run_and_compare import compared
from ep_nnapi.diagnostics.session_runs import outputs_of
from ep_nnapi.diagnostics.special_values import known_differences, note_of
from ep_nnapi.diagnostics.verdict import LessAccurate, Verdict
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.options.table import Options
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.options.values import Fallback
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.provider.load_epcontext import UnusableCluster
from ep_nnapi.provider.observed_cluster import Observation, ObservedCluster, Observer
from ep_nnapi.provider.planner import Cluster
from ep_nnapi.provider.provider import Provider
from ep_nnapi.report.report import ClusterReport
from ep_nnapi.sessions.cpu import CPU, exact_options

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


class _Observed:
    """Collects the errors of clusters, in the order of their first runs."""

    def __init__(self, options: Options, tolerance: float | None, advance: Advance | None) -> None:
        self.clusters: dict[tuple[str, ...], ClusterErrors] = {}
        self._half = NnapiFlag.USE_FP16 in options.flags
        self._tolerance = tolerance
        self._advance = advance

    def __call__(self, run: Observation) -> None:
        """Adds the errors of one run; keeps none of its arrays."""
        if self._advance is not None:
            self._advance()
        before = self.clusters.get(run.report.nodes)
        found = self._errors(run)
        self.clusters[run.report.nodes] = found if before is None else _merged(before, found)

    def _errors(self, run: Observation) -> ClusterErrors:
        if run.nnapi is None:
            return ClusterErrors(run.report, {}, Verdict(), run.failure)
        verdict = compared(
            str(run.model),
            [run.inputs],
            ([run.nnapi], [run.cpu]),
            self._tolerance,
            half=self._half,
        )
        if verdict.less_accurate is not LessAccurate.NONE:
            values = (*run.inputs.values(), *run.cpu.values())
            known = known_differences(run.report.op_types, values, half=self._half)
            verdict = replace(verdict, note=" ".join(filter(None, (verdict.note, note_of(known)))))
        measures = {name: ErrorMeasures.of(run.nnapi[name], w) for name, w in run.cpu.items()}
        return ClusterErrors(run.report, measures, verdict)


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

    def plan(self, graph: Graph) -> tuple[Cluster | ObservedCluster, ...]:
        """Returns the clusters of `graph`, observed."""
        return tuple(
            cluster
            if isinstance(cluster, UnusableCluster | ObservedCluster)
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
    observed = _Observed(options, tolerance, advance)
    register()
    with given_to_session(ObservingProvider(options, observed)) as (strings, found):
        session = open_session(source(model), exact_options(), [(EP_NAME, strings), CPU])
        provider = found()
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
