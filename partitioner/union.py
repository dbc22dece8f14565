"""Disjoint sets of numbers."""

from __future__ import annotations

from collections.abc import Iterable


class Union:
    """Numbers in disjoint sets, each named by its smallest member."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, v: int) -> int:
        """The name of the set that holds `v`."""
        parent = self._parent
        while parent[v] != v:
            parent[v] = v = parent[parent[v]]
        return v

    def join(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Make one set of those that hold either of a pair, for each pair."""
        parent = self._parent
        for a, b in pairs:
            while parent[a] != a:
                parent[a] = a = parent[parent[a]]  # noqa: PLW2901
            while parent[b] != b:
                parent[b] = b = parent[parent[b]]  # noqa: PLW2901
            if a < b:
                parent[b] = a
            elif b < a:
                parent[a] = b

    def names(self) -> list[int]:
        """The name of the set of every number."""
        names: list[int] = []
        for v, parent in enumerate(self._parent):
            names.append(v if parent == v else names[parent])
        return names
