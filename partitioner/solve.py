"""A region reduced, what is left searched, and what is too wide for that improved in windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partitioner.quotient import maximal
from partitioner.reduction import reduced
from partitioner.region import Region
from partitioner.settle import settled
from partitioner.starts import starts
from partitioner.tensors import Tensor, cost_of, localized
from partitioner.union import Union
from partitioner.windows import Windows

LEAST = 16  # work for each node without which only one start is made
SEARCH = 1 / 4  # of the work may be spent on a search that has to drop states,
STARTS = 96  # and half of what is left on starts, but no more than so many
TensorsOf = Callable[[Region, Callable[[int], int]], list[Tensor]]


def solved(
    region: Region, tensors_of: TensorsOf, work: int, *, windows: bool = True
) -> tuple[Union, int]:
    """Clusters as disjoint sets of a region's numbers, and the work that it took.

    tensors_of  the tensors of a part of the region, given what has been decided so far
    work        what it may take, shared out by size among the parts that need a search
    windows     whether to go on where a search had to drop states
    """
    union = Union(len(region.preds))
    parts = sorted(reduced(region, union), key=lambda part: (len(part.names), *part.names[:1]))
    waiting = sum(len(part.names) for part in parts)
    known: dict[tuple[object, ...], list[int]] = {}
    used = 0
    for part in parts:
        share = (work - used) * len(part.names) // waiting
        waiting -= len(part.names)
        if share < LEAST * len(part.names):
            block = next(starts(part))
        else:
            tensors = tensors_of(part, union.find)
            alike = (tuple(map(tuple, part.preds)), bytes(part.capable), tuple(tensors))
            if alike not in known:
                known[alike], more = _partitioned(part, tensors, share, windows)
                used += more
            block = known[alike]
        union.join(zip(part.names, [part.names[b] for b in block], strict=True))
    return union, used


def _partitioned(
    region: Region, tensors: Sequence[Tensor], work: int, windows: bool
) -> tuple[list[int], int]:
    """The block of each node, and the work."""
    found = settled(region, tensors, int(work * SEARCH))
    if found.exact:
        return found.block, found.work
    best, used = _started(region, tensors, found.block, (work - found.work) // 2)
    used += found.work
    if windows and used < work:
        improving = Windows(region, tensors, best, _solved_window)
        improving.improve(work - used)
        best, used = improving.label, work
    return maximal(region, best), used


def _started(
    region: Region, tensors: Sequence[Tensor], best: list[int], work: int
) -> tuple[list[int], int]:
    """The best of a partition, if there is one, and of some starts; and the work."""
    each = len(region.preds) + sum(map(len, region.preds))
    used = 0
    lowest = cost_of(region, tensors, best) if best else None
    for block in starts(region):
        cost = cost_of(region, tensors, block)
        if lowest is None or cost < lowest:
            lowest, best = cost, block
        used += each
        if used + each > work or used >= STARTS * each:
            break
    return best, used


def _solved_window(region: Region, tensors: Sequence[Tensor], work: int) -> tuple[list[int], int]:
    numbered = Region(range(len(region.preds)), region.preds, region.rank, region.capable)
    union, used = solved(
        numbered, lambda part, find: localized(tensors, part, find), work, windows=False
    )
    return union.names(), used
