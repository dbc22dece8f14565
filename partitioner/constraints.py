"""Constraints on clusters: nodes that stay together, and what one cluster may hold.

Definition: a group lies in one cluster, and with it all that is on paths between its nodes; groups
that share a node are one. A budget limits the nodes of a cluster, the bytes of its weights (node
attribute `weights`, a dict from an id to bytes) and those of its activations, the tensors that its
nodes make or read; whatever several nodes use counts once.
Guarantee: groups are exact, since each is one node of the graph that is partitioned. What is beyond
the budget is parted: clusters stay connected and convex, and no two can be merged within it.
Cost: O(n + m) for groups; for a budget, the nodes of a cluster for each that joins it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import networkx as nx

from partitioner.graph import Region, indexed
from partitioner.merging import Fits, backward, forward
from partitioner.tensors import carried


class Atoms:
    """A graph whose groups are one node each, which goes by the first of them.

    Raises: ValueError if a group holds a node that is not capable, if one lies on a path between
    its nodes, or, with `connected`, if its nodes are not connected.
    """

    def __init__(
        self,
        dag: nx.DiGraph,
        capable: Iterable[Hashable],
        groups: Iterable[Iterable[Hashable]],
        *,
        connected: bool,
    ) -> None:
        self.whole = self.dag = dag
        self.capable = set(capable)
        self._inside: dict[Hashable, list[Hashable]] = {}
        together = nx.utils.UnionFind()
        for group in map(list, groups):
            together.union(*group)
            if strange := [node for node in group if node not in self.capable]:
                raise ValueError(f"group {group} holds {strange[0]!r}, which is not capable")
        if any(True for _ in together):
            self._contract(together, indexed(dag, self.capable).nodes, connected)

    def members(self, atoms: Iterable[Hashable]) -> tuple[Hashable, ...]:
        """The nodes of atoms."""
        return tuple([node for a in atoms for node in self._inside.get(a, (a,))])

    def _contract(
        self, together: nx.utils.UnionFind, nodes: Sequence[Hashable], connected: bool
    ) -> None:
        """Contracts groups and all that lies between their nodes."""
        name = {node: together[node] for node in nodes}
        quotient = nx.DiGraph([(name[u], name[v]) for u, v in self.dag.edges])
        for part in nx.strongly_connected_components(quotient):
            if between := [a for a in part if len(part) > 1 and a not in self.capable]:
                group = [node for node in nodes if name[node] in part - set(between)]
                raise ValueError(f"group {group} cannot stay together: {between[0]!r} lies between")
            together.union(*part)
        for node in nodes:
            self._inside.setdefault(together[node], []).append(node)
        self._inside = {inside[0]: inside for inside in self._inside.values()}
        first = {node: a for a, inside in self._inside.items() for node in inside}
        for inside in self._inside.values():
            if connected and not nx.is_weakly_connected(self.dag.subgraph(inside)):
                raise ValueError(f"group {inside} is not connected")
        self.dag = _contracted(self.dag, nodes, first)
        self.capable = {first[node] for node in self.capable}


def _contracted(
    dag: nx.DiGraph, nodes: Sequence[Hashable], first: dict[Hashable, Hashable]
) -> nx.DiGraph:
    """The graph of what each node is part of, with the tensors between."""
    smaller = nx.DiGraph()
    for u in nodes:
        smaller.add_node(first[u])
        data, own = smaller.nodes[first[u]], dag.nodes[u]
        data.setdefault("inputs", {}).update(own.get("inputs", {}))
        data.setdefault("outputs", {}).update(
            {(u, t): b for t, b in own.get("outputs", {}).items()}
        )
    for u, v in dag.edges:
        if first[u] != first[v]:
            if not smaller.has_edge(first[u], first[v]):
                smaller.add_edge(first[u], first[v], tensors={})
            tensors = smaller.edges[first[u], first[v]]["tensors"]
            tensors.update({(u, tid): size for tid, size in carried(dag, u, v)})
    return smaller


@dataclass(frozen=True, slots=True)
class Budget:
    """What one cluster may hold; None: any number.

    nodes        how many
    weights      bytes of what node attributes `weights` name
    activations  bytes of the tensors that its nodes make or read
    """

    nodes: int | None = None
    weights: int | None = None
    activations: int | None = None

    def __post_init__(self) -> None:
        """Raises: ValueError if a limit is negative."""
        if min(self.nodes or 0, self.weights or 0, self.activations or 0) < 0:
            raise ValueError("limits of a budget cannot be negative")

    @staticmethod
    def needed(dag: nx.DiGraph, nodes: Sequence[Hashable]) -> Budget:
        """The smallest budget that some nodes of a graph fit as one cluster.

        >>> dag = nx.DiGraph([("a", "b"), ("b", "c")])
        >>> Budget.needed(dag, "ab")
        Budget(nodes=2, weights=0, activations=2)
        """
        return Budget(len(nodes), _bytes(_weights(dag, nodes)), _bytes(_tensors(dag, nodes)))

    def fits(self, dag: nx.DiGraph, nodes: Sequence[Hashable]) -> bool:
        """Whether some nodes of a graph may be one cluster.

        >>> dag = nx.DiGraph([("a", "b"), ("b", "c")])
        >>> [Budget(activations=2).fits(dag, nodes) for nodes in ("ab", "abc", "bc")]
        [True, True, True]
        """
        return (
            (self.nodes is None or len(nodes) <= self.nodes)
            and (self.weights is None or _bytes(_weights(dag, nodes)) <= self.weights)
            and (self.activations is None or _bytes(_tensors(dag, nodes)) <= self.activations)
        )


def _bytes(used: Iterable[tuple[Hashable, int]]) -> int:
    """The bytes of what is used, each once."""
    return sum(dict(used).values())


def _weights(dag: nx.DiGraph, nodes: Iterable[Hashable]) -> Iterable[tuple[Hashable, int]]:
    return (item for node in nodes for item in dag.nodes[node].get("weights", {}).items())


def _tensors(dag: nx.DiGraph, nodes: Iterable[Hashable]) -> Iterable[tuple[Hashable, int]]:
    for v in nodes:
        for u, w in (*((u, v) for u in dag.pred[v]), *((v, w) for w in dag.succ[v])):
            for tid, size in carried(dag, u, w):
                yield (True, u, tid), size
        for tid, size in dag.nodes[v].get("outputs", {}).items():
            yield (True, v, tid), size
        for tid, size in dag.nodes[v].get("inputs", {}).items():
            yield (False, None, tid), size


def parted(region: Region, label: Sequence[int], fits: Fits) -> list[int]:
    """Clusters within limits, by the smallest node of each: those beyond are dissolved and remade.

    label  of each node, the smallest of its cluster
    fits   whether nodes of the region are within the limits
    """
    members: dict[int, list[int]] = {}
    for v, b in enumerate(label):
        members.setdefault(b, []).append(v)
    beyond = {b for b, inside in members.items() if len(inside) > 1 and not fits(inside)}
    if not beyond:
        return list(label)
    smaller, where = region.contracted([v if b in beyond else b for v, b in enumerate(label)])
    inside = [[v] if label[v] in beyond else members[label[v]] for v in smaller.names]

    def fit(blocks: Sequence[int]) -> bool:
        return fits([v for b in blocks for v in inside[b]])

    ways: list[Callable[[Region, Fits], list[int]]] = [forward, backward]
    found = min((way(smaller, fit) for way in ways), key=lambda block: len(set(block)))
    first: dict[int, int] = {}
    return [first.setdefault(found[i], v) for v, i in enumerate(where)]
