"""Tensors: their producers and consumers, and the bytes that cross the borders of clusters.

Definition: a tensor counts once if it leaves the cluster that makes it, for another node or for
outside the graph, and once for every other cluster that reads it, whatever makes it.
Guarantee: the prices of a region's tensors, summed, differ from the bytes of the whole graph by
what no partition of that region changes.
Cost: O(n + m) for all tensors of a graph.
Source: the rules of this definition; tests compare them with a count from the edges.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import networkx as nx

from partitioner.graph import Indexed, Rows

OUTSIDE = object()  # what makes the inputs of a graph, and reads its outputs
UNIT: Mapping[Hashable, int] = {object(): 1}  # what an edge carries that does not say
Name = TypeVar("Name", bound=Hashable)
Use = tuple[int, Hashable, Collection[Hashable]]  # bytes, maker, readers


class TensorUse(NamedTuple):
    """A tensor as the clusters of a region pay for it: all that touch it."""

    size: int  # bytes
    touched: tuple[int, ...]  # the capable nodes of the region that make or read it
    internal: bool  # free while all that touch it share a cluster

    def price(self, clusters: int) -> int:
        """Bytes over the border when it is touched by this many clusters."""
        return 0 if self.internal and clusters == 1 else self.size * clusters


def uses(dag: nx.DiGraph, makers: Collection[Hashable] | None = None) -> Iterator[Use]:
    """Every tensor, or those of `makers`: the most bytes that a reader sees, maker and readers."""
    seen: dict[tuple[Hashable, Hashable], list[tuple[int, Hashable]]] = {}  # by maker and id
    for node, own in dag.nodes(data=True):
        for tid, size in own.get("outputs", {}).items() if own else ():
            seen.setdefault((node, tid), []).append((size, OUTSIDE))
        for tid, size in own.get("inputs", {}).items() if own else ():
            seen.setdefault((OUTSIDE, tid), []).append((size, node))
    for node, row in dag.adjacency():
        if row and (makers is None or node in makers):
            if not any(row.values()):  # as below, which it is in a plain graph
                yield 1, node, row
                continue
            for reader, data in row.items():
                for tid, size in data.get("tensors", UNIT).items():
                    seen.setdefault((node, tid), []).append((size, reader))
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


def shares(
    dag: nx.DiGraph, graph: Indexed, parts: Rows, names: Iterable[Iterable[Name]]
) -> Iterator[tuple[int, int, list[Name], bool]]:
    """Tensors as (part, bytes, names of the part's nodes on it, True if it has no others)."""
    flags = graph.region.capable
    known: dict[tuple[int, Name], int] = {}
    number = {
        node: known.setdefault((p, name), len(known))
        for p, (part, row) in enumerate(zip(parts, names, strict=True))
        for v, name in zip(part, row, strict=True)
        if flags[v]
        for node in graph.inside[v]
    }
    places = list(known)
    at = number.get
    makers = {node for node, row in dag.adjacency() if row and len({at(node), *map(at, row)}) > 1}
    for size, maker, readers in uses(dag, makers):
        met = {at(maker), *map(at, readers)}
        if len(met) > 1 and size:
            found = [places[i] for i in met if i is not None]
            for part in {part for part, _ in found}:
                touched = [name for home, name in found if home == part]
                if len(touched) > 1:
                    yield part, size, touched, len(touched) == len(met)


def region_tensors(dag: nx.DiGraph, graph: Indexed, parts: Rows) -> list[list[TensorUse]]:
    """The tensors of which the partition of each part has a say, by places in it."""
    rows: list[list[TensorUse]] = [[] for _ in parts]
    for part, size, touched, internal in shares(dag, graph, parts, map(range, map(len, parts))):
        rows[part].append(TensorUse(size, tuple(touched), internal))
    return rows


def cheapest(dag: nx.DiGraph, graph: Indexed, parts: Rows, ways: Sequence[Rows]) -> list[int]:
    """For each part, the first of some ways to partition it that has the fewest bytes."""
    totals = [[0] * len(blocks) for blocks in ways]
    names = (zip(*blocks, strict=True) for blocks in ways)  # nodes of one name share each cluster
    for part, size, touched, internal in shares(dag, graph, parts, names) if parts else ():
        for way, blocks in enumerate(map(set, zip(*touched, strict=True))):
            totals[part][way] += size * len(blocks) if len(blocks) > 1 or not internal else 0
    return [total.index(min(total)) for total in totals]


def renamed(tensors: Iterable[TensorUse], name: Sequence[int]) -> list[TensorUse]:
    """The tensors between the units `name` of nodes, sorted; sizes of the same units add up."""
    sizes: dict[tuple[tuple[int, ...], bool], int] = {}
    for size, nodes, internal in tensors:
        touched = tuple(sorted({name[v] for v in nodes}))
        if len(touched) > 1:
            sizes[touched, internal] = sizes.get((touched, internal), 0) + size
    return [TensorUse(size, *key) for key, size in sorted(sizes.items())]
