"""The lower bound on the number of clusters, and the proof that there are no fewer."""

from __future__ import annotations

import random

import pytest

from partitioner import partition
from tests.partitioner.exact import exhaustive
from tests.partitioner.graphs import capable_of, dag_of, random_dag, random_layers
from tests.partitioner.test_optimal import small


@pytest.mark.parametrize(
    ("text", "count"),
    [("a b c", 1), ("a X b", 2), ("a b, c d, a X d, c Y b", 3), ("X Y", 0)],
)
@pytest.mark.parametrize("connected", [True, False])
def test_drawn_graphs_are_proven_minimal(text, count, connected):
    dag = dag_of(text)
    found = partition(dag, capable_of(dag), connected=connected)
    least = count if connected or count < 3 else 2
    assert (len(found), found.lower_bound, found.minimal) == (least, least, True)


@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(5000), marks=pytest.mark.long)])
def test_small_graphs_are_proven_minimal(seeds):
    """And the proof is right: exhaustion finds no fewer."""
    for seed in seeds:
        dag, capable = small(seed)
        found = partition(dag, capable)
        assert found.minimal, f"seed {seed}"
        assert found.lower_bound == exhaustive(dag, capable)[0], f"seed {seed}"


@pytest.mark.parametrize("make", [random_dag, random_layers])
def test_a_bound_is_never_above_a_partition(make):
    """Also where nothing is searched: of 300 nodes, some graphs are too wide."""
    proven = []
    for seed in range(12):
        rng = random.Random(seed)
        dag = make(rng, 300) if make is random_layers else make(rng, 300, density=3 / 300)
        capable = {node for node in dag if rng.random() < 0.85}
        found = partition(dag, capable)
        assert 1 <= found.lower_bound <= len(found), f"seed {seed}"
        proven.append(found.minimal)
    assert any(proven) or make is random_dag
