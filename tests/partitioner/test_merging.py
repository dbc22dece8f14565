"""Mergings, groups of nodes that stay together, and budgets of a cluster."""

import random

import networkx as nx
import pytest

from partitioner import Budget, partition, violations
from partitioner.clusters import sequence
from partitioner.graph import indexed
from partitioner.merging import backward, forward, maximal, within
from tests.cases import each
from tests.partitioner import graphs


def drawn(seed: int) -> tuple[nx.DiGraph, set]:
    rng = random.Random(seed)
    dag = rng.choice([graphs.random_dag, graphs.random_layers])(rng, rng.randint(1, 60))
    return dag, graphs.random_capable(rng, dag)


def clusters_of(graph, block: list[int]) -> list[set]:
    """The clusters of a partition by number, as sets of nodes."""
    sets: dict[int, set] = {}
    for v, b in enumerate(block):
        if graph.region.capable[v]:
            sets.setdefault(b, set()).update(graph.members([v]))
    return list(sets.values())


@pytest.mark.parametrize("merge", [forward, backward])
@each("seed", range(60))
def test_mergings_are_sound_and_blocks_are_named_by_their_nodes(seed, merge):
    dag, capable = drawn(seed)
    graph = indexed(dag, capable)
    block = merge(graph.region)
    assert all(block[b] == b for b in block)
    found = [graph.members(members) for members in sequence(graph.region, block)]
    assert violations(dag, capable, found) == []


@each("seed", range(60))
def test_maximal_merges_what_can_be_merged(seed):
    """From single nodes that is all of the work, and there is nothing left to merge."""
    dag, capable = drawn(seed)
    graph = indexed(dag, capable)
    block = maximal(graph.region, range(len(dag)))
    assert all(block[b] == b for b in block)
    found = [graph.members(members) for members in sequence(graph.region, block)]
    assert violations(dag, capable, found) == []


@each("seed", range(60))
def test_forward_and_backward_merge_as_the_plain_way_does_in_the_same_order(seed):
    dag, capable = drawn(seed)
    graph = indexed(dag, capable)
    order = graph.members(range(len(dag)))
    for merge, reads, nodes in ((forward, dag.pred, order), (backward, dag.succ, order[::-1])):
        found = {frozenset(c) for c in clusters_of(graph, merge(graph.region))}
        assert found == {frozenset(c) for c in graphs.merged(reads, nodes, capable)}


def test_within_limits_dissolves_only_what_is_beyond_them():
    """Of a-b-c and d-e, the first is beyond two nodes."""
    dag = graphs.dag_of("a b c X d e")
    graph = indexed(dag, graphs.capable_of(dag))
    block = within(graph.region, forward(graph.region), lambda nodes: len(nodes) <= 2)
    assert sorted(sorted(c) for c in clusters_of(graph, block)) == [["a", "b"], ["c"], ["d", "e"]]


def test_forward_and_backward_on_a_drawn_graph():
    """b can be with a or with d, not with both: X keeps them apart."""
    dag = graphs.dag_of("a b d, a X d")
    graph = indexed(dag, graphs.capable_of(dag))
    expected = {frozenset("ab"), frozenset("d")}
    assert {frozenset(c) for c in clusters_of(graph, forward(graph.region))} == expected
    wanted = {frozenset("a"), frozenset("bd")}
    assert {frozenset(c) for c in clusters_of(graph, backward(graph.region))} == wanted


def clusters(text, **options):
    dag = graphs.dag_of(text)
    found = partition(dag, graphs.capable_of(dag), **options)
    assert violations(dag, graphs.capable_of(dag), found, **options) == []
    return ["".join(members) for members in found]


def test_a_group_moves_the_cut():
    """Of a b c, a or c has to part from b, since X keeps a and c apart."""
    text = "a b c, a X c"
    assert clusters(text, groups=["ab"]) == ["ab", "c"]
    assert clusters(text, groups=["bc"]) == ["a", "bc"]


def test_groups_that_share_a_node_are_one_and_hold_what_lies_between():
    assert clusters("a b c d, a X d", groups=["ac"]) == ["abc", "d"]
    assert clusters("a b c d, a X d", groups=["bc", "cd"]) == ["a", "bcd"]


@pytest.mark.parametrize(
    ("text", "group", "sentence"),
    [
        ("a X b", "aX", r"group \['a', 'X'\] holds 'X', which is not capable"),
        ("a X b", "ab", r"group \['a', 'b'\] cannot stay together: 'X' lies between"),
        ("a b, c d", "ac", r"group \['a', 'c'\] is not connected"),
    ],
)
def test_groups_that_cannot_be_are_refused(text, group, sentence):
    dag = graphs.dag_of(text)
    with pytest.raises(ValueError, match=sentence):
        partition(dag, graphs.capable_of(dag), groups=[group])


def weighted(text: str, **sizes: int) -> nx.DiGraph:
    dag = graphs.dag_of(text)
    for node, size in sizes.items():
        dag.nodes[node]["weights"] = {node: size}
    return dag


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (Budget(), ["abcd"]),
        (Budget(nodes=4, weights=14), ["abcd"]),  # at the limits
        (Budget(nodes=3), ["abc", "d"]),
        (Budget(weights=13), ["abc", "d"]),
        (Budget(activations=3), ["abcd"]),  # the tensors of a, b and c
        (Budget(activations=2), ["ab", "cd"]),
        (Budget(weights=1), ["a", "b", "c", "d"]),  # c and d by themselves are beyond it
    ],
)
def test_budgets_of_a_chain(budget, expected):
    """Nodes of 2, 1, 3 and 8 bytes of weights."""
    dag = weighted("a b c d", a=2, b=1, c=3, d=8)
    found = partition(dag, "abcd", budget=budget)
    assert ["".join(members) for members in found] == expected
    assert violations(dag, "abcd", found, budget=budget) == []


def test_weights_that_two_nodes_share_count_once():
    dag = weighted("a b", a=5, b=5)
    dag.nodes["b"]["weights"] = {"a": 5}
    assert partition(dag, "ab", budget=Budget(weights=5)) == [("a", "b")]


def test_a_budget_is_refused_where_it_cannot_be_kept_or_is_negative():
    with pytest.raises(ValueError, match="must be connected"):
        partition(graphs.dag_of("a b"), "ab", budget=Budget(nodes=1), connected=False)
    with pytest.raises(ValueError, match="cannot be negative"):
        Budget(weights=-1)


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(2000), marks=pytest.mark.long)])
def test_drawn_graphs_with_groups_and_budgets_have_no_violations(seeds):
    for seed in seeds:
        rng = random.Random(seed)
        dag = graphs.random_layers(rng, rng.randint(2, 60))
        capable = graphs.random_capable(rng, dag)
        free = partition(dag, capable)
        groups = [members[: rng.randint(1, 3)] for members in free[::2]]
        groups = [g for g in groups if nx.is_weakly_connected(dag.subgraph(g))]
        budget = Budget(nodes=rng.choice([None, 5, 20]), activations=rng.choice([None, 200]))
        found = partition(dag, capable, groups=groups, budget=budget)
        wrong = violations(dag, capable, found, groups=groups, budget=budget)
        assert wrong == [], f"seed {seed}"
        assert found.lower_bound <= len(found), f"seed {seed}"
