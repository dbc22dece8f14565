"""The tensors of a part of a graph, found without looking at all of them."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx

from partitioner.graph import Indexed
from partitioner.region import Region
from partitioner.tensors import Tensor, every_tensor, summed

MANY = 256  # a tensor that more clusters touch is followed no further than the part's own nodes


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
            if len(tensor.touched) > MANY:
                touched = set(tensor.touched)
                places = [i for s, i in own.items() if s in touched]
                everywhere = len(places) == len(touched)
            else:
                maybe = [home.get(find(s)) for s in tensor.touched]
                places = [i for i in maybe if i is not None]
                everywhere = len(places) == len(maybe)
            internal = tensor.internal and everywhere
            found.append((tensor.size, tuple(dict.fromkeys(places)), internal))
        return summed(found)

    def _gathered(self, find: Callable[[int], int]) -> list[Tensor]:
        if self._tensors is None:
            capable = self._graph.capable
            self._stands = [find(v) if flag else None for v, flag in enumerate(capable)]
            self._tensors = every_tensor(self._graph, self._dag, self._stands)
            for k, tensor in enumerate(self._tensors):
                for s in tensor.touched:
                    self._by_node.setdefault(s, []).append(k)
        return self._tensors
