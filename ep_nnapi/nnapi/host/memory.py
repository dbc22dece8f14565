"""Memory planning: temporaries share one block if their lifetimes do not overlap."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from ep_nnapi.nnapi.array import Array

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A temporary's size in bytes and its lifetime: first and last step, inclusive."""

    key: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """The offset of each temporary by key, and the total size in bytes."""

    offsets: Mapping[int, int]
    size: int


def assign_offsets(lifetimes: Iterable[Lifetime]) -> MemoryLayout:
    """Assign offsets such that no two temporaries alive in the same step overlap.

    Greedy: largest first (of equal sizes, the earliest), each at the lowest offset that is free
    during its lifetime. Cost: quadratic in the number of extents.

    >>> assign_offsets([Lifetime(0, 64, 0, 1), Lifetime(1, 64, 1, 2), Lifetime(2, 32, 2, 3)])
    MemoryLayout(offsets={0: 0, 1: 64, 2: 0}, size=128)
    """
    placed: list[tuple[int, int, Lifetime]] = []
    for extent in sorted(lifetimes, key=lambda e: (-e.size, e.first, e.key)):
        offset = 0
        for start, end, other in placed:
            alive = other.first <= extent.last and extent.first <= other.last
            if alive and start < offset + extent.size and offset < end:
                offset = -(-end // ALIGNMENT) * ALIGNMENT
        insort(placed, (offset, offset + extent.size, extent), key=itemgetter(0))
    offsets = dict(sorted((extent.key, start) for start, _, extent in placed))
    return MemoryLayout(offsets, max((end for _, end, _ in placed), default=0))


def block(size: int) -> Array:
    """Allocate `size` bytes, aligned for vector instructions."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
