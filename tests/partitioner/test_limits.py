"""Limits of size and number."""

from __future__ import annotations

import random

import pytest

from partitioner import limited, violations
from tests.partitioner.graphs import dag_of, random_capable, random_layers

DAG = dag_of("a X b c Y d e f")


@pytest.mark.parametrize(
    ("limits", "kept", "given_up"),
    [
        ({}, ["a", "bc", "def"], []),
        ({"min_cluster_nodes": 1}, ["a", "bc", "def"], []),
        ({"min_cluster_nodes": 2}, ["bc", "def"], ["a"]),
        ({"min_cluster_nodes": 4}, [], ["a", "bc", "def"]),
        ({"max_clusters": 3}, ["a", "bc", "def"], []),
        ({"max_clusters": 2}, ["bc", "def"], ["a"]),
        ({"max_clusters": 0}, [], ["a", "bc", "def"]),
        (
            {"max_clusters": 1, "values": lambda clusters: [-len(c) for c in clusters]},
            ["a"],
            ["bc", "def"],
        ),
        ({"max_clusters": 1, "values": lambda clusters: [1] * len(clusters)}, ["a"], ["bc", "def"]),
    ],
)
def test_limits(limits, kept, given_up):
    found = limited(DAG, "abcdef", **limits)
    assert [["".join(members) for members in part] for part in found] == [kept, given_up]


def test_what_a_small_cluster_kept_apart_is_joined():
    r"""a-b and c-d wait for each other, so one of them is split; given up, it is in no one's way.

    a --- b      a → X → d
    c --- d      c → Y → b
    """
    dag = dag_of("a b, c d, a X d, c Y b")
    clusters, given_up = limited(dag, "abcd", min_cluster_nodes=2)
    assert len(clusters) == 1
    assert sorted(len(members) for members in given_up) == [1, 1]


@pytest.mark.parametrize("name", ["min_cluster_nodes", "max_clusters"])
def test_negative_limits_are_refused(name):
    with pytest.raises(ValueError, match="cannot be negative"):
        limited(DAG, "a", **{name: -1})


@pytest.mark.parametrize("connected", [True, False])
def test_limited_clusters_have_no_violations(connected):
    for seed in range(40):
        rng = random.Random(seed)
        dag = random_layers(rng, rng.randint(1, 40))
        capable = random_capable(rng, dag)
        limits = {"min_cluster_nodes": rng.randint(1, 4), "max_clusters": rng.choice([None, 2])}
        kept, given_up = limited(dag, capable, connected=connected, **limits)
        taken = {node for members in kept for node in members}
        left = [node for members in given_up for node in members]
        assert sorted([*taken, *left]) == sorted(capable), f"seed {seed}"
        assert violations(dag, capable, kept, connected=connected, taken=taken) == []
        assert all(len(members) >= limits["min_cluster_nodes"] for members in kept)
        assert len(kept) <= (limits["max_clusters"] or len(kept))
