"""Waves: a convex division into as few sets as there can be, which need not be connected.

Definition: the wave of a capable node is the largest number of blocks of capable nodes, separated
by incapable ones, on a path that ends in it (`earliest`); or, counted from the other end, as late.
Guarantee: nodes of one wave are convex, and waves can run in ascending order. No partition has
fewer clusters than there are waves: each block of a longest path needs one of its own. `by_wave`
has the fewest waves for certain, the fewest bytes not.
Cost: O(n + m) for the waves and for the tensors' touches.
Source: the waves are those of ONNX Runtime's partitioning_utils.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from partitioner.graph import Region, by_first, components
from partitioner.tensors import Tensor, cost_of

SWEEPS = 4


def earliest(
    reads: Sequence[Sequence[int]], order: Iterable[int], capable: Sequence[int]
) -> list[int]:
    """The first wave that each node can be in, from 1; of an incapable node, the last before it."""
    wave = [0] * len(reads)
    for v in order:
        most = own = capable[v]
        for u in reads[v]:
            other = wave[u] + 1 if own > capable[u] else wave[u]
            if other > most:  # noqa: PLR1730 (max takes twice as long)
                most = other
        wave[v] = most
    return wave


def connected(region: Region, wave: Sequence[int]) -> list[int]:
    """The connected parts of waves."""
    flags = region.capable
    pairs = [
        (u, v)
        for v, row in enumerate(region.preds)
        if flags[v]
        for u in row
        if wave[u] == wave[v] and flags[u]
    ]
    return components(len(wave), pairs)


def by_wave(region: Region, tensors: Sequence[Tensor]) -> list[int]:
    """The first node of the wave of each capable node; an incapable node is its own.

    Every node is as early or as late as can be, whichever has fewer bytes over the border, and then
    moves to the wave where most bytes are saved, of those that its neighbours allow, in sweeps from
    the sinks until nothing moves or there were `SWEEPS`.
    """
    flags, order = region.capable, range(len(region.preds))
    early = earliest(region.preds, order, flags)
    count = max(early, default=0)
    late = [count + 1 - w for w in earliest(region.succs, order[::-1], flags)]
    wave = min(early, late, key=lambda wave: cost_of(region, tensors, wave)[1])
    touching: list[list[tuple[Tensor, Counter[int]]]] = [[] for _ in wave]
    for tensor in tensors:
        counts = Counter([wave[v] for v in tensor.touched])
        for v in tensor.touched:
            touching[v].append((tensor, counts))
    for _ in range(SWEEPS):
        before = list(wave)
        _sweep(region, wave, touching, count)
        if wave == before:
            break
    return by_first(w if flags[v] else -v for v, w in enumerate(wave))


def _sweep(
    region: Region,
    wave: list[int],
    touching: Sequence[Sequence[tuple[Tensor, Counter[int]]]],
    count: int,
) -> None:
    """Move every capable node to its best wave, the last node first.

    wave  of each node; of an incapable one, the last of its predecessors'
    """
    capable, preds = region.capable, region.preds
    for v, row in enumerate(preds):
        if not capable[v]:
            wave[v] = max([wave[u] for u in row], default=0)
    for v in range(len(wave) - 1, -1, -1):
        most = min([wave[w] - (capable[w] > capable[v]) for w in region.succs[v]], default=count)
        if not capable[v]:
            wave[v] = most  # out of the way of what it reads
            continue
        least = max([wave[u] + (not capable[u]) for u in preds[v]], default=1)
        for _, counts in touching[v]:
            counts[wave[v]] -= 1
            if not counts[wave[v]]:
                del counts[wave[v]]
        near = {w for _, counts in touching[v] for w in counts if least <= w <= most}
        wave[v] = min({wave[v], *near}, key=lambda w: (_price(touching[v], w), w != wave[v], w))
        for _, counts in touching[v]:
            counts[wave[v]] += 1


def _price(touching: Sequence[tuple[Tensor, Counter[int]]], wave: int) -> int:
    """The bytes of tensors if one more node of a wave touches each."""
    return sum(tensor.price(len(counts) + (wave not in counts)) for tensor, counts in touching)
