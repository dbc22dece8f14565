"""Comparison of NNAPI with the CPU provider by output, cluster and node: `compare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, Unpack

import numpy as np

from ep_nnapi.diagnostics.check import open_session, source
from ep_nnapi.diagnostics.cluster_errors import ClusterErrors, cluster_errors, errors_of_parts
from ep_nnapi.diagnostics.error_measures import ErrorMeasures
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, paths_of
from ep_nnapi.diagnostics.run_and_compare import (
    compared,
    relaxed,
    run_on_nnapi,
)
from ep_nnapi.diagnostics.session_runs import feeds_of, outputs_of
from ep_nnapi.diagnostics.unknown_names import check_excluded
from ep_nnapi.diagnostics.verdict import Runs, Verdict
from ep_nnapi.nnapi.errors import ModelError, OptionError, RuntimeFailure
from ep_nnapi.options.table import HOST, OptionKeywords, Options, parse
from ep_nnapi.provider.devices import devices
from ep_nnapi.provider.receipt import fallbacks_of
from ep_nnapi.report.report import ClusterReport, FallbackRuns, Report
from ep_nnapi.sessions.cpu import CPU, exact_options
from ep_nnapi.sessions.custom_ops import custom_ops

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of steps done and of all steps."""


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


def compare(
    model: ModelSource,
    inputs: Inputs = (),
    *,
    seed: int = 0,
    tolerance: float | None = None,
    by_node: bool = False,
    progress: Progress | None = None,
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
    model = _uncompiled(source(model))
    with (
        custom_ops(parse(options).custom_ops_library),
        fixed_model(model, options) as (static, rest),
    ):
        chosen = parse(rest)
        cpu = open_session(static, exact_options(), [CPU])
        feeds = feeds_of(model, cpu, inputs, seed)
        want = [outputs_of(cpu, fed, None) for fed in feeds.runs]
        provider, got = run_on_nnapi(static, feeds, rest)
        check_excluded(chosen, provider.report)
        verdict = compared(static, feeds.runs, (got, want), tolerance, half=relaxed(rest))
        measures = _measures(got, want)
        subject = _Subject(static, feeds, chosen, tolerance, provider.report)
        clusters = subject.clusters(progress)
        culprit = subject.culprit(clusters)
        nodes = subject.nodes() if by_node else {}
    return Comparison(
        provider.report,
        seed if paths_of(inputs) == () else None,
        verdict,
        measures,
        clusters,
        provider.failures,
        fallbacks_of(provider),
        culprit,
        nodes,
    )


def _uncompiled(model: str | bytes) -> str | bytes:
    if contents(model):
        raise ModelError(
            "its clusters are compiled ahead of time, and the CPU provider cannot run them; "
            "compare the original model"
        )
    return model


def _measures(got: Runs, want: Runs) -> dict[str, ErrorMeasures]:
    """Returns the measures of each output; lengths of sequences may differ between runs."""
    none = np.empty(0)
    names = dict.fromkeys(name for w in (*want, *got) for name in w)
    pairs = list(zip(got, want, strict=True))
    return {
        n: ErrorMeasures.over(ErrorMeasures.of(g.get(n, none), w.get(n, none)) for g, w in pairs)
        for n in names
    }


@dataclass(frozen=True, slots=True)
class _Subject:
    """A model with its inputs, options and partitioning."""

    model: str | bytes
    feeds: Feeds
    options: Options
    tolerance: float | None
    report: Report

    def clusters(self, progress: Progress | None) -> dict[int, ClusterErrors]:
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
