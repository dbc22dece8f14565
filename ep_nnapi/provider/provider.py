"""Provider of one session: takes options, plans graphs, reports. Used by the ORT plugin."""

from __future__ import annotations

from collections.abc import Mapping

from ep_nnapi.costs.calibration import cost_model
from ep_nnapi.errors import OptionError, RuntimeFailure
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.options import Options, Relaxed, parse
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.devices import choose_device, open_runtime
from ep_nnapi.provider.load_epcontext import UnusableCluster
from ep_nnapi.provider.planner import Cluster, PartitionedGraph, Planner
from ep_nnapi.provider.replan import merge_plans
from ep_nnapi.report import Report, combine

COLLECT = "collect_report"
"""Session option with which this package's own `check` requests the report."""

_expected: dict[str, Provider] = {}


class Provider:
    """Decides for one session which nodes run on NNAPI."""

    def __init__(self, options: Options) -> None:
        runtime = open_runtime(options.runtime)
        self.target = options.lowering_target(runtime.feature_level)
        device = choose_device(runtime, options.device, self.target.flags)
        model = cost_model(options, device)
        compile_options = CompileOptions(precise=options.relaxed is Relaxed.PRECISE)
        self._planner = Planner(
            Compiler(self.target, runtime, device, compile_options), options, model
        )
        self._plans: dict[str, PartitionedGraph] = {}
        self._lock = ForkableLock()
        self.opened = False
        self.error: Exception | None = None

    def plan(self, graph: Graph) -> tuple[Cluster, ...]:
        """Returns the compiled clusters of `graph`; may be called again for the same graph."""
        plan = self._planner.plan(graph)
        with self._lock:
            before = self._plans.get(graph.key)
            self._plans[graph.key] = merge_plans(before, plan, graph) if before else plan
        for cluster in plan.clusters:
            if isinstance(cluster, UnusableCluster):
                self.error = cluster.error
        return plan.clusters

    @property
    def report(self) -> Report:
        """The report on all graphs planned so far, inner graphs first."""
        with self._lock:
            graphs = [plan.report for plan in self._plans.values()]
        return combine(self.target.feature_level, str(self.target.rules), graphs)

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The clusters of all graphs planned so far."""
        with self._lock:
            return tuple(c for plan in self._plans.values() for c in plan.clusters)

    @property
    def failures(self) -> tuple[RuntimeFailure, ...]:
        """The last few device failures of each cluster, in the runs of this session so far."""
        return tuple(failure for c in self.clusters for failure in c.failures)


def open_provider(entries: Mapping[str, str]) -> Provider:
    """Returns the provider for a session's option strings; raises OptionError for invalid ones."""
    given = dict(entries)
    expected = _expected.get(given.pop(COLLECT, ""))
    provider = expected if expected is not None else Provider(_parsed(given))
    provider.opened = True
    return provider


def _parsed(given: Mapping[str, str]) -> Options:
    options = parse(given)
    if options.custom_ops_library is not None:
        raise OptionError(
            "custom_ops_library is an option of check, run and prepare; in a session of your own, "
            "register it with SessionOptions.register_custom_ops_library"
        )
    return options


def expect(ticket: str, provider: Provider) -> None:
    """Registers `provider` for the session whose option COLLECT is `ticket`, until `forget`."""
    _expected[ticket] = provider


def forget(ticket: str) -> None:
    """Removes the provider that `expect` registered for `ticket`."""
    _expected.pop(ticket, None)
