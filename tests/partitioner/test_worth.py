"""`worth_it` against exhaustion, `savings`, and `partition` beside simpler ways."""

import random
from statistics import fmean

import networkx as nx
import pytest

from bench.partitioner_families import drawn as drawn_of
from partitioner import Costs, border_bytes, partition, savings, violations, worth_it
from partitioner.worth import FAR, NEAR, Network, near_side
from tests.partitioner import graphs
from tests.partitioner.graphs import (
    by_connected_waves,
    by_single_nodes,
    by_waves,
    dag_of,
    random_capable,
    random_dag,
    random_layers,
    random_small,
)

RATIO = 1.02  # of the cost to the lowest, on average, with a cost per cluster


def bill(dag: nx.DiGraph, taken: set, costs: Costs, clusters: int) -> float:
    """The cost of everything, by its definition."""
    sides: dict[tuple, tuple[int, set[bool]]] = {}  # of all that touch a tensor
    for u, v, data in dag.edges(data=True):
        for tid, size in data.get("tensors", {None: 1}).items():
            sides.setdefault((u, tid), (size, {u in taken}))[1].add(v in taken)
    for v, data in dag.nodes(data=True):
        for tid, size in data.get("outputs", {}).items():
            sides.setdefault((v, tid), (size, {v in taken}))[1].add(False)
        for tid, size in data.get("inputs", {}).items():
            sides.setdefault((tid,), (size, {False}))[1].add(v in taken)
    carried = sum(size for size, both in sides.values() if len(both) > 1)
    nodes = sum((costs.there if v in taken else costs.here).get(v, 0) for v in dag)
    return nodes + costs.per_byte * carried + costs.per_cluster * clusters


def lowest(dag: nx.DiGraph, capable: set, costs: Costs) -> float:
    """The lowest bill of all subsets, clusters counted by `partition`; cheap subsets first."""
    nodes = sorted(capable)
    subsets = [{v for i, v in enumerate(nodes) if k >> i & 1} for k in range(1 << len(nodes))]
    bills = sorted((bill(dag, taken, costs, min(1, len(taken))), taken) for taken in subsets)
    best = float("inf")
    for least, taken in bills:
        if least >= best:
            break
        best = min(best, bill(dag, taken, costs, len(partition(dag, taken))))
    return best


def market(seed: int, per_cluster: tuple[float, ...]) -> tuple[nx.DiGraph, set, Costs]:
    rng = random.Random(seed)
    dag = rng.choice([random_small, random_dag, random_layers])(rng, rng.randint(1, 12))
    scale = rng.choice([1, 5, 30])
    here = {v: scale * rng.randint(0, 10) for v in dag}
    there = {v: max(0, cost + scale * rng.randint(-9, 4)) for v, cost in here.items()}
    per_byte = rng.choice([0, 0.05, 0.25, 1])
    costs = Costs(here, there, per_byte, scale * rng.choice(per_cluster))
    return dag, random_capable(rng, dag), costs


def checked(seed: int, per_cluster: tuple[float, ...]) -> float:
    """The cost of `worth_it`, which holds what it says, over the lowest."""
    dag, capable, costs = market(seed, per_cluster)
    worth = worth_it(dag, capable, costs)
    taken = {node for members in worth.clusters for node in members}
    given_up = [node for piece in worth.given_up for node in piece.nodes]
    assert sorted(given_up) == sorted(capable - taken), f"seed {seed}"
    assert violations(dag, capable, worth.clusters, taken=taken) == [], f"seed {seed}"
    assert worth.cost == pytest.approx(bill(dag, taken, costs, len(worth.clusters)))
    assert worth.of_none == pytest.approx(bill(dag, set(), costs, 0))
    assert worth.of_all == pytest.approx(bill(dag, capable, costs, len(partition(dag, capable))))
    assert worth.cost <= min(worth.of_all, worth.of_none)
    best = lowest(dag, capable, costs)
    return worth.cost / best if best else 1 + worth.cost


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(500), marks=pytest.mark.long)])
def test_free_clusters_are_chosen_best(seeds):
    for seed in seeds:
        assert checked(seed, (0,)) == pytest.approx(1), f"seed {seed}"


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(500), marks=pytest.mark.long)])
def test_clusters_with_a_cost_are_chosen_nearly_best(seeds):
    ratios = {seed: checked(seed, (1, 3, 6, 12)) for seed in seeds}
    assert fmean(ratios.values()) <= RATIO, {s: r for s, r in ratios.items() if r > RATIO}


def drawn(**costs) -> tuple[nx.DiGraph, Costs]:
    """a b X c: each 10 here and 4 there."""
    dag = dag_of("a b X c")
    return dag, Costs(dict.fromkeys(dag, 10.0), dict.fromkeys(dag, 4.0), **costs)


def test_everything_is_worth_it_when_carrying_is_free():
    """Three of four nodes at 4 and X at 10."""
    dag, costs = drawn()
    worth = worth_it(dag, "abc", costs)
    assert worth.clusters == [("a", "b"), ("c",)]
    assert (worth.cost, worth.of_all, worth.of_none, worth.given_up) == (22, 22, 40, [])


@pytest.mark.parametrize(
    ("per_cluster", "clusters", "cost"),
    [
        (5.9, [("a", "b"), ("c",)], 33.8),  # c by itself gains 6
        (6.0, [("a", "b"), ("c",)], 34.0),  # of two at one cost, the one that takes more
        (6.1, [("a", "b")], 34.1),
        (12.1, [], 40.0),
    ],
)
def test_a_cluster_must_be_worth_its_cost(per_cluster, clusters, cost):
    dag, costs = drawn(per_cluster=per_cluster)
    worth = worth_it(dag, "abc", costs)
    assert worth.clusters == clusters
    assert worth.cost == pytest.approx(cost)


def test_what_is_given_up_has_its_loss():
    """To take c by itself would cost 4 + 7, not 10; a and b would cost 8 + 7, not 20."""
    dag, costs = drawn(per_cluster=7.0)
    (piece,) = worth_it(dag, "abc", costs).given_up
    assert (piece.nodes, piece.loss) == (("c",), 1.0)
    assert savings(dag, [("a", "b"), ("c",)], costs) == [5.0, -1.0]


def test_what_is_given_up_may_be_two_clusters():
    """a and b are joined by an edge, and X, which is not capable, lies between them as well.

    a → b,  a → X → b
    """
    dag = nx.DiGraph([("a", "b"), ("a", "X"), ("X", "b")])
    costs = Costs({"a": 3.0, "b": 3.0}, {"a": 1.0, "b": 1.0}, per_cluster=10.0)
    (piece,) = worth_it(dag, "ab", costs).given_up
    assert (set(piece.nodes), piece.loss) == ({"a", "b"}, 2 * 10 - 2 * (3 - 1))


def test_wide_graphs_of_which_nothing_is_worth_it():
    """All capable nodes are given up, in clusters that a merging finds and not a search."""
    dag, capable = drawn_of("near", 200, 0.3)
    worth = worth_it(dag, capable, Costs({}, dict.fromkeys(dag, 1.0), per_cluster=2.0))
    assert worth.clusters == []
    assert {node for piece in worth.given_up for node in piece.nodes} == capable
    clusters = len(partition(dag, capable))
    assert sum(piece.loss for piece in worth.given_up) == len(capable) + 2.0 * clusters


def test_savings_count_what_is_carried():
    """The tensors of a b and of X cross the border: a byte each, at 2."""
    dag, costs = drawn(per_byte=2.0)
    assert savings(dag, [("a", "b"), ("c",)], costs) == [10.0, 4.0]


def test_cut_by_networkx():
    """The cut's cost is the maximum flow, and no larger near side costs as little."""
    for seed in range(100):
        rng = random.Random(seed)
        size = rng.randint(2, 9)
        network, peer = Network(), nx.DiGraph()
        peer.add_nodes_from([NEAR, FAR, *(network.node() for _ in range(size - 2))])
        for _ in range(3 * size):
            (u, v), capacity = rng.sample(range(size), 2), rng.randint(1, 9)
            network.arc(u, v, capacity)
            peer.add_edge(
                u, v, capacity=capacity + peer.get_edge_data(u, v, {"capacity": 0})["capacity"]
            )
        near = near_side(network)
        parted = [c for u, v, c in peer.edges(data="capacity") if near[u] and not near[v]]
        flow = nx.maximum_flow(peer, NEAR, FAR)
        assert sum(parted) == flow[0], f"seed {seed}"
        open_ = nx.DiGraph((u, v) for u, v, c in peer.edges(data="capacity") if flow[1][u][v] < c)
        open_.add_edges_from((v, u) for u in flow[1] for v, f in flow[1][u].items() if f)
        open_.add_nodes_from(peer)
        assert {v for v in peer if not near[v]} == {FAR} | nx.ancestors(open_, FAR), f"seed {seed}"


def test_waves_on_a_drawn_graph():
    """X reads from a and waits; c, ready later in the first wave, is in a's group without an edge.

    a → X → b     c → d
    """
    dag = graphs.dag_of("a X b, c d")
    assert by_waves(dag, graphs.capable_of(dag)) == [["a", "c", "d"], ["b"]]
    pieces = [{"a"}, {"c", "d"}, {"b"}]
    assert [set(piece) for piece in by_connected_waves(dag, graphs.capable_of(dag))] == pieces


def test_single_nodes_on_a_drawn_graph():
    """d can join b, and not a, which leads to it through X."""
    dag = graphs.dag_of("a X d, a d, b d")
    assert by_single_nodes(dag, graphs.capable_of(dag)) == [["a"], ["b", "d"]]


def middle(seed: int):
    """50 to 500 nodes, as many edges for each node in large graphs as in small ones."""
    rng = random.Random(seed)
    size = round(50 * 10 ** rng.random())
    if rng.random() < 0.5:
        dag = graphs.random_dag(rng, size, density=rng.choice([0.7, 1, 1.5, 2, 4]) * 2 / size)
    else:
        dag = graphs.random_layers(rng, size)
    return rng, dag, graphs.random_capable(rng, dag)


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(2000), marks=pytest.mark.long)])
def test_never_worse_than_simpler_ways(seeds):
    """Never more clusters, and with as many never more bytes."""
    for seed in seeds:
        rng, dag, capable = middle(seed)
        clusters = partition(dag, capable)
        found = len(clusters), border_bytes(dag, clusters)
        assert violations(dag, capable, clusters) == [], f"seed {seed}"
        for way in (by_connected_waves, by_single_nodes):
            other = way(dag, capable)
            worse = found > (len(other), border_bytes(dag, other))
            assert not worse, f"seed {seed}: {way.__name__}"
        assert len(by_waves(dag, capable)) == len(partition(dag, capable, connected=False))
        if seed % 10 == 0:
            assert partition(graphs.shuffled(rng, dag), capable) == clusters, f"seed {seed}"
