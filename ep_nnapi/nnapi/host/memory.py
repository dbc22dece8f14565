"""Where temporaries live: one block of memory in which they share what they do not need at once."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from ep_nnapi.graph.value import Array

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Extent:
    """A temporary's bytes and the steps, first and last included, in which it is alive."""

    key: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Layout:
    """An offset for each key, and the bytes that all take together."""

    offsets: Mapping[int, int]
    size: int


def arrange(extents: Iterable[Extent]) -> Layout:
    """Offsets such that no two extents alive in one step overlap.

    The largest is placed first, each at the lowest offset that is free during its life; ties go to
    the one that begins first. Cost: quadratic in the number of extents.

    >>> arrange([Extent(0, 64, 0, 1), Extent(1, 64, 1, 2), Extent(2, 32, 2, 3)])
    Layout(offsets={0: 0, 1: 64, 2: 0}, size=128)
    """
    placed: list[tuple[int, int, Extent]] = []
    for extent in sorted(extents, key=lambda e: (-e.size, e.first, e.key)):
        offset = 0
        for start, end, other in placed:
            alive = other.first <= extent.last and extent.first <= other.last
            if alive and start < offset + extent.size and offset < end:
                offset = -(-end // ALIGNMENT) * ALIGNMENT
        insort(placed, (offset, offset + extent.size, extent), key=itemgetter(0))
    offsets = dict(sorted((extent.key, start) for start, _, extent in placed))
    return Layout(offsets, max((end for _, end, _ in placed), default=0))


def block(size: int) -> Array:
    """That many bytes, aligned for vector instructions."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
