"""Planner: from a graph to compiled clusters (capability, partitioning, lowering, compilation).

Nodes that the device declines fall back to the CPU provider and the graph is partitioned again,
until every cluster compiles: a failure in ONNX Runtime's Compile would end the session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import networkx as nx

from ep_nnapi.capability.graph import Capability, Progress, Timer, judge_graph
from ep_nnapi.capability.node import CapableNode
from ep_nnapi.costs import PHONE, CostModel
from ep_nnapi.epcontext.layout import EP_SOURCE, is_own
from ep_nnapi.graph.dag import dag_of, inputs_of, mean_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode, copy_constants
from ep_nnapi.graph.onnx_io import model_of, without_shapes
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, Reason, module_logger
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.options.table import Options
from ep_nnapi.options.values import Fallback, Spinning
from ep_nnapi.provider.buckets import Buckets
from ep_nnapi.provider.cluster_selection import (
    ClusterSelection,
    ClusterSelector,
    Ids,
    limits_below,
    lower_limits,
)
from ep_nnapi.provider.compiled_cluster import CompiledCluster
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.devices import NoRuntime
from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from ep_nnapi.provider.fallback import CpuModel
from ep_nnapi.provider.load_epcontext import UnusableCluster, load, without_runtime
from ep_nnapi.provider.outline import outline_of, report_of, with_times
from ep_nnapi.provider.whole_graph import NotWhole, WholeGraph
from ep_nnapi.report.report import GraphReport
from ep_nnapi.sizes.bind import is_dynamic
from ep_nnapi.sizes.int64_ranges import suppose_ranges

if TYPE_CHECKING:
    from ep_nnapi.provider.choice import ChosenCluster

logger = module_logger(__name__)
PlannedCluster: TypeAlias = "CompiledCluster | ChosenCluster | DynamicCluster | UnusableCluster"

ReaderIds: TypeAlias = Mapping[str, frozenset[int]]
"""The ids of the nodes that read each value; -1 represents the graph's outputs."""

_Edges: TypeAlias = Sequence[tuple[Sequence[Value], Sequence[Value]]]
"""The inputs and outputs of a cluster for each of the sample sizes."""

_OF_CONSTANTS = "depends on constants only; ONNX Runtime computes it once"
_MAX_COMPILATIONS = 24
"""Maximum compilations to find the failing nodes of one cluster, as each may take seconds.

Also the maximum number of times that clusters of a graph are made smaller for the device."""


@frozen
class PartitionedGraph:
    """The clusters of one graph, the report on all its nodes, and the names of capable nodes."""

    clusters: tuple[PlannedCluster, ...]
    report: GraphReport
    capable: frozenset[str]


@frozen
class Planner:
    """Plans graphs with one compiler, the user's options and a cost model.

    weights   returns what the application has under the name of the external weights of EPContext
              nodes, in place of a file
    whole     the graph that is planned, if it is judged for all sizes at once
    """

    compiler: Compiler
    options: Options
    model: CostModel = PHONE
    clock: Timer = time.monotonic
    weights: Callable[[str], Array] | None = None
    whole: WholeGraph | None = None

    def plan(self, graph: Graph) -> PartitionedGraph:
        """Returns the compiled clusters, and the reasons why the other nodes are not taken."""
        progress = Progress(self.clock)
        whole = WholeGraph.of(graph, self.compiler, self.options)
        if whole is not None:
            try:
                return replace(self, whole=whole)._planned(graph, whole.capability, progress)
            except NotWhole:
                logger.debug("the graph is judged for sample sizes: it is several clusters")
        verdicts = judge_graph(graph, self.compiler.target, self.options, progress)
        plan = self._planned(graph, verdicts, progress)
        runtime = self.compiler.runtime
        if isinstance(runtime, NoRuntime) and graph.nodes and not (plan.clusters or graph.key):
            return replace(plan, clusters=(without_runtime(graph.nodes[0], runtime.why),))
        return plan

    def _planned(self, graph: Graph, verdicts: Capability, progress: Progress) -> PartitionedGraph:
        context_nodes = [n for n in graph.nodes if is_own(n)]
        judged_nodes = verdicts.samples[0].values()
        capable = [p.name for m in judged_nodes for p in m.node.originals] + [
            c.name for c in context_nodes
        ]
        several, symbolic = bool(self.options.sizes), self.whole is not None
        sampled = _nodes_with_known_shapes(verdicts, several=several, symbolic=symbolic)
        nodes, readers = sampled[0], _reader_ids(verdicts.graph)
        dag = mean_of([dag_of(replace(verdicts.graph, nodes=(*n.values(),))) for n in sampled])
        selector = ClusterSelector(self.options, self.model, samples=sampled)
        selection, compiled = self._compile_clusters(selector, dag, verdicts, readers, progress)
        dag.clear()  # its views and it refer to each other
        for ids, detail in selection.left_to_cpu:
            verdicts.drop(ids, (), Reason.NOT_WORTH_IT, detail)
        prepared = [
            load(n, graph, self._compiler_for([n.id], graph), self.options, self.weights)
            for n in context_nodes
        ]
        clusters = (*prepared, *(compiled[c] for c in selection.clusters))
        reports = [c.report for c in clusters]
        if self.compiler.measure:
            own = zip(reports[len(prepared) :], selection.clusters, strict=True)
            timed = (with_times(r, [nodes[i] for i in ids], self.model) for r, ids in own)
            reports[len(prepared) :] = timed
        rejected, notes = verdicts.rejections(), verdicts.notes(selection.notes)
        lower_bound = selection.lower_bound + len(prepared)
        report = GraphReport(
            len(graph.nodes),
            len(capable),
            tuple(reports),
            rejected,
            notes,
            lower_bound,
            graph.key,
            outline_of(graph, nodes, self.model) if self.compiler.measure else (),
        )
        return PartitionedGraph(clusters, report, frozenset(capable))

    def _compile_clusters(
        self,
        selector: ClusterSelector,
        dag: nx.DiGraph,
        verdicts: Capability,
        readers: ReaderIds,
        progress: Progress,
    ) -> tuple[ClusterSelection, dict[Ids, PlannedCluster]]:
        """Returns the selected clusters, all of them compiled, by their node ids.

        Nodes that prevent compilation are rejected, clusters that are too large for the device are
        split, and the rest is selected again, until every cluster compiles.
        """
        nodes = selector.samples[0]
        compiled: dict[Ids, PlannedCluster] = {}
        splits = iter(range(_MAX_COMPILATIONS))
        while True:
            selection = selector.select(dag, nodes, verdicts.samples[0])
            changed = False
            for done, cluster in enumerate(selection.clusters):
                progress("clusters compiled", done, len(selection.clusters))
                if cluster in compiled:
                    continue
                try:
                    compiled[cluster] = self._compile_safely(cluster, verdicts, readers)
                except Declined as no:
                    changed = True
                    limits = limits_below(dag, cluster, compiled) if no.too_large else None
                    if limits is not None and next(splits, None) is not None:
                        limits = lower_limits(limits, selector.device_limits)
                        selector = replace(selector, device_limits=limits)
                        break
                    self._reject(cluster, no, verdicts, readers)
            if not changed:
                return selection, compiled

    def _reject(
        self, cluster: Ids, declined: Declined, verdicts: Capability, readers: ReaderIds
    ) -> None:
        """Rejects the nodes that prevent the compilation of a cluster."""
        culprits = cluster
        if not declined.names and declined.reason is Reason.DRIVER:
            tries = iter(range(_MAX_COMPILATIONS))
            culprits = self._failing_nodes(cluster, verdicts, readers, tries)
            about = len(culprits), len(cluster), declined.detail
            logger.warning("%d of a cluster's %d nodes are left to the CPU provider: %s", *about)
        verdicts.drop(culprits, declined.names, declined.reason, declined.detail)

    def _failing_nodes(
        self,
        cluster: Ids,
        verdicts: Capability,
        readers: ReaderIds,
        tries: Iterator[int],
    ) -> Ids:
        """Returns the nodes without which the rest of a cluster compiles, found by bisection.

        Used when the device reports all operations as supported but fails to compile them. Returns
        the whole cluster if neither half fails or `tries` is exhausted.
        """
        middle = len(cluster) // 2
        found: list[int] = []
        for half in (cluster[:middle], cluster[middle:]):
            if not half or next(tries, None) is None:
                return cluster
            try:
                self._compile_safely(half, verdicts, readers)
            except Declined:
                single = len(half) == 1
                found.extend(
                    half if single else self._failing_nodes(half, verdicts, readers, tries)
                )
        return tuple(found) or cluster

    def _compile_safely(
        self, cluster: Ids, verdicts: Capability, readers: ReaderIds
    ) -> PlannedCluster:
        """Returns the compiled cluster; raises Declined, also for bugs, as planning must go on."""
        try:
            return self._compile(cluster, verdicts, readers)
        except (Declined, NotWhole, ModelError):
            raise
        except Exception as error:
            logger.exception("a cluster of %d nodes cannot be compiled", len(cluster))
            detail = f"its cluster cannot be compiled, which is a defect of ep-nnapi: {error}"
            raise Declined((), Reason.DRIVER, detail) from error

    def _compile(self, cluster: Ids, verdicts: Capability, readers: ReaderIds) -> PlannedCluster:
        nodes: Sequence[GraphNode] = [verdicts.nodes[i] for i in cluster]
        inputs, outputs = _boundary_values(nodes, readers)
        if not inputs:
            raise Declined((), Reason.CONSTANT_NODE, _OF_CONSTANTS)
        sampled = [[sample[i] for i in cluster] for sample in verdicts.samples]
        edges = [_boundary_values([m.node for m in members], readers) for members in sampled]
        originals = [part for n in nodes for part in n.originals]
        report = report_of(originals, inputs, outputs, self.compiler.device.name)
        ids = tuple(n.id for n in originals)
        opsets, fallback = verdicts.graph.opsets, self.options.fallback
        compiler = self._compiler_for(cluster, verdicts.graph)  # alone spins between runs
        shape_inputs = _shape_inputs(inputs, sampled[0])
        if shape_inputs or is_dynamic([*inputs, *(v for n in nodes for v in outputs_of(n))]):
            nodes, inputs, outputs = self._with_limits(nodes, (inputs, outputs), readers, opsets)
            buckets = Buckets.of(verdicts.graph, inputs, outputs, self.options, shape_inputs)
            cluster_of_sizes = DynamicCluster(
                ids,
                report,
                tuple(nodes) if self.whole is not None else copy_constants(nodes),  # copied once
                tuple(inputs),
                tuple(outputs),
                opsets,
                (),
                compiler,
                fallback,
                max(self.options.shape_cache, buckets.count if buckets else 0),
                self.options.new_sizes,
                shape_inputs,
                buckets=buckets,
                record=self.compiler.new_record(),
            )
            return replace(self._opened(cluster_of_sizes, sampled, edges), compiler=self.compiler)
        placed, cpu = compiler.compile(self.compiler.lower(sampled[0], *edges[0])), None
        # runs may have other numbers or shapes than it is compiled for
        checked = any(v.limit or v.name in verdicts.unverified for v in inputs)
        if fallback is Fallback.CPU or checked:
            model = model_of(originals, without_shapes(inputs), without_shapes(outputs), opsets)
            cpu = CpuModel.write(model, compiler.options.threads)
        return CompiledCluster.of(ids, report, placed, fallback, cpu)

    def _with_limits(
        self,
        nodes: Sequence[GraphNode],
        edges: tuple[Sequence[Value], Sequence[Value]],
        readers: ReaderIds,
        opsets: Mapping[str, int],
    ) -> tuple[Sequence[GraphNode], list[Value], list[Value]]:
        """Returns nodes with limits of INT64 inputs whose range only samples tell, and edges."""
        cluster = Graph("", tuple(nodes), tuple(edges[0]), tuple(edges[1]), opsets)
        limited = suppose_ranges(cluster) if self.compiler.target.checks_numbers else cluster
        if limited is cluster:
            return nodes, [*cluster.inputs], [*cluster.outputs]
        return limited.nodes, *_boundary_values(limited.nodes, readers)

    def _opened(
        self, cluster: DynamicCluster, sampled: Sequence[Sequence[CapableNode]], edges: _Edges
    ) -> DynamicCluster:
        """Returns the cluster compiled for open sizes, or if that is impossible, for none yet."""
        if self.whole is not None:
            return self._opened_whole(cluster, sampled[0], *edges[0])
        known = (values for values, _ in edges if not is_dynamic(values))
        opened = cluster.with_opened(known)
        if opened is not None:
            return opened
        lowered = [self.compiler.lower(m, *e) for m, e in zip(sampled, edges, strict=True)]
        device = self.compiler.place(lowered[-1])[1].name  # cached
        models = tuple(low.model for low in lowered)
        return replace(cluster, report=replace(cluster.report, device=device), sampled=models)

    def _opened_whole(
        self,
        cluster: DynamicCluster,
        members: Sequence[CapableNode],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
    ) -> DynamicCluster:
        """Returns the same of a graph that is one cluster; raises NotWhole if it is not."""
        whole = self.whole
        if whole is None or len(members) < len(whole.capability.samples[0]):
            raise NotWhole
        try:
            tracing = whole.of_cluster(inputs)
            traced = self.compiler.traced(tracing, members, inputs, outputs)
        except Declined:
            raise NotWhole from None
        opened = cluster.with_traced(traced)
        if opened is None:
            raise NotWhole
        return opened

    def _compiler_for(self, cluster: Sequence[int], graph: Graph) -> Compiler:
        """Returns the compiler for a cluster of these nodes of the graph."""
        is_whole = len(cluster) == len(graph.nodes) and not graph.key
        alone = is_whole and self.options.spinning is Spinning.AUTO
        return replace(self.compiler, alone=True) if alone else self.compiler


def _nodes_with_known_shapes(
    verdicts: Capability, *, several: bool, symbolic: bool
) -> tuple[dict[int, GraphNode], ...]:
    """Returns the nodes by id, with the known shapes, for counting their costs.

    several   True if the samples have sizes that the user names: then there are nodes for each
    symbolic  True if the sizes of the sample are no numbers
    """
    if symbolic or (len(verdicts.samples) > 1 and not several):
        return (verdicts.nodes,)
    judged = ({i: m.node for i, m in sample.items()} for sample in verdicts.samples)
    return tuple({i: known.get(i, n) for i, n in verdicts.nodes.items()} for known in judged)


def _reader_ids(graph: Graph) -> ReaderIds:
    found: dict[str, set[int]] = {}
    for node in graph.nodes:
        for name in (*(v.name for v in inputs_of(node)), *node.implicit):
            found.setdefault(name, set()).add(node.id)
    for value in graph.outputs:
        found.setdefault(value.name, set()).add(-1)
    return {name: frozenset(ids) for name, ids in found.items()}


def _shape_inputs(inputs: Sequence[Value], members: Sequence[CapableNode]) -> tuple[str, ...]:
    """Returns the names of the inputs whose contents are folded into sizes."""
    folded = {v.name for m in members for v in inputs_of(m.node) if v.folded}
    return tuple(v.name for v in inputs if v.name in folded)


def _boundary_values(
    nodes: Sequence[GraphNode], readers: ReaderIds
) -> tuple[list[Value], list[Value]]:
    """Returns the inputs and the outputs of a set of nodes, each once."""
    ids = {n.id for n in nodes}
    written = {v.name: v for n in nodes for v in outputs_of(n)}
    entering = {v.name: v for n in nodes for v in inputs_of(n) if v.name not in written}
    leaving = [v for name, v in written.items() if not readers.get(name, ids) <= ids]
    return list(entering.values()), leaving


def merge_plans(before: PartitionedGraph, plan: PartitionedGraph, graph: Graph) -> PartitionedGraph:
    """Returns `plan` merged with the clusters and rejections of the earlier plan `before`.

    In `graph`, each cluster of `before` is one fused node of this provider. Nodes rejected before
    are assigned to another provider, unless they were inlined; they keep their rejection reason.
    """
    ours = {n.name for n in graph.nodes if n.claimed_by == EP_SOURCE}
    left = {n.name for n in graph.nodes if n.claimed_by and n.claimed_by != EP_SOURCE}
    clusters = before.clusters if ours else ()
    taken = {name for c in clusters for name in c.report.nodes}
    reasons = {r.node: r for r in before.report.rejections if r.node in left}
    capable = before.capable & (taken | left)
    now = plan.report
    earlier = tuple(n for n in before.report.outline if n.name in taken)
    report = GraphReport(
        now.nodes - len(ours) + len(taken),
        now.capable + len(capable),
        (*(c.report for c in clusters), *now.clusters),
        tuple(reasons.get(r.node, r) for r in now.rejections if r.node not in ours),
        (*(n for n in before.report.notes if n.node in taken), *now.notes),
        now.lower_bound + len(clusters),
        now.key,
        (*earlier, *(n for n in now.outline if n.name not in ours)),
    )
    return PartitionedGraph((*clusters, *plan.clusters), report, plan.capable | capable)
