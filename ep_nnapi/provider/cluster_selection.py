"""Selection of the clusters to run on NNAPI, by the partitioning options and estimated costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

import networkx as nx

from ep_nnapi.costs import PHONE, CostModel, mean
from ep_nnapi.graph.dag import inputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.options.table import HOST, LITERT, Options
from ep_nnapi.options.target import RuleSet
from ep_nnapi.options.values import Partitioning
from partitioner import Budget, Costs, GivenUp, Partition, limited, savings, worth_it

Ids: TypeAlias = tuple[int, ...]

MOVES_BYTES = frozenset(("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
"""Operators that compute nothing: alone they cost more on the way to a device than they save."""
_ALONE = "its cluster is this node alone, which only moves bytes"
_LEFT = "partitioning=maximal takes it"
TAKEN = "sessions on the host leave it to the CPU, unless partitioning=maximal is given"
"""How a note ends on a node of a cluster that is taken only because of that option."""


@frozen
class ClusterSelection:
    """The selected clusters.

    clusters     node ids of each cluster, in topological order
    left_to_cpu  sets of node ids left to the CPU provider, each with its reason
    notes        texts on nodes of the clusters, by id
    lower_bound  lower bound on the number of clusters of any partition of the same nodes
    """

    clusters: list[Ids]
    left_to_cpu: list[tuple[Ids, str]]
    lower_bound: int
    notes: Mapping[int, str] = field(default_factory=dict)


@frozen
class ClusterSelector:
    """Selects clusters by the user's options and a cost model.

    device_limits  limits of the size of a cluster that the device can compile
    samples  the nodes for each of the sizes to estimate by, if there are several
    """

    options: Options
    model: CostModel = PHONE
    device_limits: Budget = field(default_factory=Budget)
    samples: tuple[Mapping[int, GraphNode], ...] = ()

    def select(
        self, dag: nx.DiGraph, nodes: Mapping[int, GraphNode], capable: Iterable[int]
    ) -> ClusterSelection:
        """Returns the clusters of `capable` nodes that satisfy the options.

        nodes   all nodes of the graph, by id
        Clusters beyond min_cluster_nodes or max_clusters are dropped and the rest is selected
        again, until none is dropped: without their neighbours, clusters may cost more than the CPU.
        """
        samples = (self.samples or (nodes,)) if self._estimates else ({},)
        costs = mean([self.model.costs(sample.values()) for sample in samples])
        candidates: set[Hashable] = set(capable)
        left_to_cpu: list[tuple[Ids, str]] = []
        while True:
            wanted, not_worth_it = candidates, list[GivenUp]()
            if self.options.partitioning is Partitioning.WORTH_IT:
                found = worth_it(dag, candidates, costs)
                wanted, not_worth_it = {n for c in found.clusters for n in c}, found.given_up
            values: dict[tuple[Hashable, ...], float] = {}
            clusters, over_limit = self._limited(dag, wanted, costs, values)
            left_to_cpu += [
                (_ids(c), self._over_limit_reason(c, nodes, values.get(c))) for c in over_limit
            ]
            if not over_limit:
                break
            candidates -= {node for members in over_limit for node in members}
        left_to_cpu += [(_ids(piece.nodes), _slower_reason(piece, nodes)) for piece in not_worth_it]
        idle = self._idle([_ids(c) for c in clusters], nodes, dag, costs)
        return self._without(
            idle,
            ClusterSelection([_ids(c) for c in clusters], left_to_cpu, clusters.lower_bound),
        )

    def _idle(
        self,
        clusters: Sequence[Ids],
        nodes: Mapping[int, GraphNode],
        dag: nx.DiGraph,
        costs: Costs,
    ) -> Mapping[Ids, str]:
        """Returns the clusters that a session on the host leaves whole, each with the reason.

        Clusters that limits have split are not whole.
        """
        options = self.options
        here = options.target is RuleSet.EP_NNAPI and options.runtime in (HOST, LITERT)
        worth_it = options.partitioning is Partitioning.WORTH_IT
        if worth_it or self._budget() is not None or not here or options.device_profile is not None:
            return {}
        single = (c for c in clusters if len(c) == 1 and nodes[c[0]].op_type in MOVES_BYTES)
        # those of constants have a reason of their own
        found: dict[Ids, str] = {c: _ALONE for c in single if inputs_of(nodes[c[0]])}
        if self.options.calibration is not None:
            gains = zip(clusters, savings(dag, list(clusters), costs), strict=True)
            slower = {c: gain for c, gain in gains if gain < 0}
            found |= {
                c: f"its cluster is measured, by the calibration, {_compared(g)} the CPU provider"
                for c, g in slower.items()
            }
        return found

    def _without(self, idle: Mapping[Ids, str], found: ClusterSelection) -> ClusterSelection:
        """Returns the selection without the clusters that a session on the host leaves whole.

        The others stay as they are: a partition of them and the nodes left, each by itself, is one
        of all nodes, so the lower bound falls by one for each. With partitioning maximal they stay
        too, with a note.
        """
        if self.options.partitioning is Partitioning.MAXIMAL:
            notes = {i: f"{why}: {TAKEN}" for c, why in idle.items() for i in c}
            return replace(found, notes=notes)
        return ClusterSelection(
            [c for c in found.clusters if c not in idle],
            [*found.left_to_cpu, *((c, f"{why}: {_LEFT}") for c, why in idle.items())],
            found.lower_bound - len(idle),
        )

    @property
    def _estimates(self) -> bool:
        """True if the options need cost estimates; else the work of large graphs is not counted."""
        options = self.options
        limited = options.max_clusters is not None or options.calibration is not None
        return options.partitioning is Partitioning.WORTH_IT or limited

    def _limited(
        self,
        dag: nx.DiGraph,
        wanted: set[Hashable],
        costs: Costs,
        values: dict[tuple[Hashable, ...], float],
    ) -> tuple[Partition, list[tuple[Hashable, ...]]]:
        """Returns the clusters within the limits and those beyond.

        `values` receives the estimated savings of each cluster in microseconds.
        """

        def saved(clusters: list[tuple[Hashable, ...]]) -> Sequence[float]:
            found = savings(dag, clusters, costs)
            values.update(zip(clusters, found, strict=True))
            return found

        most = self.options.max_clusters
        return limited(
            dag,
            wanted,
            min_cluster_nodes=self.options.min_cluster_nodes,
            max_clusters=most,
            values=None if most is None else saved,
            budget=self._budget(),
        )

    def _budget(self) -> Budget | None:
        """Returns the limits of a cluster's size: those of the options and of the device."""
        budget = lower_limits(budget_of(self.options), self.device_limits)
        return budget if budget != Budget() else None

    def _over_limit_reason(
        self, cluster: Sequence[Hashable], nodes: Mapping[int, GraphNode], saved: float | None
    ) -> str:
        """Returns the reason why a cluster is beyond the limits."""
        fewest, most = self.options.min_cluster_nodes, self.options.max_clusters
        if len(cluster) < fewest or saved is None:
            size = _count(cluster, nodes)
            return f"its cluster has {size}, fewer than min_cluster_nodes = {fewest}"
        return (
            f"its cluster, estimated {_compared(saved)} the CPU provider, is not among the "
            f"max_clusters = {most} that save most"
        )


def _ids(nodes: Iterable[Hashable]) -> Ids:
    return tuple(i for i in nodes if isinstance(i, int))


def _count(ids: Sequence[Hashable], nodes: Mapping[int, GraphNode]) -> str:
    """Returns the number of nodes as text, and with QDQ groups the count with each group as one."""
    originals = sum(len(nodes[i].originals) for i in _ids(ids))
    noun = "node" if originals == 1 else "nodes"
    groups = f" ({len(ids)} with each QDQ group as one)" if originals > len(ids) else ""
    return f"{originals} {noun}{groups}"


def _compared(saved: float) -> str:
    size = abs(saved)
    number = f"{size:,.0f}" if size >= 10 else f"{size:.2g}"
    return f"{number} us {'faster' if saved > 0 else 'slower'} than"


def _slower_reason(piece: GivenUp, nodes: Mapping[int, GraphNode]) -> str:
    """Returns the reason why nodes are slower on NNAPI, and the option that takes them anyway."""
    originals = sum(len(nodes[i].originals) for i in _ids(piece.nodes))
    alone = "this node by itself" if originals == 1 else f"these {originals} nodes by themselves"
    return (
        f"worth_it: taking {alone} is estimated {_compared(-piece.loss)} the CPU provider; "
        f"partitioning=maximal takes {'it' if originals == 1 else 'them'}"
    )


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
    for other in (Budget.needed(dag, c) for c in compiled):
        if _weights(other) < _weights(needed) and _activations(other) < _activations(needed):
            parts.append(other)
    weights, activations = max(map(_weights, parts)), max(map(_activations, parts))
    if weights >= _weights(needed) and activations >= _activations(needed):
        return None
    return Budget(weights=weights or None, activations=activations)


def _bytes(needed: Budget) -> int:
    return _weights(needed) + _activations(needed)


def _weights(needed: Budget) -> int:
    return needed.weights or 0


def _activations(needed: Budget) -> int:
    return needed.activations or 0
