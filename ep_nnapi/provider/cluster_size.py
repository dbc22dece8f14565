"""Limits of a cluster's size: those of the options, and those that a device turns out to have."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence

import networkx as nx

from ep_nnapi.options.table import Options
from partitioner import Budget


def budget_of(options: Options) -> Budget:
    """Returns the limits that the options set."""
    return Budget(
        options.max_cluster_nodes,
        options.max_cluster_weight_bytes,
        options.max_cluster_activation_bytes,
    )


def lower_limits(one: Budget, other: Budget) -> Budget:
    """Returns the lower of each limit.

    >>> lower_limits(Budget(nodes=9), Budget(nodes=4, weights=100))
    Budget(nodes=4, weights=100, activations=None)
    """

    def lower(a: int | None, b: int | None) -> int | None:
        return min((limit for limit in (a, b) if limit is not None), default=None)

    return Budget(
        lower(one.nodes, other.nodes),
        lower(one.weights, other.weights),
        lower(one.activations, other.activations),
    )


def limits_below(
    dag: nx.DiGraph,
    failed: Sequence[Hashable],
    compiled: Iterable[Sequence[Hashable]] = (),
) -> Budget | None:
    """Returns limits that split a cluster which is too large for its device.

    failed    its nodes in topological order
    compiled  clusters that the device has compiled: it can compile as much again
    The limits are those that both parts fit if it is cut in two at half of its bytes. Returns None
    if the cluster cannot be made smaller.
    """
    needed = Budget.needed(dag, failed)
    if len(failed) < 2:
        return None
    total = _bytes(needed)
    middle = bisect_left(
        range(1, len(failed) - 1), total / 2, key=lambda i: _bytes(Budget.needed(dag, failed[:i]))
    )
    parts = [Budget.needed(dag, part) for part in (failed[: middle + 1], failed[middle + 1 :])]
    parts += [b for b in (Budget.needed(dag, c) for c in compiled) if _is_smaller(b, needed)]
    weights, activations = (max(b.weights or 0 for b in parts), max(map(_activations, parts)))
    if weights >= (needed.weights or 0) and activations >= _activations(needed):
        return None
    return Budget(weights=weights or None, activations=activations)


def _bytes(needed: Budget) -> int:
    return (needed.weights or 0) + _activations(needed)


def _activations(needed: Budget) -> int:
    return needed.activations or 0


def _is_smaller(one: Budget, other: Budget) -> bool:
    return (one.weights or 0) < (other.weights or 0) and _activations(one) < _activations(other)
