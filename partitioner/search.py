"""The best partition of a region: dynamic programming over its nodes, with a bound on states.

Definition: a plan is a topological order, along the edges or against them, that greedily keeps few
nodes live: one is, from its own step to the last step of what reads it. A state is all that matters
of how the nodes so far were partitioned: the clusters that hold live nodes, which must precede
which, and which tensors they touch. At each node there is one choice: which of the clusters that it
reads from, and that lead to it by no other way, it joins; several become one.
Guarantee: if no more than `states` states were needed, the cost is the lowest there is. Otherwise
the best are kept, by a lower bound on the clusters, then by bytes; the lowest bound of those that
were dropped bounds what was missed. A node that may join more than `CHOSEN` clusters joins all
beyond; then no minimum is proven.
Cost: O((n + m) log n) for a plan; O(live nodes · states · 2^j) for j clusters that a node may join.
Source: dynamic programs over path decompositions; beam search where states are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations
from math import inf
from typing import NamedTuple

from partitioner.graph import Region, Rows, components
from partitioner.tensors import TensorUse

# A block as far as its live nodes show it: (how many live nodes of other blocks it must follow,
# its live nodes, those that it must follow, tensors that it touches, 1 if it is a cluster and 0
# if it is an incapable node). Bits, and in ascending order a block comes after all it follows.
Block = tuple[int, int, int, int, int]
# Blocks in ascending order, and tensors that are touched by a cluster with no live node, too.
State = tuple[tuple[Block, ...], int]
# The last node, what it joined, as bits, and before it the same of all earlier ones.
Joins = tuple["Joins", int, int] | None
Cost = tuple[int, int]  # clusters, bytes
CHOSEN = 8  # of the clusters that a node may join, about so many there is a choice


class Step(NamedTuple):
    """One node of a plan, one bit in sets of nodes. Those that are still read later are *live*."""

    node: int
    bit: int
    capable: int  # 1 if it may be taken
    reads: int  # bits of what it reads
    dying: int  # bits of nodes that are not read after this step
    touches: int  # tensors that it touches, a bit each
    open: int  # tensors that a later node touches
    tails: tuple[tuple[int, int], ...]  # further clusters that must follow a live node, its bit


class Found(NamedTuple):
    """The result of a search."""

    cost: Cost | None  # the lowest; None if nothing is below the limit
    block: list[int]  # for each node, a node of its cluster by which the cluster goes
    least: float  # clusters of whatever costs less; infinite if nothing does, as no state dropped
    work: int  # blocks looked at


def planned(
    region: Region, tensors: Sequence[TensorUse], most: int, *, against: bool = False
) -> list[Step]:
    """The steps of a region; none if their live nodes sum to more than `most`."""
    capable = region.capable
    preds, succs = (region.succs, region.preds) if against else (region.preds, region.succs)
    order = _narrow_order(preds, succs)
    live = total = 0
    for _, dying in order:
        total += live + 1
        live += 1 - dying.bit_count()
    if total > most:
        return []
    bit = {v: 1 << i for i, (v, _) in enumerate(order)}
    touches = [0] * len(order)
    for k, tensor in enumerate(tensors):
        for v in tensor.touched:
            touches[v] |= 1 << k
    steps: list[Step] = []
    later = 0  # tensors that later steps touch
    tail: dict[int, int] = {}  # clusters that must follow each live node, by its later readers
    for v, dying in reversed(order):
        reads = sum(bit[u] for u in preds[v])
        tails = sorted([(length, bit[u]) for u, length in tail.items() if length], reverse=True)
        steps.append(Step(v, bit[v], capable[v], reads, dying, touches[v], later, tuple(tails)))
        later |= touches[v]
        own = tail.pop(v, 0)
        for u in preds[v]:  # a path from an incapable node to a capable one: a new cluster
            tail[u] = max(tail.get(u, 0), own + (capable[v] > capable[u]))
    return steps[::-1]


def single_bits(bits: int) -> Iterator[int]:
    """The bits of a number, the lowest first."""
    while bits:
        yield bits & -bits
        bits &= bits - 1


def _narrow_order(reads: Rows, read_by: Rows) -> list[tuple[int, int]]:
    """A topological order that keeps few nodes live, and bits of those that die at each.

    Next is what adds fewest live nodes; then what reads what was made last; then the smallest.
    """
    missing, unread = [len(row) for row in reads], [len(row) for row in read_by]
    place = [-1] * len(reads)

    def key(v: int) -> tuple[int, int, int]:
        ends = sum(unread[u] == 1 for u in reads[v])
        return (bool(read_by[v]) - ends, -max((place[u] for u in reads[v]), default=-1), v)

    ready = sorted(key(v) for v, count in enumerate(missing) if not count)  # a heap
    order: list[tuple[int, int]] = []
    while ready:
        v = heappop(ready)[2]
        if place[v] >= 0:
            continue  # an older, worse key of a node that is placed
        place[v] = len(order)
        for w in read_by[v]:
            missing[w] -= 1
            if not missing[w]:
                heappush(ready, key(w))
        for u in reads[v]:
            unread[u] -= 1
            if unread[u] == 1:
                w = next(w for w in read_by[u] if place[w] < 0)
                if not missing[w]:
                    heappush(ready, key(w))
        order.append((v, sum(1 << place[u] for u in (*reads[v], v) if not unread[u])))
    return order


def search(
    steps: Sequence[Step], tensors: Sequence[TensorUse], states: int, below: Cost | None
) -> Found:
    """The cheapest partition below the cost `below` that a search keeping `states` states finds."""
    least, work = inf, 0
    kept: dict[State, tuple[Cost, Joins]] = {((), 0): ((0, 0), None)}
    for step in steps:
        reached: dict[State, tuple[Cost, Joins]] = {}
        for state, ((clusters, size), joins) in kept.items():
            follows, able = _joinable(state[0], step)
            if len(able) > CHOSEN:
                least = 0
            for chosen in _subsets(able):
                following, more, price, joined = _joined(state, chosen, follows, step, tensors)
                work += 1 + len(following[0])
                cost = clusters + more, size + price
                known = reached.get(following)
                if known is None or cost < known[0]:
                    reached[following] = cost, (joins, step.node, joined)
        ranked = []
        for state, (cost, _) in reached.items():
            bound = cost[0] - sum([b[4] for b in state[0]]) + _chain(state[0], step.tails)
            if below is None or (bound, 0) < below:
                ranked.append((bound, cost[1], cost, state))
        ranked.sort()
        if len(ranked) > states:
            least = min(least, ranked[states][0])
        kept = {state: reached[state] for *_, state in ranked[:states]}
    lowest, joins = min(kept.values(), key=lambda found: found[0], default=(None, None))
    if lowest is None or (below is not None and lowest >= below):
        return Found(None, [], least, work)
    return Found(lowest, components(len(steps), _joints(steps, joins)), least, work)


def _joints(steps: Sequence[Step], joins: Joins) -> Iterator[tuple[int, int]]:
    """Nodes that joins put into one cluster, in pairs."""
    while joins:
        joins, node, bits = joins
        yield from ((steps[bit.bit_length() - 1].node, node) for bit in single_bits(bits))


def _chain(blocks: Sequence[Block], tails: tuple[tuple[int, int], ...]) -> int:
    """The most clusters, of these and of further ones, of which each must follow another."""
    longest = 0
    ends: list[tuple[int, int]] = []  # clusters of the longest chain to each block, its live nodes
    for _, live, follows, _, cluster in blocks:
        length = cluster + max([clusters for clusters, bits in ends if bits & follows], default=0)
        ends.append((length, live))
        further = next((clusters for clusters, bit in tails if bit & live), 0)
        longest = max(longest, length + further)
    return longest


def _joinable(blocks: Sequence[Block], step: Step) -> tuple[int, list[Block]]:
    """The live nodes that the next node must follow, and the clusters that it can join."""
    read = [block for block in blocks if block[1] & step.reads]
    behind = reading = 0
    for block in read:
        behind |= block[2]
        reading |= block[1]
    able = [block for block in read if block[4] and not block[1] & behind] if step.capable else []
    return behind | reading, able


def _subsets(blocks: Sequence[Block]) -> Iterator[tuple[Block, ...]]:
    """Sets of some blocks, all of them first; each has what is beyond the first `CHOSEN`."""
    for count in range(min(CHOSEN, len(blocks)), -1, -1):
        for chosen in combinations(blocks[:CHOSEN], count):
            yield (*chosen, *blocks[CHOSEN:])


def _joined(
    state: State, joined: Sequence[Block], follows: int, step: Step, tensors: Sequence[TensorUse]
) -> tuple[State, int, int, int]:
    """The state after the node joins clusters, clusters and bytes that it costs, their bits."""
    blocks, shared = state
    if not step.capable:
        return _aged([*blocks, (0, step.bit, follows, 0, 0)], shared, step), 0, 0, 0
    gained, touched, twice = 0, step.touches, 0
    for block in joined:
        gained |= block[1]
        twice |= touched & block[3]
        touched |= block[3]
    live = gained | step.bit
    follows &= ~live
    after = live | follows
    rest: list[Block] = []
    once, several = shared, 0  # tensors that other clusters touch, and that more than one does
    for block in blocks:
        if not block[1] & gained:
            several |= once & block[3]
            once |= block[3]
            must = block[2] | after if block[2] & gained else block[2]
            rest.append((0, block[1], must, block[3], block[4]))
    price = 0
    for bit in single_bits(twice | step.touches):
        before = sum([1 for block in joined if block[3] & bit])
        others = 2 if several & bit else 1 if once & bit else 0
        tensor = tensors[bit.bit_length() - 1]
        price += tensor.price(others + 1) - tensor.price(others + before)
    rest.append((0, live, follows, touched, 1))
    return _aged(rest, shared, step), 1 - len(joined), price, gained


def _aged(blocks: Sequence[Block], shared: int, step: Step) -> State:
    """The state after nodes die: without blocks that have none left and tensors that are paid."""
    living = ~step.dying
    once = twice = 0
    kept = []
    for _, live, follows, touched, cluster in blocks:
        if still := live & living:
            must = follows & living
            twice |= once & touched
            once |= touched
            kept.append((must.bit_count(), still, must, touched, cluster))
        else:
            shared |= touched
    unpaid = twice | step.open
    if once & ~unpaid:
        kept = [(k, live, must, touched & unpaid, c) for k, live, must, touched, c in kept]
    kept.sort()
    return tuple(kept), shared & unpaid
