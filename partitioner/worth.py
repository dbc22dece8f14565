"""The capable nodes that are worth taking, if running and moving tensors have a price.

Definition: the cost is that of each node on its side, plus `Costs.per_byte` for each byte of a
tensor whose maker and some reader are on different sides, once per tensor (what comes from or
leaves to outside the graph is made or read here), plus `Costs.per_cluster` for each cluster. In a
cut, an arc costs its capacity if it leads from the near side to the far side.
Guarantee: with no cost per cluster the choice is optimal, a minimum cut in exact sums; of several,
the one that takes most. With one, the result never costs more than all or nothing.
Cost: at most 17 minimum cuts, 18 partitions of little effort and two of the usual one. A cut is
O(n² · m) at worst; as a rule some ten looks at every arc. networkx's `boykov_kolmogorov` and
`preflow_push` take 3 to 39 times as long on chains and random networks of some thousand nodes.
Source: Stone, "Multiprocessor scheduling with the aid of network flow algorithms" (1977); Goldberg
and Tarjan, "A new approach to the maximum-flow problem" (1988).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite
from typing import NamedTuple

import networkx as nx

from partitioner.clusters import labelled, sequence
from partitioner.graph import Indexed, Region, indexed, inverse, require_numbers
from partitioner.merging import wave_parts
from partitioner.tensors import uses

NEAR, FAR = 0, 1


class Network:
    """Nodes, and the heads and capacities of arcs, each of which is followed by its reverse."""

    def __init__(self) -> None:
        self.heads: list[int] = []
        self.capacities: list[float] = []
        self.arcs: list[list[int]] = [[], []]  # from each node

    def node(self) -> int:
        """A new node."""
        self.arcs.append([])
        return len(self.arcs) - 1

    def arc(self, tail: int, head: int, capacity: float, back: float = 0.0) -> None:
        """An arc, and its reverse."""
        self.arcs[tail].append(len(self.heads))
        self.arcs[head].append(len(self.heads) + 1)
        self.heads += [head, tail]
        self.capacities += [capacity, back]

    def together(self, ends: set[int], cost: float) -> None:
        """`cost`, once, unless all of `ends` are on one side."""
        if len(ends) == 2:
            one, other = ends
            self.arc(one, other, cost, cost)
        elif ends:
            some_near, some_far = self.node(), self.node()
            self.arc(some_near, some_far, cost)
            for end in sorted(ends):
                self.arc(end, some_near, inf)
                self.arc(some_far, end, inf)


def near_side(network: Network) -> bytearray:
    """1 for each node on the near side of a minimum cut, by a maximum flow along distances."""
    heads, arcs = network.heads, network.arcs
    room = _whole(network.capacities)  # that is left along each arc
    excess = [0] * len(arcs)  # what has come to each node, but not gone on
    for arc in arcs[NEAR]:
        excess[heads[arc]] += room[arc]
        room[arc], room[arc ^ 1] = 0, room[arc ^ 1] + room[arc]
    while True:
        distance, nearest = {FAR: 0}, [FAR]  # arcs with room on the way to the far node
        for v in nearest:  # grows
            for arc in arcs[v]:
                if room[arc ^ 1] and heads[arc] not in distance:
                    distance[heads[arc]] = distance[v] + 1
                    nearest.append(heads[arc])
        stuck = nearest[:0:-1]  # the farthest first, without the far node
        if not any(excess[v] for v in stuck):
            return bytearray([v not in distance for v in range(len(arcs))])
        for v in stuck:
            for arc in arcs[v] if excess[v] else ():
                if room[arc] and distance.get(heads[arc]) == distance[v] - 1:
                    flow = min(excess[v], room[arc])
                    room[arc] -= flow
                    room[arc ^ 1] += flow
                    excess[heads[arc]] += flow
                    excess[v] -= flow


def _whole(capacities: Sequence[float]) -> list[int]:
    """The same in whole numbers, to a scale that fits all; the infinite are more than all else."""
    ratios = [c.as_integer_ratio() if isfinite(c) else None for c in map(float, capacities)]
    scale = max([ratio[1] for ratio in ratios if ratio], default=1)  # each a power of two
    whole = [ratio[0] * (scale // ratio[1]) if ratio else 0 for ratio in ratios]
    infinite = sum(whole) + 1
    return [number if ratio else infinite for number, ratio in zip(whole, ratios, strict=True)]


ROUNDS = 8  # cuts along a new forest, from each start
QUICK = 1 / 32  # of the effort of `partition` goes into a choice that is only a step


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in one unit, microseconds for example; those of nodes are 0 if absent.

    Raises: ValueError for a cost that is negative, infinite or no number.
    """

    here: Mapping[Hashable, float]  # of each node where it stays if it is not taken
    there: Mapping[Hashable, float]  # of each node where it is taken to
    per_byte: float = 0.0  # of a tensor whose maker and some reader are on different sides, once
    per_cluster: float = 0.0  # of every cluster

    def __post_init__(self) -> None:
        """Checks all numbers: one that is none would decide for all or nothing."""
        for side in ("here", "there"):
            require_numbers(getattr(self, side), f"costs {side}")
        require_numbers({n: getattr(self, n) for n in ("per_byte", "per_cluster")}, "costs")


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Capable nodes that are not taken, and what it would cost more to take them by themselves."""

    nodes: tuple[Hashable, ...]
    loss: float


@dataclass(frozen=True, slots=True)
class Worth:
    """The clusters to take, and the estimates that they rest on."""

    clusters: list[tuple[Hashable, ...]]  # as by `partition`, of the nodes that are worth taking
    given_up: list[GivenUp]  # the other capable nodes, in connected pieces
    cost: float  # of everything, if the clusters are taken
    of_all: float  # if all capable nodes are taken
    of_none: float  # if no node is


def worth_it(
    dag: nx.DiGraph, capable: Iterable[Hashable], costs: Costs, *, connected: bool = True
) -> Worth:
    """The capable nodes whose taking lowers the cost of everything, as clusters.

    Along a forest of a choice's clusters their number is a sum: each taken node pays for one unless
    its parent is taken, too. For other choices that is an estimate; the minimum cut by it is next,
    while its true cost is lower. Starts are everything, and the best choice if clusters are free.

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
    none = market.choice(bytearray(len(graph.inside)))
    starts = every, market.choice(market.cut({}, 0.0))
    best = min([market.improved(start) for start in starts], key=_Selection.rank)
    best = min(market.choice(best.taken, effort=1.0), best, every, none, key=_Selection.rank)
    clusters = [graph.members(members) for members in best.clusters]
    return Worth(clusters, market.given_up(best.taken), best.cost, every.cost, none.cost)


def savings(dag: nx.DiGraph, clusters: Sequence[Sequence[Hashable]], costs: Costs) -> list[float]:
    """For each cluster, what everything costs more if its nodes stay here and the others go."""
    graph = indexed(dag, {node for members in clusters for node in members})
    market = _Market(graph, dag, costs, connected=True)
    numbers = [[graph.number[node] for node in members] for members in clusters]
    return [-market.loss(members, graph.region.capable) for members in numbers]


class _Selection(NamedTuple):
    """Nodes to take, as flags, their clusters, and the cost of everything."""

    taken: bytearray
    clusters: list[tuple[int, ...]]
    cost: float

    def rank(self) -> tuple[float, int]:
        """Sort key: the lowest cost first, of equal ones that which takes most nodes."""
        return self.cost, -sum(self.taken)


class _Transfer(NamedTuple):
    """A tensor that costs something to move to the other side, once."""

    cost: float
    ends: tuple[int, ...]  # nodes that touch it; -1 among them for the outside and what stays here

    def paid(self, taken: Sequence[int]) -> float:
        """Return the cost if the flagged nodes are taken."""
        sides = {v >= 0 and bool(taken[v]) for v in self.ends}
        return self.cost if len(sides) > 1 else 0.0


class _Market:
    """A graph with prices."""

    def __init__(self, graph: Indexed, dag: nx.DiGraph, costs: Costs, connected: bool) -> None:
        self._graph, self._dag, self._connected = graph, dag, connected
        self._per_cluster = costs.per_cluster
        self._here = [costs.here.get(node, 0.0) for node in graph.number]
        self._there = [costs.there.get(node, 0.0) for node in graph.number]
        at = {node: v for node, v in graph.number.items() if graph.region.capable[v]}
        self._transfers: list[_Transfer] = []
        self._touching: list[list[int]] = [[] for _ in graph.inside]  # transfers of each node
        for size, maker, readers in uses(dag):
            ends = {at.get(node, -1) for node in (maker, *readers)}
            if size and len(ends) > 1:
                for v in ends - {-1}:
                    self._touching[v].append(len(self._transfers))
                self._transfers.append(_Transfer(size * costs.per_byte, tuple(sorted(ends))))

    def choice(self, taken: bytearray, effort: float = QUICK) -> _Selection:
        """Taking the flagged nodes."""
        graph = Indexed(self._graph.inside, Region(self._graph.region.preds, taken))
        label, _ = labelled(graph, self._dag, connected=self._connected, effort=effort)
        clusters = sequence(graph.region, label)
        sides = zip(taken, self._here, self._there, strict=True)
        cost = sum(there if flag else here for flag, here, there in sides)
        cost += sum(transfer.paid(taken) for transfer in self._transfers)
        return _Selection(taken, clusters, cost + self._per_cluster * len(clusters))

    def improved(self, choice: _Selection) -> _Selection:
        """A choice at least as good, by cuts along forests."""
        for _ in range(ROUNDS):
            parent = _forest(self._graph, choice.clusters, self._connected)
            better = self.choice(self.cut(parent, self._per_cluster))
            if better.rank() >= choice.rank():
                break
            choice = better
        return choice

    def cut(self, parent: Mapping[int, int], per_cluster: float) -> bytearray:
        """The nodes to take at the lowest cost, clusters counted along a forest."""
        network = Network()
        at = [network.node() if flag else FAR for flag in self._graph.region.capable]
        for v, node in enumerate(at):
            if node != FAR:  # without a parent it pays for a cluster wherever others are
                network.arc(node, at[parent[v]] if v in parent else FAR, per_cluster)
                gain = self._here[v] - self._there[v]
                network.arc(NEAR, node, max(gain, 0))
                network.arc(node, FAR, max(-gain, 0))
        for transfer in self._transfers:
            network.together({at[v] if v >= 0 else FAR for v in transfer.ends}, transfer.cost)
        near = near_side(network)
        return bytearray([node != FAR and near[node] for node in at])

    def loss(self, members: Sequence[int], taken: bytearray) -> float:
        """The cost of taking a cluster over that of leaving it, everything else as it is."""
        touching = {i for v in members for i in self._touching[v]}
        flags = bytearray(taken)
        paid = []
        for flag in (0, 1):
            for v in members:
                flags[v] = flag
            paid.append(sum(self._transfers[i].paid(flags) for i in touching))
        slower = sum(self._there[v] - self._here[v] for v in members)
        return self._per_cluster + slower + paid[1] - paid[0]

    def given_up(self, taken: bytearray) -> list[GivenUp]:
        """The capable nodes that are not taken, in connected pieces of one or more clusters."""
        capable = self._graph.region.capable
        left = bytearray([flag and not taken[v] for v, flag in enumerate(capable)])
        rest = Indexed(self._graph.inside, Region(self._graph.region.preds, left))
        label, _ = labelled(rest, self._dag, connected=True)
        found = []
        for members in inverse(wave_parts(rest.region, left)):
            if members and left[members[0]]:
                further = len({label[v] for v in members}) - 1
                loss = self.loss(members, taken) + further * self._per_cluster
                found.append(GivenUp(rest.members(members), loss))
        return found


def _forest(graph: Indexed, clusters: Sequence[Sequence[int]], connected: bool) -> dict[int, int]:
    """The parents of nodes in a forest along which clusters are counted; roots have none.

    Each cluster is connected in one tree, and no edge joins two clusters. Other capable nodes are
    in the trees as far as edges reach.
    """
    cluster = {v: i for i, members in enumerate(clusters) for v in members}
    capable = graph.region.capable
    near = nx.Graph()
    for v, row in enumerate(graph.region.preds):
        for u in row if capable[v] else ():
            homes = {cluster.get(u), cluster.get(v)}
            if capable[u] and (len(homes) == 1 or None in homes):
                near.add_edge(u, v, weight=2 if None in homes else 1)
    if not connected:
        pairs = (pair for members in clusters for pair in pairwise(members))
        near.add_edges_from(pairs, weight=1)
    tree = nx.minimum_spanning_tree(near)
    roots = map(min, nx.connected_components(tree))
    return {v: u for root in roots for v, u in nx.bfs_predecessors(tree, root)}
