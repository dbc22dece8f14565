"""Partitions without a search: greedy merging, and waves, which need not be connected.

Definition: merging visits nodes in topological order. A node joins every cluster that it reads from
unless a path leads from that to another block that it reads from; these become one cluster. A wave
of a capable node is the largest number of blocks of capable nodes, with incapable ones between, on
a path that ends in it (`earliest`); or, counted from the other end, as late.
Guarantee: merged clusters are connected and convex, the quotient is acyclic, and no two clusters
can be merged, because a path between two blocks never disappears. Waves are convex and can run in
ascending order; no partition has fewer clusters, as each block of a longest path needs its own.
Cost: O(n + m) for waves; merging is near-linear while of two blocks that a node reads one leads
straight to the other, or both are at one level; else it searches between them, quadratic at worst.
Source: multilevel acyclic partitioning (Herrmann et al., 2019); ONNX Runtime's waves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from partitioner.graph import Region, Rows, by_first, components, inverse
from partitioner.tensors import TensorUse

SWEEPS = 4  # over all nodes, that move from wave to wave
Touch = tuple[TensorUse, Counter[int]]  # a tensor, and how many nodes of each wave touch it
Fits = Callable[[Sequence[int]], bool]  # True if nodes are within the limits of one cluster


def forward(region: Region, fits: Fits | None = None) -> list[int]:
    """The block of each node, by one of its nodes, merged in the order of numbers."""
    return _merged(region.preds, range(len(region.preds)), region.capable, fits)


def backward(region: Region, fits: Fits | None = None) -> list[int]:
    """The same against the order of numbers, with every edge turned round."""
    return _merged(region.succs, range(len(region.preds))[::-1], region.capable, fits)


def maximal(region: Region, label: Sequence[int]) -> list[int]:
    """The partition after clusters that can be merged have been."""
    smaller, where = region.contracted(label)
    block = forward(smaller)
    return by_first([block[i] for i in where])


def within(region: Region, label: Sequence[int], fits: Fits) -> list[int]:
    """Clusters within limits: those beyond are dissolved, and their nodes merged anew."""
    _, where = region.contracted(label)
    beyond = {i for i, v in enumerate(inverse(where)) if len(v) > 1 and not fits(v)}
    smaller, where = region.contracted([-v - 1 if i in beyond else i for v, i in enumerate(where)])
    inside = inverse(where)

    def fit(blocks: Sequence[int]) -> bool:
        return fits([v for b in blocks for v in inside[b]])

    best = min(forward(smaller, fit), backward(smaller, fit), key=lambda block: len(set(block)))
    return [best[i] for i in where]


def _merged(reads: Rows, order: Iterable[int], capable: bytearray, fits: Fits | None) -> list[int]:
    """The block of each node, by one of its nodes, after all of `order`, topological by `reads`."""
    blocks = _BlockGraph(len(reads))
    block, others, following = blocks.block, blocks.others, blocks.following
    for v in order:
        row = reads[v]
        if not row:
            continue
        b = block[row[0]]
        if capable[v] and fits is None:
            for u in row:
                c = block[u]
                if c != b and (c not in following or b not in following[c]):
                    if b not in following or c not in following[b]:
                        break
                    b = c
            else:  # all lead straight to one block: as below, which it is most often
                if capable[b]:
                    block[v] = b
                    others[b].append(v)
                    continue
        read = {block[u] for u in row}
        able = [b for b in read if capable[b]] if capable[v] else []
        joined = blocks.unfollowed(able, read)
        if fits is not None:
            joined = blocks.fitting(joined, v, fits)
        blocks.add(v, read, joined)
    return block


class _BlockGraph:
    """An acyclic graph of blocks that grows by nodes; a block goes by one of its nodes."""

    def __init__(self, size: int) -> None:
        self.block = list(range(size))  # of each node
        self.others: defaultdict[int, list[int]] = defaultdict(list)  # of a block
        self.following: defaultdict[int, set[int]] = defaultdict(set)
        self._preceding: defaultdict[int, set[int]] = defaultdict(set)
        self._level = [0] * size  # less than the levels of all blocks that follow

    def fitting(self, joined: Sequence[int], v: int, fits: Fits) -> list[int]:
        """The blocks that a node may join within limits, those of most nodes first."""
        found, nodes = [], [v]
        for b in sorted(joined, key=lambda b: (-len(self.others[b]), b)):
            if fits([*nodes, b, *self.others[b]]):
                found.append(b)
                nodes += [b, *self.others[b]]
        return found

    def unfollowed(self, candidates: Sequence[int], blocks: set[int]) -> list[int]:
        """Those candidates that lead to none of the other `blocks`."""
        level, following = self._level, self.following
        highest = max([level[b] for b in blocks])
        return [
            b
            for b in candidates
            if level[b] == highest
            or b not in following
            or (following[b].isdisjoint(blocks) and not self._reaches(b, blocks))
        ]

    def _reaches(self, start: int, blocks: set[int]) -> bool:
        """Return True if a path leads from `start` to a higher one of `blocks`; from both ends."""
        level, edges = self._level, (self.following, self._preceding)
        low, high = level[start], max([level[b] for b in blocks])
        seen = [{start}, {b for b in blocks if level[b] > low}]  # from either end
        rims = list(seen)  # those met last
        while True:
            rows = [[edges[k][b] for b in rims[k] if b in edges[k]] for k in (0, 1)]
            here = min((0, 1), key=lambda k: sum(map(len, rows[k])))  # fewer edges to follow
            found = set().union(*rows[here])
            if not found.isdisjoint(seen[1 - here]):
                return True
            rims[here] = {b for b in found - seen[here] if low < level[b] < high}
            if not rims[here]:
                return False
            seen[here] |= rims[here]

    def add(self, v: int, read: set[int], joined: Sequence[int]) -> None:
        """Add node `v`, which reads from blocks `read`, to those in `joined`, which become one."""
        level = self._level
        height = max([level[b] + (b not in joined) for b in read])
        block = max(joined, key=lambda b: (len(self.others[b]), b), default=v)
        for b in joined or [v]:
            if level[b] < height:
                self._lift(b, height)
            if b != block:
                self._absorb(block, b)
        if joined:
            self.block[v] = block
            self.others[block].append(v)
        for b in read.difference(joined):
            self.following[b].add(block)
            self._preceding[block].add(b)

    def _absorb(self, block: int, other: int) -> None:
        """Make the members of `other` members of `block`."""
        moved = [other, *self.others.pop(other, ())]
        for v in moved:
            self.block[v] = block
        self.others[block] += moved
        rows = self.following, self._preceding
        for edges, back in (rows, rows[::-1]):
            if row := edges.pop(other, None):
                edges[block] |= row
                for b in row:
                    back[b].remove(other)
                    back[b].add(block)

    def _lift(self, block: int, height: int) -> None:
        """Raise the level of a block, and those of blocks that follow it."""
        stack = [(block, height)]
        while stack:
            b, least = stack.pop()
            if self._level[b] < least:
                self._level[b] = least
                stack += [(other, least + 1) for other in self.following.get(b, ())]


def earliest(reads: Rows, order: Iterable[int], capable: Sequence[int]) -> list[int]:
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


def wave_parts(region: Region, wave: Sequence[int]) -> list[int]:
    """The connected components of each wave, as `components` numbers them."""
    own = [w if flag else -v for v, (w, flag) in enumerate(zip(wave, region.capable, strict=True))]
    rows = zip(own, enumerate(region.preds), strict=True)
    return components(len(own), ((v, u) for w, (v, row) in rows for u in row if own[u] == w))


def by_wave(region: Region, tensors: Sequence[TensorUse]) -> list[int]:
    """The first node of the wave of each capable node; an incapable node is its own.

    Every node is as early or as late as can be, whichever has fewer bytes over the border, and then
    moves to the wave of fewest bytes that its neighbours allow, in sweeps from the sinks.
    """
    flags, order = region.capable, range(len(region.preds))
    early = earliest(region.preds, order, flags)
    count = max(early, default=0)
    late = [count + 1 - w for w in earliest(region.succs, order[::-1], flags)]
    wave = min(early, late, key=lambda w: sum(t.price(len({w[v] for v in t[1]})) for t in tensors))
    touching: list[list[Touch]] = [[] for _ in wave]
    for tensor in tensors:
        counts = Counter([wave[v] for v in tensor.touched])
        for v in tensor.touched:
            touching[v].append((tensor, counts))
    for _ in range(SWEEPS):
        _sweep(region, wave, touching, count)
    return by_first(w if flags[v] else -v for v, w in enumerate(wave))


def _sweep(region: Region, wave: list[int], touching: list[list[Touch]], count: int) -> None:
    """Move every capable node to its best wave, the last node first."""
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
        near = {w for _, c in touching[v] for w in c if least <= w <= most} | {wave[v]}
        price = {w: sum(t.price(len(c) + (w not in c)) for t, c in touching[v]) for w in near}
        wave[v] = min(near, key=lambda w: (price[w], w != wave[v], w))
        for _, counts in touching[v]:
            counts[wave[v]] += 1
