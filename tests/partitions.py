"""The partitions that the provider makes of whole models, as the partitioner saw the graphs."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from unittest.mock import patch

import networkx as nx

import ep_nnapi
from ep_nnapi.costs import CostModel
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.options.table import without
from ep_nnapi.provider.cluster_selection import ClusterSelection, ClusterSelector
from partitioner import Costs, border_bytes
from tests.faulty import FaultyDevice, installed


@dataclass(frozen=True)
class Partition:
    """The last choice for a graph, and what it was made from."""

    dag: nx.DiGraph
    nodes: Mapping[int, GraphNode]
    capable: frozenset[int]
    choice: ClusterSelection
    model: CostModel

    @property
    def costs(self) -> Costs:
        return self.model.costs(self.nodes.values())

    @property
    def taken(self) -> set[Hashable]:
        return {node for cluster in self.choice.clusters for node in cluster}

    def estimate(self, clusters: Sequence[Sequence[Hashable]]) -> float:
        """Microseconds of the graph with these clusters, each paying for its own border."""
        costs = self.costs
        taken = {node for cluster in clusters for node in cluster}
        nodes = sum((costs.there if i in taken else costs.here)[i] for i in self.nodes)
        border = border_bytes(self.dag, clusters) * costs.per_byte
        return nodes + border + len(clusters) * costs.per_cluster


def partitions_of(
    data: bytes, device: FaultyDevice | None = None, **options: object
) -> list[Partition]:
    """The partitions of a model's graphs, those of later rounds of a graph after the first."""
    last: dict[int, tuple[nx.DiGraph, Partition]] = {}
    select = ClusterSelector.select

    def recording(
        self: ClusterSelector,
        dag: nx.DiGraph,
        nodes: Mapping[int, GraphNode],
        capable: Iterable[int],
    ) -> ClusterSelection:
        able = frozenset(capable)
        choice = select(self, dag, nodes, able)
        copy = dag.copy()  # the planner clears its own, which is kept for its id
        last[id(dag)] = dag, Partition(copy, nodes, able, choice, self.model)
        return choice

    with ExitStack() as stack:
        if device is not None:
            stack.enter_context(installed(device))
        stack.enter_context(patch.object(ClusterSelector, "select", recording))
        ep_nnapi.check(data, **without(options))
    return [partition for _, partition in last.values()]


def declining(data: bytes, every: int, **options: object) -> FaultyDevice:
    """A device that declines every so many-th node or group that is taken without it; 0: none."""
    if not every:
        return FaultyDevice()
    whole = partitions_of(data, None, **options)[0]
    taken = [i for cluster in whole.choice.clusters for i in cluster]
    names = [whole.nodes[i].originals[0].name for i in taken]
    return FaultyDevice(nodes=frozenset(names[every - 1 :: every]))
