"""Components: strongly connected parts of a graph, biconnected blocks of an undirected one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def strong_parts(after: dict[int, set[int]]) -> Iterator[list[int]]:
    """Strongly connected components (Kosaraju's algorithm)."""
    before: dict[int, list[int]] = {v: [] for v in after}
    for v, row in after.items():
        for w in row:
            before[w].append(v)
    placed: set[int] = set()
    for root in reversed(_finishing_order(after)):
        if root in placed:
            continue
        placed.add(root)
        part = [root]
        for v in part:  # grows
            for u in before[v]:
                if u not in placed:
                    placed.add(u)
                    part.append(u)
        yield part


def _finishing_order(after: dict[int, set[int]]) -> list[int]:
    """Nodes in the order in which a depth-first search is done with them."""
    seen: set[int] = set()
    order = []
    stack = list(after)
    while stack:
        v = stack.pop()
        if v < 0:
            order.append(~v)
        elif v not in seen:
            seen.add(v)
            stack.append(~v)
            stack += [w for w in after[v] if w not in seen]
    return order


def blocks(near: Sequence[Sequence[int]]) -> list[list[int]]:
    """Biconnected components of more than one node (after Tarjan).

    In the tree of a depth-first search, the subtree below a node that has no edge to above that
    node's parent forms a block with the parent, without the blocks that hang on it.
    """
    order, parent = _depth_first(near)
    number = [0] * len(near)
    for i, v in enumerate(order):
        number[v] = i
    low = [0] * len(near)
    for v in order:
        low[v] = min([number[w] for w in near[v]], default=0)
    for v in reversed(order):
        above = parent[v]
        if above >= 0 and low[v] < low[above]:
            low[above] = low[v]
    found: list[list[int]] = []
    block = [0] * len(near)
    for v in order:
        above = parent[v]
        if above >= 0 and low[v] < number[above]:
            block[v] = block[above]
            found[block[v]].append(v)
        elif above >= 0:
            block[v] = len(found)
            found.append([above, v])
    return found


def _depth_first(near: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Nodes in the order in which a depth-first search meets them, and from where; -1 at a root."""
    order: list[int] = []
    parent = [-1] * len(near)
    met = bytearray(len(near))
    for root in range(len(near)):
        if met[root]:
            continue
        stack = [root]
        while stack:
            v = stack.pop()
            if met[v]:
                continue
            met[v] = 1
            order.append(v)
            for w in near[v]:
                if not met[w]:
                    parent[w] = v
                    stack.append(w)
    return order, parent
