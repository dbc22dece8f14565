"""Waves: the fewest clusters there can be, if a cluster need not be connected.

Definition: as few waves as can be (see `earliest`), with few bytes between them: every node is as
early or as late as can be, whichever has fewer bytes over the border, and then moves to the wave
where most bytes are saved, of those that its neighbours allow, in sweeps from the sinks until
nothing moves or there were `SWEEPS`.
Guarantee: the fewest waves are certain, the fewest bytes are not.
Cost: O(n + m) for the tensors' touches.
Source: the waves are those of ONNX Runtime's partitioning_utils.cc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from partitioner.graph import Region
from partitioner.merging import earliest
from partitioner.tensors import Tensor

SWEEPS = 4


def by_wave(region: Region, tensors: Sequence[Tensor]) -> list[int]:
    """The first node of the wave of each capable node; an incapable node is its own."""
    flags, size = region.capable, len(region.preds)
    early = earliest(region.preds, range(size), flags)
    count = max(early, default=0)
    back = earliest(region.succs(), range(size - 1, -1, -1), flags)
    late = [count + 1 - w for w in back]

    def paid(wave: Sequence[int]) -> int:
        return sum(tensor.price(len({wave[v] for v in tensor.touched})) for tensor in tensors)

    sweeps = _Sweeps(region, tensors, min(early, late, key=paid))
    for _ in range(SWEEPS):
        if not sweeps.sweep(count):
            break
    first: dict[int, int] = {}
    return [first.setdefault(w, v) if flags[v] else v for v, w in enumerate(sweeps.wave)]


class _Sweeps:
    """Waves under improvement.

    wave  of each node; of an incapable one, the last of its predecessors'
    """

    def __init__(self, region: Region, tensors: Sequence[Tensor], wave: Sequence[int]) -> None:
        self.wave = list(wave)
        self._region = region
        self._tensors = tensors
        self._touching: list[list[int]] = [[] for _ in wave]
        self._counts = [Counter([wave[v] for v in tensor.touched]) for tensor in tensors]
        for t, tensor in enumerate(tensors):
            for v in tensor.touched:
                self._touching[v].append(t)

    def sweep(self, count: int) -> bool:
        """Move every capable node, the last one first; returns True if any was moved."""
        capable, wave, preds = self._region.capable, self.wave, self._region.preds
        for v, row in enumerate(preds):
            if not capable[v]:
                wave[v] = max([wave[u] for u in row], default=0)
        bound = [count] * len(wave)  # the last wave that readers allow
        moved = False
        for v in range(len(wave) - 1, -1, -1):
            if capable[v]:
                least = max([wave[u] + (not capable[u]) for u in preds[v]], default=1)
                best = self._best(v, least, bound[v])
                moved = moved or best != wave[v]
                self._move(v, best)
                bound[v] = best
            for u in preds[v]:
                bound[u] = min(bound[u], bound[v] - (capable[v] > capable[u]))
        return moved

    def _best(self, v: int, least: int, most: int) -> int:
        """The wave in a range where the tensors that `v` touches cost least; its own on a tie."""
        near = {w for t in self._touching[v] for w in self._counts[t] if least <= w <= most}
        own = self.wave[v]
        return min(sorted(near), key=lambda w: (self._cost(v, w), w != own), default=own)

    def _cost(self, v: int, wave: int) -> int:
        """What the tensors that `v` touches cost with it in another wave."""
        cost = 0
        for t in self._touching[v]:
            counts = self._counts[t]
            leaves = counts[self.wave[v]] == 1
            enters = leaves if wave == self.wave[v] else wave not in counts
            cost += self._tensors[t].price(len(counts) - leaves + enters)
        return cost

    def _move(self, v: int, wave: int) -> None:
        for t in self._touching[v]:
            counts = self._counts[t]
            counts[self.wave[v]] -= 1
            if not counts[self.wave[v]]:
                del counts[self.wave[v]]
            counts[wave] += 1
        self.wave[v] = wave
