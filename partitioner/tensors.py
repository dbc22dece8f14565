"""The tensors that a region's clusters may pay for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from partitioner.indexed import Indexed
from partitioner.region import Region

MANY = 256  # a tensor with more readers is looked at in the region only


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


def tensors_of(
    region: Region, graph: Indexed, dag: nx.DiGraph, find: Callable[[int], int]
) -> list[Tensor]:
    """The tensors whose price depends on how the region is partitioned.

    find  names the cluster that has been decided for a node so far; a reader elsewhere in the
          cluster of a node of the region counts as that node
    """
    number = {v: i for i, v in enumerate(region.names)}
    home = {find(v): i for i, v in enumerate(region.names)}
    readers: dict[int, list[int]] = {v: [] for v in region.names}
    for v in region.names:
        for u in graph.preds[v] if graph.capable[v] else ():
            readers.setdefault(u, []).append(v)
    made: list[tuple[int, tuple[int, ...], bool]] = []
    for u, inside in sorted(readers.items()):
        following = dag[graph.nodes[u]]
        if u in number or len(following) <= MANY:
            inside = sorted([graph.number[node] for node in following])  # noqa: PLW2901
        place = {w: number.get(w, home.get(find(w))) for w in inside if graph.capable[w]}
        if u in number and graph.capable[u]:
            place[u] = number[u]
        made += _made(u, inside, place, (graph, dag))
    return _merged([*made, *_from_outside(region, graph, dag)])


def cost_of(region: Region, tensors: Sequence[Tensor], block: Sequence[int]) -> tuple[int, int]:
    """Clusters and bytes of a partition that gives each node its block."""
    clusters = {b for v, b in enumerate(block) if region.capable[v]}
    prices = [tensor.price(len({block[v] for v in tensor.touched})) for tensor in tensors]
    return len(clusters), sum(prices)


def renamed(tensors: Sequence[Tensor], name: Sequence[int]) -> list[Tensor]:
    """Tensors as they are touched by what stands for each node."""
    return _merged((t.size, tuple({name[v]: None for v in t.touched}), t.internal) for t in tensors)


def _merged(tensors: Iterable[tuple[int, tuple[int, ...], bool]]) -> list[Tensor]:
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
    return _merged(found)


def _made(
    u: int,
    readers: Sequence[int],
    place: dict[int, int | None],
    source: tuple[Indexed, nx.DiGraph],
) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    """Size, touching nodes and whether internal, of each tensor that node `u` makes.

    place  the nodes of the region that stand for `u` and for its readers, where there are any
    """
    graph, dag = source
    sizes: dict[Hashable, int] = {}
    read_by: dict[Hashable, list[int]] = {}
    for w in readers:
        for tid, size in carried(dag, graph.nodes[u], graph.nodes[w]):
            sizes[tid] = max(size, sizes.get(tid, 0))
            read_by.setdefault(tid, []).append(w)
    maker = place.get(u)
    outputs = dag.nodes[graph.nodes[u]].get("outputs", ())
    for tid, reading in read_by.items():
        places = [place.get(w) for w in reading]
        inside = tuple({i: None for i in (maker, *places) if i is not None})
        internal = maker is not None and None not in places and tid not in outputs
        yield sizes[tid], inside, internal


def _from_outside(
    region: Region, graph: Indexed, dag: nx.DiGraph
) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    """Size and touching nodes of each tensor that comes from outside the graph."""
    sizes: dict[Hashable, int] = {}
    readers: dict[Hashable, list[int]] = {}
    for i, v in enumerate(region.names):
        if graph.capable[v]:
            for tid, size in dag.nodes[graph.nodes[v]].get("inputs", {}).items():
                sizes[tid] = max(size, sizes.get(tid, 0))
                readers.setdefault(tid, []).append(i)
    for tid, reading in readers.items():
        yield sizes[tid], tuple(reading), False
