"""Merging of axes, so that tensors of rank above 4 fit NNAPI's maximum rank of 4."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby
from math import prod


def runs(keys: Sequence[Hashable]) -> list[list[int]]:
    """Return the positions of `keys`, grouped by runs of equal keys.

    >>> runs("aab")
    [[0, 1], [2]]
    """
    return [[i for i, _ in group] for _, group in groupby(enumerate(keys), lambda pair: pair[1])]


def sizes_around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Return (product of sizes before `axis`, size of `axis`, product of sizes after it).

    >>> around((2, 3, 4, 5), 1)
    (2, 3, 20)
    """
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def merge_broadcast_axes(
    shapes: Sequence[Sequence[int]], out: Sequence[int]
) -> tuple[list[list[int]], list[int]]:
    """Return `shapes` and `out` with adjacent axes merged where all shapes broadcast alike.

    >>> common([(2, 3, 4, 5, 6), (3, 1, 1, 1)], (2, 3, 4, 5, 6))
    ([[2, 3, 120], [1, 3, 1]], [2, 3, 120])
    """
    wide = [(1,) * (len(out) - len(s)) + tuple(s) for s in shapes]
    kept = [i for i, size in enumerate(out) if size != 1]
    groups = [[kept[i] for i in g] for g in runs([tuple(s[i] == 1 for s in wide) for i in kept])]
    folded = [[prod(s[i] for i in g) for g in groups] or [1] for s in wide]
    return folded, [prod(out[i] for i in g) for g in groups] or [1]
