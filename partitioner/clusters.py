"""The partition of a DAG's capable nodes into clusters.

Definition: clusters are disjoint and cover the capable nodes; contracting each to one node leaves
the graph acyclic (so each is convex: no path leaves and enters it again); with `connected`, each is
weakly connected by edges between its members. Members are in topological order.
Objective: the fewest clusters, and among those the fewest `border_bytes`.
Guarantee with `connected`: no two clusters can be merged. The graph falls apart into regions that
have no say in each other's clusters (`reduction`); where the search of every region ends without
dropping a state (`search`), the clusters and then the bytes are as few as can be. Any other region
gets the best of a search and of mergings: forward, backward, of the latest waves and of the
earliest (in regions of more than `THOROUGH` nodes, if these are few enough unmerged).
Guarantee without `connected`: the fewest clusters (`merging`); of their bytes, none.
Tie rule: everything is decided by structure, then by `sorted_nodes`; the order in which nodes and
edges were inserted has no say.
Cost: O(n log n + m), mergings (`merging`), and `work_for` so many nodes, counted in blocks that
searches look at; never a measure of time. `limited` takes one `partition` more than it has rounds.
Source: the definition is that of ONNX Runtime's partitioning_utils.cc, made connected.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import cycle
from math import inf

import networkx as nx

from partitioner.constraints import Budget, grouped
from partitioner.graph import Indexed, Region, by_first, indexed, inverse
from partitioner.merging import backward, by_wave, earliest, forward, maximal, wave_parts, within
from partitioner.reduction import reduced, shortened
from partitioner.search import planned, search
from partitioner.tensors import TensorUse, cheapest, region_tensors

SMALL, SMALL_WORK = 48, 130_000  # regions of so few nodes are searched to the end, or nearly so
LEAST = 16  # work for each node without which a region is not searched
THOROUGH = 1_000  # larger regions are searched only if that seems possible; see `_merged`, too
FIRST, WIDER = 4, 4  # states of the first search, and how many times as many the next one has
Clusters = list[tuple[Hashable, ...]]
Blocks = list[Sequence[int]]  # partitions, each the block of each node by one of its nodes


class Partition(list[tuple[Hashable, ...]]):
    """Clusters in an order in which they can run; no partition has fewer than `lower_bound`."""

    def __init__(self, clusters: Iterable[tuple[Hashable, ...]], lower_bound: int) -> None:
        super().__init__(clusters)
        self.lower_bound = lower_bound

    @property
    def minimal(self) -> bool:
        """True if it is proven that there are no fewer clusters."""
        return len(self) == self.lower_bound


def partition(
    dag: nx.DiGraph,
    capable: Iterable[Hashable],
    *,
    connected: bool = True,
    groups: Iterable[Iterable[Hashable]] = (),
    budget: Budget | None = None,
) -> Partition:
    """Clusters of the `capable` nodes, in an order in which they can run.

    groups  sets of nodes of which each stays in one cluster
    budget  limits of a cluster; a node or a group that is beyond them is one by itself

    >>> dag = nx.DiGraph([("a", "b"), ("b", "c"), ("a", "x"), ("x", "c"), ("c", "d")])
    >>> found = partition(dag, {"a", "b", "c", "d"})  # x is not capable, between a and c
    >>> found, found.lower_bound, found.minimal
    ([('a',), ('b', 'c', 'd')], 2, True)
    >>> partition(dag, {"a", "b", "c", "d"}, groups=["ab"], budget=Budget(nodes=2))
    [('a', 'b'), ('c', 'd')]

    Raises: ValueError if `dag` is undirected, has parallel edges or a cycle, if a capable node
    is not in it, if a group cannot stay together, or for a budget without `connected`.
    """
    if budget is not None and not connected:
        raise ValueError("clusters within a budget must be connected")
    collecting = gc.isenabled()
    gc.disable()  # of a large graph's many short lists none is in a cycle: up to half of the time
    try:
        graph = grouped(indexed(dag, capable), dag, groups, connected=connected)
        label, least = labelled(graph, dag, connected=connected)
        if budget is not None:
            label = within(graph.region, label, lambda some: budget.fits(dag, graph.members(some)))
        return Partition(map(graph.members, sequence(graph.region, label)), least)
    finally:
        if collecting:
            gc.enable()


def limited(
    dag: nx.DiGraph,
    capable: Iterable[Hashable],
    *,
    connected: bool = True,
    min_cluster_nodes: int = 1,
    max_clusters: int | None = None,
    values: Callable[[Clusters], Sequence[float]] | None = None,
    budget: Budget | None = None,
) -> tuple[Partition, Clusters]:
    """Clusters within limits, and those that were given up for it.

    Clusters of fewer than `min_cluster_nodes` are given up, and of the others all but the
    `max_clusters` of highest value (by `values`, or nodes; of equal ones, the earlier is kept);
    then what is left, which those may have kept apart, is partitioned again, until nothing is.

    >>> dag = nx.DiGraph([("a", "b"), ("b", "x"), ("x", "c")])
    >>> limited(dag, "abc", min_cluster_nodes=2)
    ([('a', 'b')], [('c',)])
    >>> limited(dag, "abc", max_clusters=1, values=lambda clusters: [-len(c) for c in clusters])
    ([('c',)], [('a', 'b')])

    Raises: ValueError if a limit is negative, and as `partition`.
    """
    if min_cluster_nodes < 0 or (max_clusters is not None and max_clusters < 0):
        raise ValueError("min_cluster_nodes and max_clusters cannot be negative")
    able = set(capable)
    given_up: Clusters = []
    while True:
        clusters = partition(dag, able, connected=connected, budget=budget)
        worth = values(clusters) if values else list(map(len, clusters))
        large = [i for i, members in enumerate(clusters) if len(members) >= min_cluster_nodes]
        kept = set(sorted(large, key=lambda i: -worth[i])[:max_clusters])
        lost = [members for i, members in enumerate(clusters) if i not in kept]
        if not lost:
            return clusters, given_up
        given_up += lost
        able.difference_update(*lost)


def sequence(region: Region, label: Sequence[int]) -> list[tuple[int, ...]]:
    """Members of every cluster, ascending, in an order in which they can run, from their blocks."""
    smaller, where = region.contracted(label)
    return [nodes for nodes, flag in zip(inverse(where), smaller.capable, strict=True) if flag]


def work_for(nodes: int) -> int:
    """The work for regions of so many nodes: in proportion, after a start that small ones need."""
    large = 5_000 + 20 * min(nodes, 5_000) + max(0, nodes - 5_000)
    return SMALL_WORK if nodes <= SMALL else large


def labelled(
    graph: Indexed, dag: nx.DiGraph, *, connected: bool, effort: float = 1.0
) -> tuple[list[int], int]:
    """The block of each number, by one of its numbers, and clusters that there are at least."""
    region = graph.region
    if not connected:
        label = by_wave(region, region_tensors(dag, graph, [range(len(region.preds))])[0])
        return label, len(set(label)) - region.capable.count(0)
    label, parts = reduced(region)
    tensors: list[list[TensorUse]] = []  # of the last parts, gathered when a search asks for them
    ties: dict[int, Blocks] = {}  # of as few clusters
    waiting, spare = sum(map(len, parts)), 0
    work = int(effort * work_for(waiting))  # shared out by size
    for i, nodes in enumerate(parts):
        part = region.part(nodes) if len(nodes) < len(label) else region
        found: Blocks = []
        least: float = len({label[v] for v in nodes if region.capable[v]})
        share = work * len(nodes) // waiting
        waiting -= len(nodes)
        if share >= LEAST * len(nodes) and (
            len(nodes) <= THOROUGH or planned(shortened(part, [])[0], [], share // FIRST)
        ):
            tensors = tensors or region_tensors(dag, graph, parts[i:])
            found, least, used = _searched(part, tensors[i - len(parts)], least, share)
            work -= used
        if least < inf:
            found, longest = _merged(part, found)
            spare += len(set(found[0])) - part.capable.count(0) - int(max(least, longest))
            if len(found) > 1:
                ties[i] = found
        for v, b in zip(nodes, found[0], strict=True):
            label[v] = nodes[b]
    members, ways = [parts[i] for i in ties], list(ties.values())
    for nodes, found, best in zip(members, ways, cheapest(dag, graph, members, ways), strict=True):
        for v, b in zip(nodes, found[best], strict=True):
            label[v] = nodes[b]
    return label, len(set(label)) - region.capable.count(0) - spare


def _searched(
    region: Region, tensors: Sequence[TensorUse], least: float, work: int
) -> tuple[Blocks, float, int]:
    """By searches of growing width along the edges and against them in turn.

    Until one drops no state, or the next would be too much work. Returns the best partition, if one
    was found; clusters that there are at least, infinitely many if nothing is better; work.
    """
    units, priced, unit = shortened(region, tensors)
    ways = [planned(units, priced, work // FIRST)]
    if ways[0]:
        ways.append(planned(units, priced, work // FIRST, against=True))
    states, used, need = FIRST, 0, 0
    best: list[int] = []
    lowest: tuple[int, int] | None = None
    for steps in cycle(filter(None, ways)):
        if used + need > work:
            break
        found = search(steps, priced, states, lowest)
        used, need, states = used + found.work, found.work * WIDER, states * WIDER
        if found.cost is not None:
            lowest, best = found.cost, found.block
        if found.least == inf:
            least = inf
            break
        if lowest is not None:
            least = max(least, min(found.least, lowest[0]))
    pairs = enumerate(unit if best else ())
    block = by_first(best[i] if region.capable[v] else -1 - v for v, i in pairs)
    return [block] if block else [], least, used


def _merged(region: Region, searched: Blocks) -> tuple[Blocks, int]:
    """Of a search's partition and of mergings those of fewest clusters; and how many waves."""
    order = range(len(region.preds))
    early = earliest(region.preds, order, region.capable)
    late = earliest(region.succs, order[::-1], region.capable)
    found = [forward(region), backward(region), maximal(region, wave_parts(region, late))]
    found += [maximal(region, block) for block in searched]
    counts = [len(set(block)) for block in found]
    waves = wave_parts(region, early)
    if len(order) <= THOROUGH or len(set(waves)) <= min(counts):
        found.append(maximal(region, waves))
        counts.append(len(set(found[-1])))
    fewest = (b for b, count in zip(found, counts, strict=True) if count == min(counts))
    return list(dict.fromkeys(tuple(by_first(b)) for b in fewest)), max(early)
