"""Minimum cuts: the cheapest way to put nodes on two sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Network:
    """Nodes that lie on one of two sides, and what it costs to part them.

    The first node is on the near side for good, the second on the far side; both have names:
    `NEAR` and `FAR`. An arc costs its capacity if it leads from the near side to the far side.
    """

    heads: list[int] = field(default_factory=list)  # of arcs; each is followed by its reverse
    room: list[float] = field(default_factory=list)  # what can still flow along each arc
    arcs: list[list[int]] = field(default_factory=lambda: [[], []])  # from each node

    def node(self) -> int:
        """A new node."""
        self.arcs.append([])
        return len(self.arcs) - 1

    def arc(self, tail: int, head: int, capacity: float, back: float = 0.0) -> None:
        """An arc, and its reverse."""
        self.arcs[tail].append(len(self.heads))
        self.arcs[head].append(len(self.heads) + 1)
        self.heads += [head, tail]
        self.room += [capacity, back]

    def all_or_cost(self, one: int, others: Sequence[int], cost: float) -> None:
        """`cost`, once, if `one` is on the near side and some of `others` are on the far side."""
        if FAR in others:
            self.arc(one, FAR, cost)
        elif len(others) == 1:
            self.arc(one, others[0], cost)
        elif others:
            between = self.node()
            self.arc(one, between, cost)
            for other in others:
                self.arc(between, other, float("inf"))

    def none_or_cost(self, one: int, others: Sequence[int], cost: float) -> None:
        """`cost`, once, if `one` is on the far side and some of `others` are on the near side."""
        if len(others) == 1:
            self.arc(others[0], one, cost)
        elif others:
            between = self.node()
            self.arc(between, one, cost)
            for other in others:
                self.arc(other, between, float("inf"))


NEAR, FAR = 0, 1


def near_side(network: Network) -> bytearray:
    """1 for every node on the near side of a cut of the lowest cost; uses up the network.

    Guarantee: of all such cuts, the one with the most nodes on the near side.
    Cost: that of Dinic's maximum flow, O(n² · m) at worst and close to linear where most flow
    takes a few arcs. It is written out because networkx's `boykov_kolmogorov` and `preflow_push`
    take 9 to 18 times as long on the networks of chains and transformers of 10,000 nodes.
    """
    while True:
        distance = _distances(network)
        if distance[NEAR] < 0:
            return bytearray([d < 0 for d in distance])
        _saturate(network, distance)


def _distances(network: Network) -> list[int]:
    """Arcs with room on the way from each node to the far node; -1 if there is no way.

    Nodes that are no nearer than the near node are left out if there is a way from that.
    """
    heads, room, arcs = network.heads, network.room, network.arcs
    distance = [-1] * len(arcs)
    distance[FAR] = 0
    order = [FAR]
    for v in order:  # grows
        if distance[NEAR] >= 0:
            break
        for arc in arcs[v]:
            u = heads[arc]
            if distance[u] < 0 and room[arc ^ 1] > 0:
                distance[u] = distance[v] + 1
                order.append(u)
    return distance


def _saturate(network: Network, distance: Sequence[int]) -> None:
    """Send all the flow that fits along shortest ways."""
    heads, room, arcs = network.heads, network.room, network.arcs
    at = [0] * len(arcs)  # the arc to try next, of each node
    way: list[int] = []
    v = NEAR
    while True:
        if v == FAR:
            flow = min([room[arc] for arc in way])
            for arc in way:
                room[arc] -= flow
                room[arc ^ 1] += flow
            full = next(i for i, arc in enumerate(way) if not room[arc])
            v = heads[way[full] ^ 1]
            del way[full:]
        elif at[v] < len(arcs[v]):
            arc = arcs[v][at[v]]
            if room[arc] > 0 and distance[heads[arc]] == distance[v] - 1:
                way.append(arc)
                v = heads[arc]
            else:
                at[v] += 1
        elif way:
            v = heads[way.pop() ^ 1]
            at[v] += 1
        else:
            return
