"""Joints: the edges along which clusters can be connected."""

from __future__ import annotations

from collections.abc import Iterator

from partitioner.region import Region

LANDMARKS = 4096  # incapable nodes that are looked at, at most,
BITS = 1 << 28  # and so many bits for all nodes together


def joints(region: Region) -> Iterator[tuple[int, int]]:
    """Edges between capable nodes that are not strictly ordered.

    Two capable nodes are strictly ordered if a path from one to the other passes an incapable
    node: no cluster holds both.

    Guarantee: exact for up to `LANDMARKS` incapable nodes with capable nodes before and after
    them; of more, so many are looked at, evenly spread, and an edge around others only counts as
    a joint.
    Cost: O(n + m) operations on integers with a bit for each of those.
    """
    capable = region.capable
    marks = _landmarks(region)
    above = _marks_before(region, marks)
    below = _marks_after(region, marks)
    for v, row in enumerate(region.preds):
        if capable[v]:
            marked = above[v]
            for u in row:
                if capable[u] and not (marked and below[u] & marked):
                    yield u, v


def _landmarks(region: Region) -> dict[int, int]:
    """A bit for each incapable node that is looked at."""
    capable = region.capable
    size = len(capable)
    before, after = bytearray(size), bytearray(size)  # 1: a capable node is before it, after it
    for v, row in enumerate(region.preds):
        for u in row:
            if capable[u] or before[u]:
                before[v] = 1
                break
    for v in range(size - 1, -1, -1):
        if capable[v] or after[v]:
            for u in region.preds[v]:
                after[u] = 1
    relevant = [v for v in range(size) if before[v] and after[v] and not capable[v]]
    step = max(1, -(-len(relevant) // min(LANDMARKS, 1 + BITS // max(1, size))))
    return {v: 1 << i for i, v in enumerate(relevant[::step])}


def _marks_before(region: Region, marks: dict[int, int]) -> list[int]:
    """For each node, the landmarks that lead to it, itself included."""
    above: list[int] = []
    for v, row in enumerate(region.preds):
        bits = 0
        for u in row:
            more = above[u]
            if more is not bits:  # equal sets along a chain are one object
                both = bits | more
                bits = more if both == more else bits if both == bits else both
        above.append(bits | marks[v] if v in marks else bits)
    return above


def _marks_after(region: Region, marks: dict[int, int]) -> list[int]:
    """For each node, the landmarks that it leads to, itself included."""
    below = [0] * len(region.preds)
    for v in range(len(below) - 1, -1, -1):
        if v in marks:
            below[v] |= marks[v]
        bits = below[v]
        if bits:
            for u in region.preds[v]:
                more = below[u]
                if more is not bits:
                    both = bits | more
                    below[u] = bits if both == bits else more if both == more else both
    return below
