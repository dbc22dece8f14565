"""Windows: a partition is improved by partitioning a few neighbouring clusters anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partitioner.quotient import Quotient, numbers, quotient_of
from partitioner.region import Region
from partitioner.tensors import Tensor, cost_of

SIZES = (16, 48, 128)  # nodes of a window, unless two neighbours have more
SHARE = 16  # a window gets this part of the work that is left, at most
Solve = Callable[[Region, Sequence[Tensor], int], tuple[list[int], int]]


class Windows:
    """A partition under improvement.

    solve  partitions a region: a block for every node, and the work
    label  the best partition so far
    """

    def __init__(
        self, region: Region, tensors: Sequence[Tensor], label: Sequence[int], solve: Solve
    ) -> None:
        self._region = region
        self._tensors = tensors
        self._solve = solve
        self._succs = region.succs()
        self._touching: list[list[int]] = [[] for _ in label]
        for t, tensor in enumerate(tensors):
            for v in tensor.touched:
                self._touching[v].append(t)
        self.label = list(label)
        self._quotient = quotient_of(region, label)
        self._tried: set[tuple[tuple[int, ...], ...]] = set()

    def improve(self, work: int) -> None:
        """Partition windows anew until none can be improved or `work` is used up.

        For every two clusters that share an edge, a window is taken: both, clusters on paths
        between them, and neighbours, as many as fit. If its nodes can be partitioned at a lower
        cost, with all other clusters as they are, they are.
        """
        improved = True
        while improved:
            improved = False
            for size in SIZES:
                for u, v in self._neighbours():
                    better, used = self._improve_at(u, v, size, work)
                    improved = improved or better
                    work -= used
                    if work <= 0:
                        return

    def _neighbours(self) -> list[tuple[int, int]]:
        """Clusters that share an edge, each by one of its nodes."""
        members, near = self._quotient.members, self._quotient.near
        pairs = [(a, b) for a, row in enumerate(near) for b in sorted(row) if a < b]
        return [(members[a][0], members[b][0]) for a, b in pairs]

    def _improve_at(self, u: int, v: int, size: int, work: int) -> tuple[bool, int]:
        """Whether the window around two clusters was improved, and the work."""
        quotient = self._quotient
        pair = {quotient.block[u], quotient.block[v]}
        if len(pair) < 2 or sum(len(quotient.members[b]) for b in pair) > 2 * max(SIZES):
            return False, 1
        window, looked = self._window(pair, size)
        key = tuple([tuple(quotient.members[b]) for b in window])
        if key in self._tried:
            return False, looked
        self._tried.add(key)
        nodes = [w for members in key for w in members]
        part = part_of(self._region, self._succs, quotient, nodes)
        tensors = self._of(nodes, part)
        place = {w: i for i, w in enumerate(part.names)}
        old = [quotient.block[w] if w >= 0 else -1 - i for i, w in enumerate(part.names)]
        new, used = self._solve(part, tensors, work // SHARE)
        used += looked + sum(map(len, part.preds)) + len(part.names)
        if cost_of(part, tensors, new) >= cost_of(part, tensors, old):
            return False, used
        for w in nodes:
            self.label[w] = part.names[new[place[w]]]
        self._quotient = quotient_of(self._region, self.label)
        return True, used + sum(map(len, self._succs)) // 2

    def _window(self, pair: set[int], size: int) -> tuple[list[int], int]:
        """Blocks of a window around two clusters, ascending, and how many were looked at."""
        quotient = self._quotient
        window = set(pair)
        room = size - sum(len(quotient.members[b]) for b in window)
        looked = len(window)
        while room > 0:
            near = {b for b in quotient.between(window) if quotient.cluster[b]}
            near = near or {other for b in window for other in quotient.near[b]} - window
            looked += len(near)
            fitting = [b for b in near if len(quotient.members[b]) <= room]
            if not fitting:
                break
            smallest = min(fitting, key=lambda b: (len(quotient.members[b]), b))
            window.add(smallest)
            room -= len(quotient.members[smallest])
        return sorted(window), looked

    def _of(self, nodes: Sequence[int], part: Region) -> list[Tensor]:
        """The tensors of a window; what others touch as well is not internal."""
        place = {v: i for i, v in enumerate(part.names)}
        found = []
        for t in sorted({t for v in nodes for t in self._touching[v]}):
            tensor = self._tensors[t]
            touched = tuple([place[v] for v in tensor.touched if v in place])
            if len(touched) > 1:
                internal = tensor.internal and len(touched) == len(tensor.touched)
                found.append(Tensor(tensor.size, touched, internal))
        return found


def part_of(
    region: Region, succs: Sequence[Sequence[int]], quotient: Quotient, nodes: Sequence[int]
) -> Region:
    """A window as a region by itself: its nodes, and incapable ones for paths outside it.

    nodes  of the window, in a topological order of the quotient
    names  numbers in `region`, and -1 for what stands for paths outside
    """
    detours = _detours(region, succs, quotient, nodes)
    bit = {v: 1 << i for i, v in enumerate(nodes)}
    names: list[int] = []
    preds: list[list[int]] = []
    place: dict[int, int] = {}  # of each node, and of each set of nodes that a detour starts from
    above: dict[int, int] = {}  # nodes of the window that lead to each
    for v in nodes:
        sources = detours.get(v, 0)
        for i in numbers(sources):
            sources &= ~above[nodes[i]]
        if sources and -sources not in place:
            place[-sources] = len(names)
            names.append(-1)
            preds.append(sorted([place[nodes[i]] for i in numbers(sources)]))
        direct = [u for u in region.preds[v] if u in bit]
        place[v] = len(names)
        names.append(v)
        preds.append(sorted([place[u] for u in (*direct, *([-sources] if sources else []))]))
        above[v] = 0
        for u in {*direct, *(nodes[i] for i in numbers(sources))}:
            above[v] |= above[u] | bit[u]
    rank = [region.rank[v] if v >= 0 else v for v in names]
    return Region(names, preds, rank, bytearray([v >= 0 for v in names]))


def _detours(
    region: Region, succs: Sequence[Sequence[int]], quotient: Quotient, nodes: Sequence[int]
) -> dict[int, int]:
    """For nodes of a window, the nodes of it that lead there through blocks outside, as bits."""
    block = quotient.block
    leads = dict.fromkeys(quotient.between({block[v] for v in nodes}), 0)
    for i, v in enumerate(nodes):
        for w in succs[v]:
            if block[w] in leads:
                leads[block[w]] |= 1 << i
    for b in leads:
        for following in quotient.following[b]:
            if following in leads:
                leads[following] |= leads[b]
    own = {block[v] for v in nodes}
    found: dict[int, int] = {}
    for v in nodes:
        for u in region.preds[v]:
            if block[u] not in own:
                found[v] = found.get(v, 0) | leads.get(block[u], 0)
    return found
