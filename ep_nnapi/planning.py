"""From a graph to compiled clusters: judge, partition, lower, ask the device, compile.

What a device declines goes back to the CPU provider and the partition is made again, until every
cluster compiles: an error later would end the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import networkx as nx

from ep_nnapi.capability import Judged, judge
from ep_nnapi.dag import bytes_of, dag_of, inputs_of, outputs_of
from ep_nnapi.engine import CompiledCluster
from ep_nnapi.forms import Peel
from ep_nnapi.graph import Graph, GraphNode
from ep_nnapi.lowering import Lowered, lower
from ep_nnapi.nnapi.runtime import CompileOptions, Device, Runtime
from ep_nnapi.options import Fallback, Options
from ep_nnapi.qdq import quantized
from ep_nnapi.rejection import Reason, Rejection, RuntimeFailure, SpecError
from ep_nnapi.report import ClusterReport, GraphReport
from ep_nnapi.submodel import CpuModel, model_of
from ep_nnapi.target import Target
from ep_nnapi.value import Value
from partitioner import partition


@dataclass(frozen=True, slots=True)
class Plan:
    """The clusters of one graph and the report on all its nodes."""

    clusters: tuple[CompiledCluster, ...]
    report: GraphReport


Refused: TypeAlias = dict[int, tuple[Rejection, ...]]
"""By node id the refusals of the single nodes that it stands for."""


class _Declined(Exception):
    """Nodes that cannot be in a cluster after all."""

    def __init__(self, names: Iterable[str], reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.names = frozenset(names)
        self.reason = reason
        self.detail = detail


@dataclass
class Planner:
    """Plans graphs for one target, runtime and device."""

    target: Target
    runtime: Runtime
    device: Device
    options: Options
    compile_options: CompileOptions = field(default_factory=CompileOptions)

    def plan(self, graph: Graph) -> Plan:
        """The clusters to take, each compiled, and why the other nodes are left."""
        total = len(graph.nodes)
        graph, judged, refused = self._judge(graph)
        capable = sum(len(j.node.originals) for j in judged.values())
        dag, readers = dag_of(graph), _readers(graph)
        built: dict[tuple[int, ...], CompiledCluster] = {}
        while True:
            clusters = _partition(dag, judged)
            declined = False
            for cluster in clusters:
                if cluster in built:
                    continue
                members = [judged[i] for i in cluster]
                try:
                    built[cluster] = self._compile(members, readers, graph.opsets)
                except _Declined as no:
                    declined = True
                    refused.update(_drop(judged, members, no))
            if not declined:
                break
        taken = tuple(built[c] for c in clusters)
        rejections = tuple(r for n in graph.nodes for r in refused.get(n.id, ()))
        reports = tuple(c.report for c in taken)
        return Plan(taken, GraphReport(total, capable, reports, rejections))

    def _judge(self, graph: Graph) -> tuple[Graph, dict[int, Judged], Refused]:
        """The graph with its QDQ groups formed, those that are refused as a whole dissolved."""
        judged: dict[int, Judged] = {}
        refused: Refused = {}
        nodes: list[GraphNode] = []
        pending = list(reversed(quantized(graph).nodes))
        while pending:
            node = pending.pop()
            verdict = self._excluded(node) or judge(node, self.target)
            if isinstance(verdict, Rejection) and node.parts:
                pending.extend(reversed(node.parts))
                continue
            nodes.append(node)
            if isinstance(verdict, Judged):
                judged[node.id] = verdict
            else:
                refused[node.id] = (verdict,)
        return replace(graph, nodes=tuple(nodes)), judged, refused

    def _excluded(self, node: GraphNode) -> Rejection | None:
        if node.claimed_by:
            detail = f"{node.claimed_by} has it already"
        elif {node.name, node.op_type} & set(self.options.exclude):
            detail = "left out by the option exclude"
        else:
            return None
        return Rejection(node.name, node.op_type, Reason.CLUSTER, detail)

    def _compile(
        self,
        members: Sequence[Judged],
        readers: Mapping[str, frozenset[int]],
        opsets: Mapping[str, int],
    ) -> CompiledCluster:
        names = [part.name for m in members for part in m.node.originals]
        inputs, outputs = _crossing(members, readers)
        if not inputs:
            raise _Declined(
                names, Reason.CLUSTER, "depends on constants only; ONNX Runtime computes it once"
            )
        calls = [call for m in members for call in m.calls]
        try:
            lowered = lower(calls, inputs, outputs, self.target)
            self._ask(lowered)
            compilation = self.runtime.compile(lowered.model, self.device, self.compile_options)
        except Peel as peel:
            raise _Declined(peel.nodes, peel.reason, peel.detail) from None
        except (RuntimeFailure, SpecError) as failure:
            detail = f"{self.device.name} did not compile its cluster: {failure}"
            raise _Declined(names, Reason.DRIVER, detail) from None
        report = ClusterReport(
            tuple(names),
            tuple(v.name for v in inputs),
            tuple(v.name for v in outputs),
            sum(bytes_of(v) for v in (*inputs, *outputs)),
            self.device.name,
        )
        ids = tuple(i for m in members for i in m.node.members or (m.node.id,))
        cpu = None
        if self.options.fallback is Fallback.CPU:
            nodes = [part for m in members for part in m.node.originals]
            cpu = CpuModel.keep(model_of(nodes, inputs, outputs, opsets))
        return CompiledCluster(ids, report, lowered, compilation, self.options.fallback, cpu)

    def _ask(self, lowered: Lowered) -> None:
        """Raises _Declined with the nodes of the first operations that the device declines."""
        answers = self.runtime.supported(lowered.model, self.device)
        pairs = zip(lowered.model.operations, answers, strict=True)
        declined = [op for op, yes in pairs if not yes]
        if declined:
            names = {name for op in declined for name in op.origin}
            kinds = ", ".join(sorted({op.spec.name for op in declined}))
            raise _Declined(names, Reason.DRIVER, f"{self.device.name} declines {kinds}")


def _partition(dag: nx.DiGraph, capable: Mapping[int, Judged]) -> list[tuple[int, ...]]:
    clusters = partition(dag, capable.keys())
    return [tuple(i for i in c if isinstance(i, int)) for c in clusters]


def _readers(graph: Graph) -> dict[str, frozenset[int]]:
    """For each value the ids of the nodes that read it; -1 stands for the graph's outputs."""
    found: dict[str, set[int]] = {}
    for node in graph.nodes:
        for name in (*(v.name for v in inputs_of(node)), *node.implicit):
            found.setdefault(name, set()).add(node.id)
    for value in graph.outputs:
        found.setdefault(value.name, set()).add(-1)
    return {name: frozenset(ids) for name, ids in found.items()}


def _crossing(
    members: Sequence[Judged], readers: Mapping[str, frozenset[int]]
) -> tuple[list[Value], list[Value]]:
    """What enters and what leaves the members, each once."""
    ids = {m.node.id for m in members}
    written = {v.name for m in members for v in outputs_of(m.node)}
    entering = {v.name: v for m in members for v in inputs_of(m.node) if v.name not in written}
    leaving = {
        v.name: v
        for m in members
        for v in outputs_of(m.node)
        if readers.get(v.name, frozenset()) - ids
    }
    return list(entering.values()), list(leaving.values())


def _drop(judged: dict[int, Judged], members: Sequence[Judged], no: _Declined) -> Refused:
    """Takes the declined members out of `judged`; all of them when none is named."""
    named = [m for m in members if no.names & {p.name for p in m.node.originals}] or list(members)
    for member in named:
        del judged[member.node.id]
    return {
        m.node.id: tuple(
            Rejection(p.name, p.op_type, no.reason, no.detail) for p in m.node.originals
        )
        for m in named
    }
