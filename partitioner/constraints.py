"""Constraints on clusters: nodes that stay together, and what one cluster may hold.

Definition: a group lies in one cluster, and with it all that is on paths between its nodes; groups
that share a node are one. A budget limits the nodes of a cluster, the bytes of its weights (node
attribute `weights`, a dict from an id to bytes) and of the tensors that its nodes make or read;
whatever several nodes use counts once.
Guarantee: groups are exact, since each is one node of the graph that is partitioned. What is beyond
the budget is parted: clusters stay connected and convex, and no two can be merged within it.
Cost: O(n + m) for groups; for a budget, the nodes of a cluster for each that joins it.
Source: groups as in contraction by strongly connected components (networkx).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import networkx as nx

from partitioner.graph import Indexed, by_first
from partitioner.tensors import UNIT


def grouped(
    graph: Indexed, dag: nx.DiGraph, groups: Iterable[Iterable[Hashable]], *, connected: bool
) -> Indexed:
    """The graph with each group, and what is on paths between its nodes, as one number.

    Raises: ValueError if a group cannot stay together in one cluster.
    """
    found = [list(group) for group in groups]
    if not found:
        return graph
    able = set(graph.members(v for v, flag in enumerate(graph.region.capable) if flag))
    together = nx.utils.UnionFind(graph.number)
    for group in found:
        if strange := [node for node in group if node not in able]:
            raise ValueError(f"group {group} holds {strange[0]!r}, which is not capable")
        together.union(*group)
    quotient = nx.DiGraph((together[u], together[v]) for u, v in dag.edges)
    for component in nx.strongly_connected_components(quotient):
        together.union(*component)
    united = graph.contracted(by_first(together[v] for v in graph.number))
    for members in united.inside:
        group = [node for node in members if node in able]
        if group and len(group) < len(members):
            between = next(node for node in members if node not in able)
            raise ValueError(f"group {group} cannot stay together: {between!r} lies between")
        if connected and len(members) > 1 and not nx.is_weakly_connected(dag.subgraph(members)):
            raise ValueError(f"group {list(members)} is not connected")
    return united


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one cluster; None: any number."""

    nodes: int | None = None
    weights: int | None = None  # bytes of what node attributes `weights` name
    activations: int | None = None  # bytes of the tensors that its nodes make or read

    def __post_init__(self) -> None:
        if min(self.nodes or 0, self.weights or 0, self.activations or 0) < 0:
            raise ValueError("limits of a budget cannot be negative")

    @staticmethod
    def needed(dag: nx.DiGraph, nodes: Sequence[Hashable]) -> Budget:
        """The smallest budget that some nodes of a graph fit as one cluster."""
        return Budget(len(nodes), _weights(dag, nodes), _activations(dag, nodes))

    def fits(self, dag: nx.DiGraph, nodes: Sequence[Hashable]) -> bool:
        """Return True if some nodes of a graph may be one cluster.

        >>> dag = nx.DiGraph([("a", "b"), ("b", "c")])
        >>> Budget.needed(dag, "ab"), Budget(nodes=2).fits(dag, "abc")
        (Budget(nodes=2, weights=0, activations=2), False)
        """
        return (
            (self.nodes is None or len(nodes) <= self.nodes)
            and (self.weights is None or _weights(dag, nodes) <= self.weights)
            and (self.activations is None or _activations(dag, nodes) <= self.activations)
        )


def _weights(dag: nx.DiGraph, nodes: Iterable[Hashable]) -> int:
    """The bytes of weights that some nodes use, each once."""
    used = (item for v in nodes for item in dag.nodes[v].get("weights", {}).items())
    return sum(dict(used).values())


def _activations(dag: nx.DiGraph, nodes: Iterable[Hashable]) -> int:
    """The bytes of tensors that some nodes make or read, each once."""
    found: dict[tuple[Hashable, ...], int] = {}
    for v in nodes:
        for u, _, data in (*dag.in_edges(v, data=True), *dag.out_edges(v, data=True)):
            found |= {(u, tid): size for tid, size in data.get("tensors", UNIT).items()}
        found |= {(v, tid): size for tid, size in dag.nodes[v].get("outputs", {}).items()}
        found |= {(tid,): size for tid, size in dag.nodes[v].get("inputs", {}).items()}
    return sum(found.values())
