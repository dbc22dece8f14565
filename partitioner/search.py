"""The best partition of a region: dynamic programming over its nodes, with a bound on states.

Definition: a state is all that matters of how the nodes so far were partitioned: the clusters that
hold live nodes, which must precede which, and which tensors they touch. Every partition into
connected clusters is built by one choice at each node: which of the clusters that it reads from it
joins. It may join any that lead to it by no other way, and several become one.
Guarantee: if no more than `states` states were needed, the cost is the lowest there is. Otherwise
the best are kept: by a lower bound on the clusters, then by bytes; the lowest bound of those that
were dropped bounds what was missed. Of equal states the one that compares lower is kept.
Cost: O(width · states · 2^j) for `width` of the plan and j clusters that a node may join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

from partitioner.plan import Plan, Step
from partitioner.tensors import Tensor

# A block as far as its live nodes show it: (how many live nodes of other blocks it must follow,
# its live nodes, those that it must follow, tensors that it touches, 1 if it is a cluster and 0
# if it is an incapable node). Bits, and in ascending order a block comes after all it follows.
Block = tuple[int, int, int, int, int]
# Blocks in ascending order, and tensors that are touched by a cluster with no live node, too.
State = tuple[tuple[Block, ...], int]
# Clusters that each step joined, as bits, the last step first.
Joins = tuple["Joins", int] | None


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    cost   clusters times `Plan.unit`, plus bytes; None if nothing is below the limit
    block  for each node, a node of its cluster by which the cluster goes
    least  clusters that every partition cheaper than the one found and than the limit has
    exact  whether no state was dropped, so that nothing costs less
    work   blocks looked at
    """

    cost: int | None
    block: list[int]
    least: float
    exact: bool
    work: int


def search(plan: Plan, steps: Sequence[Step], states: int, below: int | None = None) -> Found:
    """The partition of lowest cost, and lower than `below`, found with so many states."""
    least = inf
    work = 0
    kept: dict[State, tuple[int, Joins]] = {((), 0): (0, None)}
    for step in steps:
        reached: dict[State, tuple[int, Joins]] = {}
        for state, (cost, joins) in kept.items():
            for following, price, joined in _choices(state, step, plan):
                work += 1 + len(following[0])
                known = reached.get(following)
                if known is None or cost + price < known[0]:
                    reached[following] = (cost + price, (joins, joined))
        ranked = sorted(_ranked(reached, step, plan.unit, below))
        if len(ranked) > states:
            least = min(least, ranked[states][0] // plan.unit)
        kept = {state: reached[state] for _, _, state in ranked[:states]}
    lowest, joins = min(kept.values(), key=lambda found: found[0], default=(None, None))
    if lowest is None or (below is not None and lowest >= below):
        return Found(None, [], least, least == inf, work)
    return Found(lowest, _blocks(steps, joins), least, least == inf, work)


def _ranked(
    reached: dict[State, tuple[int, Joins]], step: Step, unit: int, below: int | None
) -> list[tuple[int, int, State]]:
    """States that can lead to a cost below `below`, by bound and cost, best first when sorted."""
    ranked = []
    for state, (cost, _) in reached.items():
        clusters, size = divmod(cost, unit)
        at_least = clusters - sum([block[4] for block in state[0]]) + _chain(state[0], step.tails)
        if below is None or at_least * unit < below:
            ranked.append((at_least * unit + size, cost, state))
    return ranked


def _chain(blocks: Sequence[Block], tails: tuple[tuple[int, int], ...]) -> int:
    """The most clusters, of these and of further ones, of which each must follow another."""
    longest = 0
    ends: list[int] = []  # live nodes of the clusters that end a chain of 1, 2, … at longest
    for _, live, follows, _, cluster in blocks:
        length = len(ends)
        while length and not ends[length - 1] & follows:
            length -= 1
        if cluster:
            if length == len(ends):
                ends.append(live)
            else:
                ends[length] |= live
            length += 1
        for further, bits in tails:
            if bits & live:
                length += further
                break
        longest = max(longest, length)
    return longest


def _choices(state: State, step: Step, plan: Plan) -> Iterator[tuple[State, int, int]]:
    """Every state that the next node can lead to, what it costs, and the clusters joined."""
    blocks, shared = state
    read = [block for block in blocks if block[1] & step.reads]
    behind = reading = 0
    for block in read:
        behind |= block[2]
        reading |= block[1]
    follows = behind | reading
    if not step.capable:
        yield _aged([*blocks, (0, step.bit, follows, 0, 0)], shared, step), 0, 0
        return
    joinable = [block for block in read if block[4] and not block[1] & behind]
    free = [block for block in joinable if _costs_nothing(block, blocks, follows, step)]
    open_ = [block for block in joinable if block not in free]
    for count in range(len(open_), -1, -1):
        for chosen in combinations(open_, count):
            joined = [*free, *chosen]
            following, price, gained = _with_cluster(state, joined, follows, step, plan)
            yield following, price, gained


def _costs_nothing(block: Block, blocks: Sequence[Block], follows: int, step: Step) -> bool:
    """Whether joining `block` cannot rule out anything that staying apart allows.

    Either nobody else reads or follows it; or nobody reads the node, which follows nothing but
    the block and what that follows.
    """
    live = block[1]
    if not live & ~step.dying:
        return not any(other[2] & live for other in blocks)
    return bool(step.bit & step.dying) and not follows & ~(live | block[2])


def _with_cluster(
    state: State, joined: Sequence[Block], follows: int, step: Step, plan: Plan
) -> tuple[State, int, int]:
    """The state after the node joins clusters, what it costs, and the bits of those."""
    blocks, shared = state
    gained, touched, twice = 0, step.touches, 0
    for block in joined:
        gained |= block[1]
        twice |= touched & block[3]
        touched |= block[3]
    live = gained | step.bit
    follows &= ~live
    after = live | follows
    rest: list[Block] = []
    others, several = shared, 0
    for block in blocks:
        if not block[1] & gained:
            several |= others & block[3]
            others |= block[3]
            rest.append(
                (0, block[1], block[2] | after, block[3], block[4]) if block[2] & gained else block
            )
    price = plan.unit * (1 - len(joined))
    if twice | step.touches:
        price += _repriced(joined, twice | step.touches, (others, several), plan.tensors)
    rest.append((0, live, follows, touched, 1))
    return _aged(rest, shared, step), price, gained


def _aged(blocks: Sequence[Block], shared: int, step: Step) -> State:
    """The state after nodes die: without blocks that have none left and tensors that are paid."""
    living = ~step.dying
    once = twice = 0
    kept = []
    for _, live, follows, touched, cluster in blocks:
        live &= living  # noqa: PLW2901
        if live:
            follows &= living  # noqa: PLW2901
            twice |= once & touched
            once |= touched
            kept.append((follows.bit_count(), live, follows, touched, cluster))
        else:
            shared |= touched
    unpaid = twice | step.open
    if once & ~unpaid:
        kept = [(k, live, follows, touched & unpaid, c) for k, live, follows, touched, c in kept]
    kept.sort()
    return tuple(kept), shared & unpaid


def _repriced(
    joined: Sequence[Block], changed: int, others: tuple[int, int], tensors: Sequence[Tensor]
) -> int:
    """What the `changed` tensors cost more than before when a node joins clusters.

    others  tensors that other clusters touch, and those that more than one of them touches
    """
    difference = 0
    for bit in _single_bits(changed):
        tensor = tensors[bit.bit_length() - 1]
        gone = sum([1 for block in joined if block[3] & bit])
        rest = 2 if others[1] & bit else 1 if others[0] & bit else 0
        difference += tensor.price(rest + 1) - tensor.price(rest + gone)
    return difference


def _single_bits(bits: int) -> Iterator[int]:
    while bits:
        bit = bits & -bits
        bits ^= bit
        yield bit


def _blocks(steps: Sequence[Step], joins: Joins) -> list[int]:
    """For each node, a node of its cluster by which the cluster goes."""
    joined_bits = []
    while joins:
        joins, bits = joins
        joined_bits.append(bits)
    block = list(range(len(steps)))

    def find(v: int) -> int:
        while block[v] != v:
            block[v] = v = block[block[v]]
        return v

    holder: dict[int, int] = {}
    for step, bits in zip(steps, reversed(joined_bits), strict=True):
        for bit in _single_bits(bits):
            block[find(holder[bit])] = step.node
        holder[step.bit] = step.node
    return [find(v) for v in block]
