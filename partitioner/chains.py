"""Chains: nodes that some best partition keeps with a neighbour, so that both count as one.

Definition: if a node reads nothing but `u`, and no more than one capable node reads it, it can
move from any cluster to that of `u`: the cluster it leaves stays connected, and nothing waits for
more than before. The same holds with edges turned round, and for incapable nodes next to
incapable ones.
Guarantee: if that costs no bytes, wherever the other nodes are, some best partition keeps it with
`u`. So a region of such units has the same lowest cost. Of a chain of capable nodes, the cheapest
places to cut are left.
Cost: O(m) for each node that becomes part of another, at worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from partitioner.graph import Region
from partitioner.tensors import Tensor, renamed


def shortened(region: Region, tensors: Sequence[Tensor]) -> tuple[Region, list[Tensor], list[int]]:
    """The units as a region (names are nodes of `region`), its tensors, and each node's unit."""
    units = _Units(region, tensors)
    waiting = list(range(len(region.preds) - 1, -1, -1))
    while waiting:
        v = waiting.pop()
        host = units.host(v) if units.into[v] == v else None
        if host is not None:
            waiting += units.move(v, host)
    smaller, unit = region.contracted([units.find(v) for v in range(len(units.into))])
    return smaller, renamed(tensors, unit), unit


class _Units:
    """A region whose nodes grow together.

    into     the unit that each node was moved to last
    reads    units that each unit reads
    read_by  units that read each unit
    touched  units that touch each tensor
    touches  tensors that each unit touches
    """

    def __init__(self, region: Region, tensors: Sequence[Tensor]) -> None:
        self.capable = region.capable
        self.into = list(range(len(region.preds)))
        self.reads = [set(row) for row in region.preds]
        self.read_by = [set(row) for row in region.succs()]
        self.apart = [tensor.price(2) - tensor.price(1) for tensor in tensors]
        self.touched = [set(tensor.touched) for tensor in tensors]
        self.touches: list[set[int]] = [set() for _ in self.into]
        for t, tensor in enumerate(tensors):
            for v in tensor.touched:
                self.touches[v].add(t)

    def find(self, v: int) -> int:
        """The unit that `v` is part of."""
        while self.into[v] != v:
            v = self.into[v]
        return v

    def host(self, v: int) -> int | None:
        """A unit that `v` can become part of."""
        for near, far in ((self.reads[v], self.read_by[v]), (self.read_by[v], self.reads[v])):
            if len(near) != 1:
                continue
            (host,) = near
            if self.capable[host] != self.capable[v]:
                continue
            others = sum(1 for _ in islice((w for w in far if self.capable[w]), 2))  # 2: or more
            if not self.capable[v] or not others or (others == 1 and self._pays(v, host)):
                return host
        return None

    def _pays(self, v: int, host: int) -> bool:
        """Whether moving `v` to the cluster of `host` costs no bytes, wherever others are."""
        balance = 0
        for t in self.touches[v]:
            if host not in self.touched[t]:
                balance -= self.apart[t] if len(self.touched[t]) > 1 else 0
            elif len(self.touched[t]) == 2:
                balance += self.apart[t]
        return balance >= 0

    def move(self, v: int, host: int) -> list[int]:
        """Make `v` part of `host`; returns the units for which that may change something."""
        self.into[v] = host
        changed = {host, *self.reads[v], *self.read_by[v]}
        for mine, theirs in ((self.reads, self.read_by), (self.read_by, self.reads)):
            for w in mine[v]:
                theirs[w].discard(v)
                if w != host:
                    theirs[w].add(host)
                    mine[host].add(w)
        for t in self.touches[v]:
            self.touched[t].discard(v)
            self.touched[t].add(host)
            if len(self.touched[t]) == 2:
                changed |= self.touched[t]
        self.touches[host] |= self.touches[v]
        return sorted(changed, reverse=True)
