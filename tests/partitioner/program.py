"""The best partition by an integer program, for graphs too large for exhaustion.

It shares no code with the product; HiGHS (by `scipy.optimize.milp`) solves it.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import networkx as nx
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix

from tests.partitioner.graphs import Cost, cost_of

INFEASIBLE = 2  # status of `milp`
Row = dict[int, float]


@dataclass
class Program:
    """Variables from 0 to 1, their costs and kinds; rows `coefficients · x >= least`."""

    costs: list[float] = field(default_factory=list)
    integral: list[int] = field(default_factory=list)
    rows: list[tuple[Row, float]] = field(default_factory=list)

    def variable(self, cost: float = 0.0, *, integral: bool = False) -> int:
        self.costs.append(cost)
        self.integral.append(int(integral))
        return len(self.costs) - 1

    def at_least(self, least: float, *terms: tuple[int, float]) -> None:
        """A row of (variable, coefficient); a variable may come more than once."""
        row: Row = {}
        for variable, coefficient in terms:
            row[variable] = row.get(variable, 0.0) + coefficient
        self.rows.append((row, least))

    def solve(self, seconds: float) -> np.ndarray | None:
        """The cheapest solution, None if there is none; TimeoutError if that is not known."""
        data: list[float] = []
        index: list[int] = []
        start = [0]
        for coefficients, _ in self.rows:
            data += coefficients.values()
            index += coefficients.keys()
            start.append(len(data))
        matrix = csr_matrix((data, index, start), shape=(len(self.rows), len(self.costs)))
        solution = milp(
            self.costs,
            integrality=self.integral,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, [least for _, least in self.rows], np.inf),
            options={"time_limit": seconds},
        )
        if solution.x is None and solution.status != INFEASIBLE:
            raise TimeoutError(solution.message)
        found: np.ndarray | None = solution.x
        return found


def better_than(
    dag: nx.DiGraph, capable: set[Hashable], found: Cost, seconds: float = 200.0
) -> Cost | None:
    """A cost below `found`, if some partition into connected clusters has one; else None.

    Raises: TimeoutError if that is not known within some seconds.
    """
    if not capable:
        return None
    fewer = _Clusters(dag, capable, found[0] - 1).cheapest(seconds)
    return fewer or _Clusters(dag, capable, found[0], found[1] - 1).cheapest(seconds)


class _Clusters:
    """Partitions into some number of clusters, in an order in which they can run.

    Variables, for node v and place k in that order:
    `at[v, k]`: v is in cluster k. `first[v, k]`: v is its first node. `arc[u, v, k]`: neighbour u
    leads to v along a tree in cluster k, which grows from the first node.
    """

    def __init__(
        self, dag: nx.DiGraph, capable: set[Hashable], count: int, most: int | None = None
    ) -> None:
        """With no more than `most` bytes over the borders."""
        self.dag = dag
        self.nodes = [v for v in nx.topological_sort(dag) if v in capable]
        self.places = range(count)
        self.program = Program()
        places = product(self.nodes, self.places)
        self.at = {place: self.program.variable(integral=True) for place in places}
        self.first = {vk: self.program.variable() for vk in self.at}
        self.near = {
            v: [u for u in (*dag.pred[v], *dag.succ[v]) if u in capable] for v in self.nodes
        }
        self.arc = {
            (u, v, k): self.program.variable()
            for v in self.nodes
            for u in self.near[v]
            for k in self.places
        }
        self._place()
        self._grow()
        constant = self._pay()
        if most is not None:
            costs = enumerate(self.program.costs)
            self.program.at_least(constant - most, *((i, -cost) for i, cost in costs if cost))

    def cheapest(self, seconds: float) -> Cost | None:
        """The fewest bytes; None if there is no partition. Pieces are forbidden as they come."""
        if not self.places:
            return None
        while True:
            x = self.program.solve(seconds)
            if x is None:
                return None
            clusters = [[v for v in self.nodes if x[self.at[v, k]] > 0.5] for k in self.places]
            if not self._forbid_pieces(clusters):
                return cost_of(self.dag, [members for members in clusters if members])

    def _done(self, v: Hashable, k: int, sign: float) -> list[tuple[int, float]]:
        """The terms of v being in one of the clusters up to k."""
        return [(self.at[v, j], sign) for j in self.places if j <= k]

    def _place(self) -> None:
        """Each node is in one cluster, no earlier than what it reads.

        It is in a later one than what leads to it through incapable nodes.
        """
        parted: dict[Hashable, set[Hashable]] = {}  # capable ones before an incapable node
        for v in nx.topological_sort(self.dag):
            joined = {u for u in self.dag.pred[v] if u in self.near}
            apart = {u for w in self.dag.pred[v] if w not in self.near for u in parted[w]}
            if v not in self.near:
                parted[v] = joined | apart
                continue
            self.program.at_least(1, *self._done(v, len(self.places), 1))
            self.program.at_least(-1, *self._done(v, len(self.places), -1))
            for k in self.places:
                for sooner, before in ((0, joined), (1, apart)):
                    for u in before:
                        self.program.at_least(
                            0, *self._done(u, k - sooner, 1), *self._done(v, k, -1)
                        )

    def _grow(self) -> None:
        """A node is the first of its cluster, or a neighbour in it leads to it."""
        for (v, k), at in self.at.items():
            into = [(self.arc[u, v, k], 1.0) for u in self.near[v]]
            self.program.at_least(0, (self.first[v, k], 1), (at, -1), *into)
            for u in self.near[v]:
                self.program.at_least(0, (self.at[u, k], 1), (self.arc[u, v, k], -1))
            later = self.nodes[self.nodes.index(v) + 1 :]
            self.program.at_least(-1, (at, -1), *((self.first[w, k], -1) for w in later))

    def _pay(self) -> int:
        """Bytes as costs, returns what is to be added to them.

        A cluster that touches a tensor pays for it. One that capable nodes make, and no others
        read, is free while all that touch it are in one cluster.
        """
        program, constant = self.program, 0
        for (inside, maker, _), (size, readers) in _tensors(self.dag).items():
            taken = inside and maker in self.near
            touched = [v for v in self.nodes if v in readers or (taken and v == maker)]
            for k in self.places if touched else ():
                pays = program.variable(size)
                for v in touched:
                    program.at_least(0, (pays, 1), (self.at[v, k], -1))
            if taken and readers <= self.near.keys():
                constant -= size
                apart = program.variable(size)
                for v, k in product(readers, self.places):
                    done = (*self._done(v, k, 1), *self._done(maker, k, -1))
                    program.at_least(0, (apart, 1), *done)
        return constant

    def _forbid_pieces(self, clusters: Iterable[Sequence[Hashable]]) -> bool:
        """Forbid the clusters that are in pieces; whether there were any.

        Of a set of nodes that has one in a cluster, one is the cluster's first, or an arc leads
        there from outside the set.
        """
        rows = len(self.program.rows)
        for members in clusters:
            pieces = list(nx.weakly_connected_components(self.dag.subgraph(members)))
            for piece in pieces if len(pieces) > 1 else ():
                into = [(u, v) for v in piece for u in self.near[v] if u not in piece]
                for k, inside in product(self.places, piece):
                    ways = [self.arc[u, v, k] for u, v in into]
                    ways += [self.first[v, k] for v in piece]
                    terms = [(way, 1.0) for way in ways]
                    self.program.at_least(0, (self.at[inside, k], -1), *terms)
        return len(self.program.rows) > rows


def _tensors(dag: nx.DiGraph) -> dict[tuple[Hashable, ...], tuple[int, set[Hashable]]]:
    """Bytes and readers (None: the outside) by whether a node makes it, its maker and id."""
    tensors: dict[tuple[Hashable, ...], tuple[int, set[Hashable]]] = {}
    for u, data in dag.nodes(data=True):
        for tid, size in data.get("outputs", {}).items():
            tensors[True, u, tid] = (size, {None})
        for tid, size in data.get("inputs", {}).items():
            tensors.setdefault((False, None, tid), (size, set()))[1].add(u)
    for u, v, data in dag.edges(data=True):
        for tid, size in data.get("tensors", {None: 1}).items():
            tensors.setdefault((True, u, tid), (size, set()))[1].add(v)
    return tensors
