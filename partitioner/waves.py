"""Waves: the fewest clusters there can be, if a cluster need not be connected."""

from __future__ import annotations

from partitioner.indexed import Indexed


def waves(graph: Indexed) -> list[int]:
    """The wave of every node, counted from 1; of an incapable node, the waves that precede it.

    Definition: the wave of a capable node is the largest number of blocks of capable nodes,
    separated by incapable ones, on a path that ends in it.
    Guarantee: a wave is convex and waves run in ascending order. No partition has fewer
    clusters than there are waves, since each block of the longest alternation needs its own.
    Cost: O(n + m).
    """
    wave = [0] * len(graph.nodes)
    for v, row in enumerate(graph.preds):
        if graph.capable[v]:
            wave[v] = max((wave[u] + (not graph.capable[u]) for u in row), default=1)
        else:
            wave[v] = max((wave[u] for u in row), default=0)
    return wave


def by_wave(graph: Indexed) -> list[int]:
    """The first node of the wave of each capable node; an incapable node is its own."""
    first: dict[int, int] = {}
    return [first.setdefault(w, v) if graph.capable[v] else v for v, w in enumerate(waves(graph))]
