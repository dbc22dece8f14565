"""Tensors: what crosses the borders of clusters, and what the clusters of a region pay for.

Definition: a tensor counts once if it leaves the cluster that makes it, for another node or for
outside the graph, and once for every other cluster that reads it, whether a cluster, a node
outside clusters or the outside of the graph makes it.
Cost: O(n + m) for all tensors of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import networkx as nx

from partitioner.graph import Indexed, Region

_DEFAULT = object()  # the id of the tensor of an edge that does not say
_MANY = 256  # a tensor that more clusters touch is followed no further than a part's own nodes


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


def border_bytes(dag: nx.DiGraph, clusters: Sequence[Sequence[Hashable]]) -> int:
    """Bytes over the borders of `clusters`.

    >>> dag = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d")])  # one tensor of one byte
    >>> border_bytes(dag, ["a", "bc", "d"]), border_bytes(dag, ["ab"]), border_bytes(dag, ["abcd"])
    (3, 1, 0)
    """
    home = {node: i for i, members in enumerate(clusters) for node in members}
    total = 0
    outside: dict[Hashable, dict[int | None, int]] = {}
    for node, attributes in dag.nodes(data=True):
        made: dict[Hashable, dict[int | None, int]] = {}  # by tensor: who reads it, and its bytes
        for reader in dag.successors(node):
            for tid, size in carried(dag, node, reader):
                made.setdefault(tid, {})[home.get(reader)] = size
        for tid, size in attributes.get("outputs", {}).items():
            made.setdefault(tid, {})[None] = size
        total += sum(_crossing(readers, home.get(node)) for readers in made.values())
        for tid, size in attributes.get("inputs", {}).items():
            outside.setdefault(tid, {})[home.get(node)] = size
    return total + sum(_crossing(readers, None) for readers in outside.values())


def _crossing(readers: dict[int | None, int], maker: int | None) -> int:
    """Bytes of a tensor, given the clusters that read it (None: no cluster) and the one's it is."""
    size = max(readers.values())
    others = readers.keys() - {maker}
    return size * (len(others - {None}) + bool(others and maker is not None))


def cost_of(region: Region, tensors: Sequence[Tensor], block: Sequence[int]) -> tuple[int, int]:
    """Clusters and bytes of a partition that gives each node its block."""
    clusters = {b for v, b in enumerate(block) if region.capable[v]}
    prices = [tensor.price(len({block[v] for v in tensor.touched})) for tensor in tensors]
    return len(clusters), sum(prices)


def renamed(tensors: Sequence[Tensor], name: Sequence[int]) -> list[Tensor]:
    """Tensors as they are touched by what stands for each node."""
    return _summed((t.size, tuple({name[v]: None for v in t.touched}), t.internal) for t in tensors)


def _summed(tensors: Iterable[tuple[int, tuple[int, ...], bool]]) -> list[Tensor]:
    """Tensors by size, touching nodes and whether internal: alike as one, without idle ones."""
    sizes: dict[tuple[tuple[int, ...], bool], int] = {}
    for size, touched, internal in tensors:
        if len(touched) > 1 and size:
            sizes[touched, internal] = sizes.get((touched, internal), 0) + size
    return [Tensor(size, *key) for key, size in sorted(sizes.items())]


def every_tensor(graph: Indexed, dag: nx.DiGraph, stands: Sequence[int | None]) -> list[Tensor]:
    """The tensors whose price is not decided, as touched by what stands for each node.

    stands  for each node the one that names its cluster so far; None for one that is not capable
    """
    made = (_made(u, stands, graph, dag) for u in range(len(graph.nodes)))
    return _summed([*chain.from_iterable(made), *_from_outside(stands, graph, dag)])


def _made(
    u: int, stands: Sequence[int | None], graph: Indexed, dag: nx.DiGraph
) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    """Size, touching nodes and whether internal, of each tensor that node `u` makes."""
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


class Touching:
    """The tensors of a graph by what touches them.

    They are gathered when first asked for: by then whatever needs no search has been decided, and
    most tensors lie within a cluster for good.
    """

    def __init__(self, graph: Indexed, dag: nx.DiGraph) -> None:
        self._graph = graph
        self._dag = dag
        self._tensors: list[Tensor] | None = None
        self._stands: list[int | None] = []  # for each node, what stood for it at that time
        self._by_node: dict[int | None, list[int]] = {}  # the tensors that each such node touches

    def of(self, region: Region, find: Callable[[int], int]) -> list[Tensor]:
        """The tensors whose price depends on how the region is partitioned.

        find  names the cluster that has been decided for a node so far: what its nodes outside the
              region touch, the region's node touches
        Cost: the tensors of the region's nodes, but for those of the node with most. (A tensor that
        two of them touch is among those of another. A hub of many regions would cost its own
        tensors for each.)
        """
        tensors = self._gathered(find)
        home = {find(v): i for i, v in enumerate(region.names)}
        capable = [v for i, v in enumerate(region.names) if region.capable[i]]
        own = {self._stands[v]: home[find(v)] for v in capable}
        rows = sorted((self._by_node.get(s, []) for s in own), key=len)
        found = []
        for k in sorted({k for row in rows[:-1] for k in row}):
            tensor = tensors[k]
            if len(tensor.touched) > _MANY:
                touched = set(tensor.touched)
                places = [i for s, i in own.items() if s in touched]
                everywhere = len(places) == len(touched)
            else:
                maybe = [home.get(find(s)) for s in tensor.touched]
                places = [i for i in maybe if i is not None]
                everywhere = len(places) == len(maybe)
            internal = tensor.internal and everywhere
            found.append((tensor.size, tuple(dict.fromkeys(places)), internal))
        return _summed(found)

    def _gathered(self, find: Callable[[int], int]) -> list[Tensor]:
        if self._tensors is None:
            flags = self._graph.region.capable
            self._stands = [find(v) if flag else None for v, flag in enumerate(flags)]
            self._tensors = every_tensor(self._graph, self._dag, self._stands)
            for k, tensor in enumerate(self._tensors):
                for s in tensor.touched:
                    self._by_node.setdefault(s, []).append(k)
        return self._tensors
