"""Tensors: who makes and reads them, and the bytes that cross the borders of clusters.

Definition: a tensor counts once if it leaves the cluster that makes it, for another node or for
outside the graph, and once for every other cluster that reads it, whether a cluster, a node
outside clusters or the outside of the graph makes it.
Guarantee: the prices of a region's tensors, summed, differ from the bytes of the whole graph by
what no partition of that region changes.
Cost: O(n + m) for all tensors of a graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from partitioner.graph import Region

OUTSIDE = object()  # what makes the inputs of a graph, and reads its outputs
_ONE: Mapping[Hashable, int] = {object(): 1}  # what an edge carries that does not say
Use = tuple[int, Hashable, Sequence[Hashable]]  # bytes, maker, readers


@dataclass(frozen=True, slots=True, order=True)
class Tensor:
    """A tensor as the clusters of a region pay for it.

    size      bytes
    touched   the capable nodes of the region that make or read it, ascending
    internal  True if it is free while all of them share a cluster; otherwise it leaves anyway, or
              comes from outside, and every cluster that touches it pays
    """

    size: int
    touched: tuple[int, ...]
    internal: bool

    def price(self, clusters: int) -> int:
        """Bytes over the border when it is touched by this many clusters."""
        return 0 if self.internal and clusters == 1 else self.size * clusters


def uses(dag: nx.DiGraph) -> Iterator[Use]:
    """Every tensor of a graph: its bytes, its maker and its readers; `OUTSIDE` may be either."""
    fed: dict[Hashable, tuple[int, list[Hashable]]] = {}
    for (node, row), (_, own) in zip(dag.adjacency(), dag.nodes(data=True), strict=True):
        if row and not own and not any(row.values()):  # as below, which it is in a plain graph
            yield 1, node, list(row)
            continue
        made: dict[Hashable, tuple[int, list[Hashable]]] = {}
        for reader, data in row.items():
            for tid, size in data.get("tensors", _ONE).items():
                _add(made, tid, size, reader)
        for tid, size in own.get("outputs", {}).items():
            _add(made, tid, size, OUTSIDE)
        for tid, size in own.get("inputs", {}).items():
            _add(fed, tid, size, node)
        for size, readers in made.values():
            yield size, node, readers
    for size, readers in fed.values():
        yield size, OUTSIDE, readers


def _add(
    read: dict[Hashable, tuple[int, list[Hashable]]], tid: Hashable, size: int, reader: Hashable
) -> None:
    """Add a reader of a tensor; its size is the largest that any of them sees."""
    known = read.get(tid)
    if known is None:
        read[tid] = size, [reader]
    else:
        known[1].append(reader)
        if size > known[0]:
            read[tid] = size, known[1]


def touches(dag: nx.DiGraph, v: Hashable) -> Iterator[tuple[Hashable, int]]:
    """An id and the bytes of every tensor that a node makes or reads."""
    for u, w in (*((u, v) for u in dag.pred[v]), *((v, w) for w in dag.succ[v])):
        for tid, size in dag.edges[u, w].get("tensors", _ONE).items():
            yield (True, u, tid), size
    for tid, size in dag.nodes[v].get("outputs", {}).items():
        yield (True, v, tid), size
    for tid, size in dag.nodes[v].get("inputs", {}).items():
        yield (False, None, tid), size


def border_bytes(dag: nx.DiGraph, clusters: Sequence[Sequence[Hashable]]) -> int:
    """Bytes over the borders of `clusters`.

    >>> dag = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d")])  # one tensor of one byte
    >>> border_bytes(dag, ["a", "bc", "d"]), border_bytes(dag, ["ab"]), border_bytes(dag, ["abcd"])
    (3, 1, 0)
    """
    home = {node: i for i, members in enumerate(clusters) for node in members}
    total = 0
    for size, maker, readers in uses(dag):
        made_in = home.get(maker)
        others = {home.get(reader) for reader in readers} - {made_in}
        total += size * (len(others - {None}) + bool(others and made_in is not None))
    return total


def region_tensors(
    dag: nx.DiGraph, place: Mapping[Hashable, tuple[int, int]], count: int
) -> list[list[Tensor]]:
    """For each region the tensors whose price depends on how it is partitioned.

    place  region of each capable node that is in one, and its number there
    count  how many regions there are
    """
    sizes: list[dict[tuple[tuple[int, ...], bool], int]] = [{} for _ in range(count)]
    for size, maker, readers in uses(dag):
        at = [place[node] for node in (maker, *readers) if node in place]
        if len(at) < 2 or not size:
            continue
        regions = {region for region, _ in at}
        internal = len(regions) == 1 and len(at) == 1 + len(readers)
        for region in regions:
            touched = tuple(sorted({v for home, v in at if home == region}))
            if len(touched) > 1:
                key = touched, internal
                sizes[region][key] = sizes[region].get(key, 0) + size
    return [_ordered(row) for row in sizes]


def renamed(tensors: Iterable[Tensor], name: Sequence[int]) -> list[Tensor]:
    """Tensors as touched by what each node is part of: those alike as one, none that is idle."""
    sizes: dict[tuple[tuple[int, ...], bool], int] = {}
    for tensor in tensors:
        touched = tuple(sorted({name[v] for v in tensor.touched}))
        if len(touched) > 1:
            key = touched, tensor.internal
            sizes[key] = sizes.get(key, 0) + tensor.size
    return _ordered(sizes)


def _ordered(sizes: Mapping[tuple[tuple[int, ...], bool], int]) -> list[Tensor]:
    return [Tensor(size, *key) for key, size in sorted(sizes.items())]


def cost_of(region: Region, tensors: Sequence[Tensor], block: Sequence[int]) -> tuple[int, int]:
    """Clusters and bytes of a partition that gives each node its block."""
    clusters = {b for v, b in enumerate(block) if region.capable[v]}
    prices = [tensor.price(len({block[v] for v in tensor.touched})) for tensor in tensors]
    return len(clusters), sum(prices)
