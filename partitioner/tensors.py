"""The tensors that a region's clusters may pay for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import networkx as nx

from partitioner.graph import Indexed
from partitioner.region import Region


@dataclass(frozen=True, slots=True, order=True)
class Tensor:
    """A tensor as the clusters of a region pay for it.

    size      bytes
    touched   the capable nodes of the region that make it, first, or read it
    internal  whether it is free while all of them share a cluster; otherwise it leaves anyway, or
              comes from outside, and every cluster that touches it pays
    """

    size: int
    touched: tuple[int, ...]
    internal: bool

    def price(self, clusters: int) -> int:
        """Bytes over the border when it is touched by this many clusters."""
        return 0 if self.internal and clusters == 1 else self.size * clusters


def carried(dag: nx.DiGraph, u: Hashable, v: Hashable) -> Iterable[tuple[Hashable, int]]:
    """Tensor ids and bytes on the edge from `u` to `v`; without the attribute, one of one byte."""
    tensors: dict[Hashable, int] | None = dag.edges[u, v].get("tensors")
    return ((_DEFAULT, 1),) if tensors is None else tensors.items()


_DEFAULT = object()  # the id of the tensor of an edge that does not say


def every_tensor(graph: Indexed, dag: nx.DiGraph, stands: Sequence[int | None]) -> list[Tensor]:
    """The tensors whose price is not decided, as touched by what stands for each node.

    stands  for each node the one that names its cluster so far; None for one that is not capable
    Cost: O(n + m).
    """
    made = (_made(u, stands, graph, dag) for u in range(len(graph.nodes)))
    return summed([*chain.from_iterable(made), *_from_outside(stands, graph, dag)])


def cost_of(region: Region, tensors: Sequence[Tensor], block: Sequence[int]) -> tuple[int, int]:
    """Clusters and bytes of a partition that gives each node its block."""
    clusters = {b for v, b in enumerate(block) if region.capable[v]}
    prices = [tensor.price(len({block[v] for v in tensor.touched})) for tensor in tensors]
    return len(clusters), sum(prices)


def renamed(tensors: Sequence[Tensor], name: Sequence[int]) -> list[Tensor]:
    """Tensors as they are touched by what stands for each node."""
    return summed((t.size, tuple({name[v]: None for v in t.touched}), t.internal) for t in tensors)


def summed(tensors: Iterable[tuple[int, tuple[int, ...], bool]]) -> list[Tensor]:
    """Tensors by size, touching nodes and whether internal: alike as one, without idle ones."""
    sizes: dict[tuple[tuple[int, ...], bool], int] = {}
    for size, touched, internal in tensors:
        if len(touched) > 1 and size:
            sizes[touched, internal] = sizes.get((touched, internal), 0) + size
    return [Tensor(size, *key) for key, size in sorted(sizes.items())]


def localized(
    tensors: Iterable[Tensor], region: Region, find: Callable[[int], int]
) -> list[Tensor]:
    """`tensors`, which are numbered by the names of the region, as the region's own."""
    number = {v: i for i, v in enumerate(region.names)}
    home = {find(v): i for i, v in enumerate(region.names)}
    found = []
    for tensor in tensors:
        places = [number.get(v, home.get(find(v))) for v in tensor.touched]
        inside = tuple({i: None for i in places if i is not None})
        found.append((tensor.size, inside, tensor.internal and None not in places))
    return summed(found)


def _made(
    u: int, stands: Sequence[int | None], graph: Indexed, dag: nx.DiGraph
) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    """Size, touching nodes and whether internal, of each tensor that node `u` makes.

    stands  for each node the one that stands for it; None for a node that is not capable
    """
    node, maker = graph.nodes[u], stands[u]
    sizes: dict[Hashable, int] = {}
    read_by: dict[Hashable, set[int | None]] = {}
    for reader in dag[node]:
        place = stands[graph.number[reader]]
        for tid, size in carried(dag, node, reader):
            sizes[tid] = max(size, sizes.get(tid, 0))
            read_by.setdefault(tid, set()).add(place)
    outputs = dag.nodes[node].get("outputs", ())
    for tid, places in read_by.items():
        inside = sorted({w for w in places if w is not None} - {maker})
        if maker is not None:
            inside.insert(0, maker)
        yield sizes[tid], tuple(inside), not (maker is None or None in places or tid in outputs)


def _from_outside(
    stands: Sequence[int | None], graph: Indexed, dag: nx.DiGraph
) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    """Size and touching nodes of each tensor that comes from outside the graph."""
    for tid, readers in graph.outside.items():
        reading = [v for v in readers if stands[v] is not None]
        places = {w for v in reading if (w := stands[v]) is not None}
        if len(places) > 1:
            size = max(dag.nodes[graph.nodes[v]]["inputs"][tid] for v in reading)
            yield size, tuple(sorted(places)), False
