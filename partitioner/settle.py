"""The partition of a region, by searches of growing width within a bound on the work."""

from __future__ import annotations

from collections.abc import Sequence

from partitioner.chains import contracted
from partitioner.plan import Plan, ordered, planned
from partitioner.region import Region
from partitioner.search import Found, search
from partitioner.tensors import Tensor

FIRST = 4  # states of the first search
WIDER = 8  # how many times as many the next one has


def settled(region: Region, tensors: Sequence[Tensor], work: int) -> Found:
    """The best partition of a region that is found by looking at no more than `work` blocks.

    Searches run forwards and backwards, each only for what is better than the best so far, and
    have more states each time, until one of them drops none (the best is then optimal) or the
    next would be too much work. The cost is None if the first already is.
    """
    units, priced, unit = contracted(region, tensors)
    orders = [ordered(units), ordered(units, backwards=True)]
    best = Found(None, [], exact=False, work=0)
    states, used, exact = FIRST, 0, False
    needed = [states * order.width for order in orders]
    plans: dict[int, Plan] = {}
    while not exact and used + min(needed) <= work:
        for k, order in enumerate(orders):
            if exact or used + needed[k] > work:
                continue
            plans[k] = plans.get(k) or planned(units, priced, order)
            found = search(plans[k], states, best.cost)
            used += found.work
            needed[k] = found.work * WIDER
            exact = found.exact
            if found.cost is not None:
                best = found
        states *= WIDER
    if not best.block:
        return Found(None, [], exact, used)
    member = {i: v for v, i in enumerate(unit)}
    block = [member[best.block[i]] if region.capable[v] else v for v, i in enumerate(unit)]
    return Found(best.cost, block, exact, used)
