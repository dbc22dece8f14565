"""Worth it: which capable nodes to take if taking has a price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import networkx as nx

from partitioner.clusters import grouped
from partitioner.costs import Costs, carriages
from partitioner.cut import FAR, NEAR, Network, near_side
from partitioner.forest import forest
from partitioner.graph import Indexed, Union, indexed

ROUNDS = 8  # cuts along a new forest, from each start
QUICK = 1 / 32  # of the effort of `partition` goes into a choice that is only a step


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Capable nodes that are not taken, and what it would cost more to take them by themselves."""

    nodes: tuple[Hashable, ...]
    loss: float


@dataclass(frozen=True, slots=True)
class Worth:
    """What to take, and the estimates that this rests on.

    clusters  as by `partition`, of the nodes that are worth taking
    given_up  the other capable nodes, in connected pieces
    cost      of everything, if the clusters are taken
    of_all    if all capable nodes are taken
    of_none   if no node is
    """

    clusters: list[tuple[Hashable, ...]]
    given_up: list[GivenUp]
    cost: float
    of_all: float
    of_none: float


def worth_it(
    dag: nx.DiGraph, capable: Iterable[Hashable], costs: Costs, *, connected: bool = True
) -> Worth:
    """The capable nodes whose taking lowers the cost of everything, as clusters.

    Definition: the cost is that of each node on its side, plus `costs.per_byte` for each byte of
    a tensor whose maker and some reader are on different sides, once per tensor (what comes from
    or leaves to outside the graph is made or read here), plus `costs.per_cluster` for each.

    Guarantee: with no cost per cluster the choice is optimal, a minimum cut; of several, the one
    that takes most. The number of clusters is no sum over nodes and tensors, but along a forest
    it is: each taken node pays for a cluster unless its parent in the forest is taken, too. Along
    a forest of the best choice's clusters that is its true cost, and for other choices an
    estimate; the minimum cut of it is next, while its true cost is lower. This starts from
    everything, and from what is optimal if clusters are free; each round also tries to drop the
    clusters that cost more than they save. The result is never dearer than all or nothing.
    Cost: at most 17 minimum cuts, 33 partitions of little effort and two of the usual one.

    >>> dag = nx.DiGraph([("a", "b"), ("b", "x"), ("x", "c")])
    >>> costs = Costs(dict.fromkeys("abxc", 5), dict.fromkeys("abc", 2), per_cluster=4)
    >>> worth = worth_it(dag, "abc", costs)  # a and b gain 6 for 4, c would gain 3
    >>> worth.clusters, worth.given_up
    ([('a', 'b')], [GivenUp(nodes=('c',), loss=1.0)])
    >>> worth.cost, worth.of_all, worth.of_none
    (18.0, 19.0, 20.0)
    """
    graph = indexed(dag, capable)
    market = _Market(graph, dag, costs, connected)
    every = market.choice(graph.region.capable, effort=1.0)
    none = market.choice(bytearray(len(graph.nodes)))
    starts = every, market.choice(market.cut(None))
    best = min([market.improved(start) for start in starts], key=_Choice.rank)
    best = min(market.choice(best.taken, effort=1.0), best, every, none, key=_Choice.rank)
    return Worth(
        [tuple([graph.nodes[v] for v in members]) for members in best.clusters],
        market.given_up(best.taken),
        best.cost,
        every.cost,
        none.cost,
    )


def savings(dag: nx.DiGraph, clusters: Sequence[Sequence[Hashable]], costs: Costs) -> list[float]:
    """For each cluster, what everything costs more if its nodes stay here and the others go."""
    taken = {node for members in clusters for node in members}
    graph = indexed(dag, taken)
    market = _Market(graph, dag, costs, connected=True)
    numbers = [[graph.number[node] for node in members] for members in clusters]
    return [-market.loss(members, graph.region.capable) for members in numbers]


@dataclass(frozen=True, slots=True)
class _Choice:
    """Nodes to take, as flags, their clusters, and the cost of everything."""

    taken: bytearray
    clusters: list[list[int]]
    cost: float

    def rank(self) -> tuple[float, int]:
        """Lowest first: the cost, then what takes most."""
        return self.cost, -sum(self.taken)


class _Market:
    """A graph with prices."""

    def __init__(self, graph: Indexed, dag: nx.DiGraph, costs: Costs, connected: bool) -> None:
        self._graph = graph
        self._dag = dag
        self._per_cluster = costs.per_cluster
        self._connected = connected
        self._here = [costs.here.get(node, 0.0) for node in graph.nodes]
        self._there = [costs.there.get(node, 0.0) for node in graph.nodes]
        self._carriages = carriages(graph, dag, costs.per_byte)
        self._touching: list[list[int]] = [[] for _ in graph.nodes]
        for k, carriage in enumerate(self._carriages):
            for v in {carriage.maker, *carriage.readers} - {-1}:
                self._touching[v].append(k)

    def choice(self, taken: bytearray, effort: float = QUICK) -> _Choice:
        """Taking the flagged nodes."""
        graph = self._graph.taking(taken)
        clusters, _ = grouped(graph, self._dag, connected=self._connected, effort=effort)
        sides = zip(taken, self._here, self._there, strict=True)
        cost = sum(there if flag else here for flag, here, there in sides)
        cost += sum(carriage.paid(taken) for carriage in self._carriages)
        return _Choice(taken, clusters, cost + self._per_cluster * len(clusters))

    def improved(self, choice: _Choice) -> _Choice:
        """A choice at least as good, by cuts along forests and by dropping clusters."""
        for _ in range(ROUNDS):
            parent = forest(self._graph, choice.clusters, self._connected)
            better = min(
                self.choice(self.cut(parent)), self.choice(self._dropped(choice)), key=_Choice.rank
            )
            if better.rank() >= choice.rank():
                break
            choice = better
        return choice

    def cut(self, parent: Sequence[int] | None) -> bytearray:
        """What to take at the lowest cost, clusters counted along a forest, or not at all."""
        network = Network()
        at = [network.node() if flag else FAR for flag in self._graph.region.capable]
        for v, node in enumerate(at):
            if node == FAR:
                continue
            gain = self._here[v] - self._there[v]
            if parent is not None and parent[v] < 0:
                gain -= self._per_cluster
            elif parent is not None:
                network.arc(node, at[parent[v]], self._per_cluster)
            if gain > 0:
                network.arc(NEAR, node, gain)
            else:
                network.arc(node, FAR, -gain)
        for carriage in self._carriages:
            maker = FAR if carriage.maker < 0 else at[carriage.maker]
            readers = sorted({FAR if r < 0 else at[r] for r in carriage.readers})
            if maker != FAR:
                network.all_or_cost(maker, readers, carriage.cost)
            network.none_or_cost(maker, [r for r in readers if r != FAR], carriage.cost)
        near = near_side(network)
        return bytearray([node != FAR and near[node] for node in at])

    def _dropped(self, choice: _Choice) -> bytearray:
        """What is taken without the clusters that cost more than they save."""
        taken = bytearray(choice.taken)
        for members in choice.clusters:
            if self.loss(members, taken) > 0:
                for v in members:
                    taken[v] = 0
        return taken

    def loss(self, members: Sequence[int], taken: bytearray) -> float:
        """What it costs more to take a cluster than to leave it, everything else as it is."""
        loss = self._per_cluster + sum(self._there[v] - self._here[v] for v in members)
        touching = [self._carriages[k] for k in {k for v in members for k in self._touching[v]}]
        flags = bytearray(taken)
        for flag, sign in ((1, 1), (0, -1)):
            for v in members:
                flags[v] = flag
            loss += sign * sum(carriage.paid(flags) for carriage in touching)
        return loss

    def given_up(self, taken: bytearray) -> list[GivenUp]:
        """The capable nodes that are not taken, in connected pieces.

        A piece may be several clusters, where what cannot be taken lies between its nodes.
        """
        graph = self._graph
        left = bytearray([flag and not taken[v] for v, flag in enumerate(graph.region.capable)])
        union = Union(len(left))
        union.join(
            (u, v) for v, row in enumerate(graph.region.preds) for u in row if left[u] and left[v]
        )
        pieces: dict[int, list[int]] = {}
        piece = union.names()
        for v, flag in enumerate(left):
            if flag:
                pieces.setdefault(piece[v], []).append(v)
        alone = grouped(graph.taking(left), self._dag, connected=True)[0] if pieces else []
        clusters = Counter(piece[members[0]] for members in alone)
        return [
            GivenUp(
                tuple([graph.nodes[v] for v in members]),
                self.loss(members, taken) + (clusters[name] - 1) * self._per_cluster,
            )
            for name, members in pieces.items()
        ]
