"""Provider of one session: takes options, plans graphs, reports. Used by the ORT plugin."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ep_nnapi.costs import cost_model
from ep_nnapi.epcontext.layout import FORMAT_VERSION
from ep_nnapi.graph.graph import Graph, numbered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, OptionError, RuntimeFailure, module_logger
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.runtime import RunOptions, Runtime
from ep_nnapi.nnapi.validate import required_level
from ep_nnapi.options.fixed import sizes_in
from ep_nnapi.options.table import Options, options_of_session
from ep_nnapi.provider import receipt
from ep_nnapi.provider.cluster_record import Listener
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.devices import (
    compile_options,
    emulates_float16,
    fast_devices,
    placement,
    recorded_costs,
    session_runtime,
)
from ep_nnapi.provider.dynamic_options import Current, changed, changed_for_run, nanoseconds
from ep_nnapi.provider.load_epcontext import CompiledFor, UnusableCluster
from ep_nnapi.provider.observed_cluster import ObservedCluster
from ep_nnapi.provider.planner import PartitionedGraph, PlannedCluster, Planner, merge_plans
from ep_nnapi.provider.receipt import ModelFile
from ep_nnapi.report.report import Notice, Report, combine
from ep_nnapi.sizes.bind import graph_inputs, is_dynamic
from ep_nnapi.sizes.symbols import Shapes, how_to_fix, require_symbols

if TYPE_CHECKING:
    from ep_nnapi.epcontext.contexts import WeightsTarget
    from ep_nnapi.provider.choice import Choice

logger = module_logger(__name__)
MANY_CLUSTERS = 300
"""Number of clusters of a graph above which a warning is logged.

Measured with ONNX Runtime 1.31 and clusters of one node: it fuses 250 in 0.2 s, 500 in 2 s and
1,000 in 13 s."""
_ONLY_CLAIMED = ModelError("the session only claims nodes")
_NAMED_TYPES = 2  # operator types that the notice of a session names
PROVIDER_ID = "provider_id"
"""Session option that names a provider which this process has made, in place of options."""

_handed_over: dict[str, Provider] = {}


class Provider:
    """Decides for one session which nodes run on NNAPI."""

    def __init__(
        self,
        options: Options,
        runtime: Runtime | None = None,
        *,
        fast: bool = True,
        measure: bool = False,
        written: bool = False,
        runs: bool = True,
    ) -> None:
        """Create a provider.

        runtime   replaces the runtime of the options
        fast      without it, nnapi-reference runs what host-cpu could run too
        written   clusters are for files: what runs them checks no numbers of their INT64 inputs
        measure   devices measure their runs, where they can, and reports have outlines and
                  estimated times
        runs      without it the session claims nodes and runs none: compiled clusters, which have
                  copies of weights, are dropped
        """
        self._planner = planner_of(options, runtime, fast=fast, measure=measure)
        self._runs = runs
        self.options = options
        self.model, self.process, self.onnxruntime = ModelFile(), os.getpid(), ""
        self.target = self._planner.compiler.target
        if written:
            self.plan_for_files()
        self._plans: dict[str, PartitionedGraph] = {}
        self._lock = ForkableLock()
        self.opened = False
        self.reports_itself = False
        self.error: Exception | None = None

    def plan_for_files(self) -> None:
        """Plans clusters as `written` says, before the first is planned."""
        compiler = self._planner.compiler
        self.target = replace(compiler.target, checking=False)
        self._planner = replace(self._planner, compiler=replace(compiler, target=self.target))

    def plan(self, graph: Graph) -> tuple[PlannedCluster | ObservedCluster, ...]:
        """Returns the compiled clusters of `graph`; may be called again for the same graph."""
        if not graph.key:
            self.model = ModelFile.of(graph.path, digested=self.options.receipt is not None)
        plan = self._planner.plan(graph)
        if not self._runs:
            plan = replace(plan, clusters=tuple(map(_claim, plan.clusters)))
        with self._lock:
            before = self._plans.get(graph.key)
            self._plans[graph.key] = merge_plans(before, plan, graph) if before else plan
        if len(plan.clusters) > MANY_CLUSTERS and before is None:
            logger.warning(
                "ONNX Runtime fuses %d clusters in a time that grows with the cube of their number;"
                " the option max_clusters limits it",
                len(plan.clusters),
            )
        if self.options.sizes and before is None and not graph.key:
            try:
                require_symbols(graph_inputs(graph), self.options.sizes)
            except OptionError as error:
                logger.warning("%s", error)
        if self._planner.options.fix and before is None and not graph.key:
            _warn_of_open_sizes(graph, sizes_in(self._planner.options.fix))
        for cluster in plan.clusters:
            if isinstance(cluster, UnusableCluster) and cluster.error is not _ONLY_CLAIMED:
                self.error = cluster.error
        return plan.clusters

    def forget(self, keys: Sequence[str]) -> None:
        """Forgets the first plans of graphs with these keys; others get the lower numbers."""
        with self._lock:
            for key in keys:
                plans, times, own = self._plans, 1, key
                while (later := numbered(key, times + 1)) in plans:
                    plan = plans.pop(later)
                    plans[own] = replace(plan, report=replace(plan.report, key=own))
                    times, own = times + 1, later
                plans.pop(own, None)

    @property
    def report(self) -> Report:
        """The report on all graphs planned so far, inner graphs first."""
        with self._lock:
            graphs = [plan.report for plan in self._plans.values()]
        compiler = self._planner.compiler
        preview = emulates_float16(compiler.device, self._planner.options)
        level, rules = self.target.feature_level, str(self.target.rules)
        return combine(level, rules, graphs, preview=preview)

    def notice(self) -> Notice:
        """Returns the numbers of nodes taken and left; a warning if less than half are taken.

        Never a warning for a session that this package opens itself: it reports on its own.
        """
        report = self.report
        text = report.summary
        if report.rejections:
            types = list(dict(Counter(r.op_type for r in report.rejections).most_common()))
            more = " …" if len(types) > _NAMED_TYPES else ""
            left = ", ".join(types[:_NAMED_TYPES])
            text += f"; {left}{more}: `ep-nnapi check` says why"
        return Notice(text, not self.reports_itself and 2 * report.taken < report.nodes)

    def set_dynamic_options(self, given: Mapping[str, str]) -> None:
        """Changes priority, preference or deadline for later runs; raises OptionError."""
        compiler = self._planner.compiler
        initial = Current(compiler.options, compiler.limits)
        with self._lock:
            compiler.changes.append(changed(compiler.current_of_session, initial, given))

    def start_run(self, given: Mapping[str, str]) -> None:
        """Changes priority, preference or deadline for the run that begins on this thread.

        Raises OptionError for an unknown name or value.
        """
        compiler = self._planner.compiler
        compiler.this_run.current = changed_for_run(compiler.current_of_session, given)

    def end_run(self) -> None:
        """Has the session's own options again at the end of a run, on the thread that began it."""
        self._planner.compiler.this_run.current = None

    @property
    def listeners(self) -> list[Listener]:
        """Functions called with each event of a run, from its thread; may be changed in place."""
        return self._planner.compiler.listeners

    def begin(self, running: str) -> None:
        """Notes that a session exists, on this version of ONNX Runtime."""
        receipt.begin(self, running)

    def end(self) -> None:
        """Notes that the session has ended: its receipt is written, if the options say where."""
        receipt.end(self)
        for cluster in self.clusters:
            choice: Choice | None = getattr(cluster, "choice", None)
            if choice is not None:
                choice.close()

    @property
    def compatibility_info(self) -> str:
        """The conditions that the clusters planned so far are compiled for, as metadata."""
        compiler = self._planner.compiler
        level = compiler.target.feature_level
        models = [model for c in self.clusters for model in c.models]
        needed = max(map(required_level, models), default=1)
        return str(CompiledFor(FORMAT_VERSION, level, needed, compiler.device.name))

    def read_weights_by(self, read: Callable[[str], Array]) -> None:
        """Has EPContext nodes take their external weights from `read`, by name, not from files."""
        self._planner = replace(self._planner, weights=read)

    def contexts(
        self, clusters: Sequence[object], target: WeightsTarget
    ) -> Iterator[tuple[bytes, tuple[str, ...]]]:
        """Yields context and node names of each cluster, with embedded weights without `target`.

        Else their weights are written there. Raises ModelError for a cluster with symbolic shapes.
        """
        from ep_nnapi.epcontext.container import pack  # most sessions write no context
        from ep_nnapi.epcontext.contexts import contexts_of

        packed, nodes = [], []
        for cluster in clusters:
            if not isinstance(cluster, CompiledCluster):
                raise ModelError(
                    "a cluster with symbolic shapes cannot be compiled ahead of time; fix the "
                    "sizes (option fix) or leave out dynamic_shapes"
                )
            packed.append(pack(cluster.lowered))
            nodes.append(cluster.report.nodes)
        return zip(contexts_of(packed, target), nodes, strict=True)

    @property
    def clusters(self) -> tuple[PlannedCluster, ...]:
        """The clusters of all graphs planned so far."""
        with self._lock:
            return tuple(c for plan in self._plans.values() for c in plan.clusters)

    @property
    def failures(self) -> tuple[RuntimeFailure, ...]:
        """The last few device failures of each cluster, in the runs of this session so far."""
        return tuple(failure for c in self.clusters for failure in c.record.failures)


def _claim(cluster: PlannedCluster) -> UnusableCluster:
    """Returns a cluster of the same nodes that holds nothing and cannot run."""
    if isinstance(cluster, UnusableCluster):
        return cluster
    return UnusableCluster(cluster.node_ids, cluster.report, _ONLY_CLAIMED)


def _warn_of_open_sizes(graph: Graph, fixed: Shapes) -> None:
    """Logs one warning if option `fix` leaves symbolic sizes, or names what the model never had.

    Of a symbol with a size the session shows the number only, so its name is looked for in the
    file.
    """
    left = [value for value in graph_inputs(graph) if is_dynamic([value])]
    if left:
        logger.warning(
            "the session does not have all sizes of option fix: input %s is %s; use a model "
            "that prepare has written, or %s",
            left[0].name,
            "of any rank" if left[0].dims is None else [d or "?" for d in left[0].dims],
            how_to_fix(left, fixed),
        )
    elif Path(graph.path).is_file():
        from ep_nnapi.graph.onnx_io import mentions  # imports onnx

        absent = [n for n in fixed if not mentions(Path(graph.path), n.encode())]
        if absent:
            logger.warning("option fix names %s, which the model does not have", ", ".join(absent))


def planner_of(
    options: Options, runtime: Runtime | None = None, *, fast: bool = True, measure: bool = False
) -> Planner:
    """Returns the planner for these options: their target, runtime, device and cost model.

    runtime   replaces the runtime of the options
    fast      devices that are faster than nnapi-reference take precedence over it
    Raises OptionError if they do not fit the runtime, its devices or the calibration.
    """
    runtime, device, target = placement(options, runtime)
    limits = RunOptions(timeout_ns=nanoseconds(options.execution_timeout))
    preferred = fast_devices(runtime, device, options) if fast or options.device else ()
    compiler = Compiler(
        target,
        runtime,
        device,
        compile_options(options),
        limits,
        measure=measure,
        timed=options.receipt is not None,
        fast=preferred,
    )
    costs = cost_model(options, device, recorded_costs(runtime, device))
    return Planner(compiler, options, costs)


def open_provider(entries: Mapping[str, str]) -> Provider:
    """Returns the provider for a session's option strings; raises OptionError for invalid ones."""
    provider = _handed_over.get(entries.get(PROVIDER_ID, ""))
    if provider is None:
        options = options_of_session(entries)
        provider = Provider(options, session_runtime(options))
    provider.opened = True
    return provider


@contextmanager
def handed_over(provider: Provider) -> Iterator[dict[str, str]]:
    """Yields the option strings that make a session of this process use `provider`."""
    provider_id = uuid.uuid4().hex
    _handed_over[provider_id] = provider
    provider.reports_itself = True
    try:
        yield {PROVIDER_ID: provider_id}
    finally:
        del _handed_over[provider_id]
