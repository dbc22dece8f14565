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

from partitioner.graph import Region
from partitioner.tensors import Tensor, renamed


def shortened(region: Region, tensors: Sequence[Tensor]) -> tuple[Region, list[Tensor], list[int]]:
    """The units as a region, its tensors, and each node's unit."""
    units = _Units(region, tensors)
    waiting = list(range(len(region.preds) - 1, -1, -1))
    while waiting:
        v = waiting.pop()
        host = units.host(v) if units.into[v] == v else None
        if host is not None:
            waiting += units.move(v, host)
    for v, host in reversed(units.moves):
        units.into[v] = units.into[host]
    smaller, unit = region.contracted(units.into)
    return smaller, renamed(tensors, unit), unit


class _Units:
    """A region whose nodes grow together.

    into     the unit that each node was moved to last
    moves    of nodes to units, in order
    reads    units that each unit reads
    read_by  units that read each unit
    touched  units that touch each tensor
    touches  tensors that each unit touches
    """

    def __init__(self, region: Region, tensors: Sequence[Tensor]) -> None:
        self.capable = region.capable
        self.into = list(range(len(region.preds)))
        self.moves: list[tuple[int, int]] = []
        self.reads = [set(row) for row in region.preds]
        self.read_by = [set(row) for row in region.succs()]
        self.apart = [tensor.price(2) - tensor.price(1) for tensor in tensors]
        self.touched = [set(tensor.touched) for tensor in tensors]
        self.touches: list[set[int]] = [set() for _ in self.into]
        for t, tensor in enumerate(tensors):
            for v in tensor.touched:
                self.touches[v].add(t)

    def host(self, v: int) -> int | None:
        """A unit that `v` can become part of."""
        for near, far in ((self.reads[v], self.read_by[v]), (self.read_by[v], self.reads[v])):
            if len(near) == 1:
                (host,) = near
                if self.capable[host] == self.capable[v] and self._can_move(v, host, far):
                    return host
        return None

    def _can_move(self, v: int, host: int, far: set[int]) -> bool:
        """Return True if `v` can be kept with `host`, with `far` on its other side."""
        others = 0
        for w in far if self.capable[v] else ():
            others += self.capable[w]
            if others > 1:
                return False
        return not others or self._pays(v, host)

    def _pays(self, v: int, host: int) -> bool:
        """Return True if moving `v` to the cluster of `host` never costs bytes."""
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
        self.moves.append((v, host))
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
