"""Tensors: who makes and reads them, and the bytes that cross the borders of clusters.

Definition: a tensor counts once if it leaves the cluster that makes it, for another node or for
outside the graph, and once for every other cluster that reads it, whatever makes it.
Guarantee: the prices of a region's tensors, summed, differ from the bytes of the whole graph by
what no partition of that region changes.
Cost: O(n + m) for all tensors of a graph.
Source: the rules of this definition; tests compare them with a count from the edges.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import networkx as nx

from partitioner.graph import Region

OUTSIDE = object()  # what makes the inputs of a graph, and reads its outputs
UNIT: Mapping[Hashable, int] = {object(): 1}  # what an edge carries that does not say
Use = tuple[int, Hashable, Sequence[Hashable]]  # bytes, maker, readers


class Tensor(NamedTuple):
    """A tensor as the clusters of a region pay for it: all that touch it."""

    size: int  # bytes
    touched: tuple[int, ...]  # the capable nodes of the region that make or read it
    internal: bool  # free while all that touch it share a cluster

    def price(self, clusters: int) -> int:
        """Bytes over the border when it is touched by this many clusters."""
        return 0 if self.internal and clusters == 1 else self.size * clusters


def uses(dag: nx.DiGraph) -> Iterator[Use]:
    """Every tensor of a graph: the most bytes that a reader sees, maker and readers."""
    seen: dict[tuple[Hashable, Hashable], list[tuple[int, Hashable]]] = {}  # by maker and id
    for (node, row), (_, own) in zip(dag.adjacency(), dag.nodes(data=True), strict=True):
        if row and not own and not any(row.values()):  # as below, which it is in a plain graph
            yield 1, node, list(row)
            continue
        for reader, data in row.items():
            for tid, size in data.get("tensors", UNIT).items():
                seen.setdefault((node, tid), []).append((size, reader))
        for tid, size in own.get("outputs", {}).items():
            seen.setdefault((node, tid), []).append((size, OUTSIDE))
        for tid, size in own.get("inputs", {}).items():
            seen.setdefault((OUTSIDE, tid), []).append((size, node))
    for (maker, _), found in seen.items():
        yield max([size for size, _ in found]), maker, [reader for _, reader in found]


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
    """For each region, the first of a node's `place`, tensors of which its partition has a say."""
    rows: list[list[Tensor]] = [[] for _ in range(count)]
    for size, maker, readers in uses(dag):
        regions: dict[int, list[int]] = {}
        for home in map(place.get, (maker, *readers)):
            if home:
                regions.setdefault(home[0], []).append(home[1])
        for region, touched in regions.items():
            if len(touched) > 1 and size:
                rows[region].append(Tensor(size, tuple(touched), len(touched) == 1 + len(readers)))
    return rows


def renamed(tensors: Iterable[Tensor], name: Sequence[int]) -> list[Tensor]:
    """Tensors as touched by what nodes are part of, sorted: equal ones once, those of one not."""
    sizes: dict[tuple[tuple[int, ...], bool], int] = {}
    for size, nodes, internal in tensors:
        touched = tuple(sorted({name[v] for v in nodes}))
        if len(touched) > 1:
            key = touched, internal
            sizes[key] = sizes.get(key, 0) + size
    return [Tensor(size, *key) for key, size in sorted(sizes.items())]


def cost_of(region: Region, tensors: Sequence[Tensor], block: Sequence[int]) -> tuple[int, int]:
    """Clusters and bytes of a partition that gives each node its block."""
    clusters = {b for b, flag in zip(block, region.capable, strict=True) if flag}
    total, block_of = 0, block.__getitem__
    for size, touched, internal in tensors:
        count = len(set(map(block_of, touched)))
        if count > 1 or not internal:
            total += size * count
    return len(clusters), total
