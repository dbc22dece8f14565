"""Costs of running nodes on either side, and of moving tensors between the two."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from partitioner.graph import Indexed
from partitioner.tensors import carried


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs in one unit, microseconds for example.

    here         of each node where it stays if it is not taken; 0 if absent
    there        of each node where it is taken to; 0 if absent
    per_byte     of a tensor whose maker and some reader are on different sides, once
    per_cluster  of every cluster
    """

    here: Mapping[Hashable, float]
    there: Mapping[Hashable, float]
    per_byte: float = 0.0
    per_cluster: float = 0.0


@dataclass(frozen=True, slots=True)
class Carriage:
    """A tensor that costs something to carry to the other side.

    cost     of carrying it, once
    maker    its node; -1 if it comes from outside or from a node that stays here
    readers  nodes that read it; -1 among them if it leaves, or a node that stays here reads it
    """

    cost: float
    maker: int
    readers: tuple[int, ...]

    def paid(self, taken: Sequence[int]) -> float:
        """What it costs if the flagged nodes are taken."""
        side = self.maker >= 0 and taken[self.maker]
        parted = any((r >= 0 and taken[r]) != side for r in self.readers)
        return self.cost if parted else 0.0


def carriages(graph: Indexed, dag: nx.DiGraph, per_byte: float) -> list[Carriage]:
    """Every tensor that a capable node makes or reads."""
    here = -1
    at = [v if flag else here for v, flag in enumerate(graph.region.capable)]
    sizes: dict[tuple[int, Hashable], int] = {}
    readers: dict[tuple[int, Hashable], list[int]] = {}

    def read(maker: int, tid: Hashable, size: int, reader: int) -> None:
        sizes[maker, tid] = max(size, sizes.get((maker, tid), 0))
        readers.setdefault((maker, tid), []).append(reader)

    for u, node in enumerate(graph.nodes):
        for w in sorted([graph.number[follower] for follower in dag.successors(node)]):
            for tid, size in carried(dag, node, graph.nodes[w]):
                read(u, tid, size, at[w])
        for tid, size in dag.nodes[node].get("outputs", {}).items():
            read(u, tid, size, here)
        for tid, size in dag.nodes[node].get("inputs", {}).items():
            read(here, tid, size, at[u])
    return [
        Carriage(sizes[key] * per_byte, at[key[0]] if key[0] >= 0 else here, tuple(reading))
        for key, reading in readers.items()
        if sizes[key] and (at[key[0]] >= 0 or max(reading) >= 0)
    ]
