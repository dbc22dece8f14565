"""The partition of a DAG's capable nodes into clusters.

Definition: clusters are disjoint and cover the capable nodes; contracting each to one node leaves
the graph acyclic (so each is convex: no path leaves and enters it again); with `connected`, each is
weakly connected by edges between its members. Members are in topological order.
What is sought: the fewest clusters, and among those the fewest `border_bytes`.

Guarantee with `connected`: always maximal, no two clusters can be merged. The graph falls apart
into regions that have no say in each other's clusters (`reduction`); where the search of every
region ends without dropping a state (`search`; how many states there are depends on how many nodes
are live at once, not on their number), the clusters are as few as can be, and their bytes as well,
but for tensors that several undecided regions read: each is decided by what was decided before it.
Any other region gets the best that a search, mergings in four orders (`starts`) and, while work is
left, rebuildings of that (`rebuilt`) find, so nothing that is worse than one of these.
Guarantee without `connected`: the clusters are as few as can be, as many as the most runs of
capable nodes on one path (`waves`); of their bytes, none.
Tie rule: everything is decided by structure, then by `sorted_nodes`; the order in which nodes and
edges were inserted has no say.
Cost: O(n log n + m), mergings (`merging`), and `WORK` + `WORK_PER_NODE` · n blocks looked at in
searches and as many edges in rebuildings; never a measure of time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from random import Random

import networkx as nx

from partitioner.chains import shortened
from partitioner.constraints import Atoms, Budget, parted
from partitioner.graph import Indexed, Region, Union, indexed
from partitioner.merging import earliest, forward, maximal, rebuilt, starts
from partitioner.plan import planned
from partitioner.reduction import reduced
from partitioner.search import search
from partitioner.tensors import Tensor, Touching, cost_of, every_tensor
from partitioner.waves import by_wave

WORK, WORK_PER_NODE = 40_000, 1
LEAST = 2  # work for each node without which nothing is searched
EDGE, STARTS = 4, 4  # what an edge of a merging counts; mergings that are made in any case
FIRST, WIDER = 4, 8  # states of the first search, and how many times as many the next one has
TensorsOf = Callable[[Region, Callable[[int], int]], list[Tensor]]


class Partition(list[tuple[Hashable, ...]]):
    """Clusters in an order in which they can run, and how good they are.

    lower_bound  clusters that every partition of these nodes has at least
    """

    def __init__(self, clusters: Iterable[tuple[Hashable, ...]], lower_bound: int) -> None:
        super().__init__(clusters)
        self.lower_bound = lower_bound

    @property
    def minimal(self) -> bool:
        """Whether it is proven that there are no fewer clusters."""
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

    (Cut between b and c, the tensor of b would cross the border as well as those of a and x. The
    tensor of a does anyway, since x reads it.)

    Raises: ValueError if `dag` is undirected, has parallel edges or a cycle, if a capable node
    is not in it, if a group cannot stay together, or for a budget without `connected`.
    """
    if budget is not None and not connected:
        raise ValueError("clusters within a budget must be connected")
    atoms = Atoms(dag, capable, groups, connected=connected)
    graph = indexed(atoms.dag, atoms.capable)
    clusters, least = grouped(graph, atoms.dag, connected=connected)
    if budget is not None:
        clusters = _within(budget, atoms, graph, clusters)
    return Partition([atoms.members(graph.nodes[v] for v in c) for c in clusters], least)


def grouped(
    graph: Indexed, dag: nx.DiGraph, *, connected: bool, effort: float = 1.0
) -> tuple[list[list[int]], int]:
    """The clusters of the nodes that are flagged capable, by number, and how many there must be.

    effort  what part of the usual work may go into searches
    """
    if not connected:
        stands = [v if flag else None for v, flag in enumerate(graph.region.capable)]
        waves = sequence(graph, by_wave(graph.region, every_tensor(graph, dag, stands)))
        return waves, len(waves)
    work = int(effort * (WORK + WORK_PER_NODE * len(graph.nodes)))
    union, spare = _solved(graph.region, Touching(graph, dag).of, work)
    clusters = sequence(graph, union.names())
    return clusters, len(clusters) - spare


def _within(
    budget: Budget, atoms: Atoms, graph: Indexed, clusters: list[list[int]]
) -> list[list[int]]:
    """Clusters within a budget."""
    label = list(range(len(graph.nodes)))
    for members in clusters:
        for v in members:
            label[v] = members[0]

    def fits(members: Sequence[int]) -> bool:
        return budget.fits(atoms.whole, atoms.members(graph.nodes[v] for v in members))

    return sequence(graph, parted(graph.region, label, fits))


def sequence(graph: Indexed, block: Sequence[int]) -> list[list[int]]:
    """Members of every cluster, ascending, clusters in an order in which they can run.

    block  the smallest member of the cluster of every capable node, and every other node itself
    Tie rule: of the blocks that can run, the one with the smallest member is next.
    """
    members: dict[int, list[int]] = {}
    following: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    for v, row in enumerate(graph.region.preds):
        b = block[v]
        members.setdefault(b, []).append(v)
        for u in row:
            if block[u] != b:
                following.setdefault(block[u], []).append(b)
                missing[b] = missing.get(b, 0) + 1
    ready = [b for b in members if b not in missing]
    heapify(ready)
    clusters = []
    while ready:
        b = heappop(ready)
        if graph.region.capable[b]:
            clusters.append(members[b])
        for other in following.get(b, ()):
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, other)
    return clusters


@dataclass(frozen=True, slots=True)
class _Solved:
    """The block of each node of a region, by one of its nodes.

    spare  by how many clusters it may be above the fewest
    work   that it took
    """

    block: list[int]
    spare: int
    work: int


def _solved(region: Region, tensors_of: TensorsOf, work: int) -> tuple[Union, int]:
    """Clusters as disjoint sets of a region's numbers, and how many may be too many.

    tensors_of  the tensors of a part of the region, given what has been decided so far
    work        what it may take, shared out by size among the parts that need a search
    """
    union = Union(len(region.preds))
    parts = sorted(reduced(region, union), key=lambda p: (len(p[0].names), *p[0].names[:1]))
    waiting = sum(len(part.names) for part, _ in parts)
    known: dict[tuple[object, ...], _Solved] = {}
    used = spare = 0
    for part, least in parts:
        share = (work - used) * len(part.names) // waiting
        waiting -= len(part.names)
        if share < LEAST * len(part.names):
            found = _merged(part, partial(tensors_of, part, union.find), [], least, 0)
            spare += found.spare
            union.join(zip(part.names, [part.names[b] for b in found.block], strict=True))
            continue
        tensors = tensors_of(part, union.find)
        alike = (tuple(map(tuple, part.preds)), bytes(part.capable), tuple(tensors))
        if alike not in known:
            known[alike] = _searched(part, tensors, least, share)
            used += known[alike].work
        spare += known[alike].spare
        names = [part.names[b] for b in known[alike].block]
        union.join(zip(part.names, names, strict=True))
    return union, spare


def _searched(region: Region, tensors: Sequence[Tensor], least: int, work: int) -> _Solved:
    """By searches of growing width, each only for what is better than the best so far.

    Until one of them drops no state (the best is then optimal) or the next would be too much work;
    then the rest of the work goes into mergings.
    """
    units, priced, unit = shortened(region, tensors)
    plan = planned(units, priced)
    states, used, need = FIRST, 0, FIRST * plan.width
    block: list[int] = []
    lowest: int | None = None
    steps = plan.steps() if need <= work else []
    exact = False
    while not exact and used + need <= work:
        found = search(plan, steps, states, lowest)
        used += found.work
        need = found.work * WIDER
        states *= WIDER
        exact = found.exact
        if found.cost is not None:
            lowest = found.cost
            names = [units.names[b] for b in found.block]
            block = [names[i] if region.capable[v] else v for v, i in enumerate(unit)]
        if lowest is not None:
            least = max(least, int(min(found.least, lowest // plan.unit)))
    if exact:
        return _Solved(block, 0, used)
    return _merged(region, lambda: tensors, block, least, work - used)


def _merged(
    region: Region,
    tensors: Callable[[], Sequence[Tensor]],
    block: list[int],
    least: int,
    work: int,
) -> _Solved:
    """The best of a partition, if there is one, and of mergings: some starts, then rebuildings.

    Of those with the fewest clusters the bytes are counted, too, if there are several.
    """
    candidates = [*starts(region), *([maximal(region, block, forward)] if block else [])]
    counts = [_count(region, blocks) for blocks in candidates]
    fewest = [b for b, count in zip(candidates, counts, strict=True) if count == min(counts)]
    if all(blocks == fewest[0] for blocks in fewest) and not work:
        best = fewest[0]
    else:
        best = _rebuilt(region, tensors(), fewest, work)
    size = len(region.preds)
    least = max(least, *earliest(region.preds, range(size), region.capable))
    return _Solved(best, _count(region, best) - least, work)


def _count(region: Region, block: Sequence[int]) -> int:
    """The clusters of a partition: its blocks without incapable nodes, which are one each."""
    return len(set(block)) - region.capable.count(0)


def _rebuilt(
    region: Region, tensors: Sequence[Tensor], candidates: list[list[int]], work: int
) -> list[int]:
    """The best of some partitions and of what that is rebuilt to while work is left."""

    def cost(blocks: list[int]) -> tuple[int, int]:
        return cost_of(region, tensors, blocks)

    best = min(candidates, key=cost)
    lowest = cost(best)
    each = EDGE * (len(region.preds) + sum(map(len, region.preds)))
    random = Random(len(region.preds))
    for turn in range(work // each - STARTS):
        other = rebuilt(region, best, random, turn)
        if (found := cost(other)) <= lowest:
            best, lowest = other, found
    return best
