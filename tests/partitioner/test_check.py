"""`violations` finds each way of being wrong, and names it."""

from __future__ import annotations

import pytest

from partitioner import violations
from tests.partitioner.graphs import capable_of, dag_of


def found(text, *clusters, **options):
    dag = dag_of(text)
    return violations(dag, capable_of(dag), clusters, **options)


@pytest.mark.parametrize(
    ("text", "clusters", "sentence"),
    [
        ("a b", ["ab", ""], "cluster 1 is empty"),
        ("a b", ["abc"], "cluster 0 holds 'c', which is not in the graph"),
        ("a X", ["aX"], "cluster 0 holds 'X', which is not capable"),
        ("a b", ["ab", "b"], "'b' is in cluster 0 and again in cluster 1"),
        ("a b", ["a"], "'b' is in no cluster"),
        ("a, b", ["ab"], "cluster 0 is not connected: nothing in it joins 'a' and 'b'"),
        ("a X b", ["b", "a"], "cluster 0 runs before cluster 1, which it waits for"),
        ("a b", ["ba"], "cluster 0 lists 'b' before 'a', which it reads"),
        ("a b, a X b", ["ab"], "cluster 0 is not convex: a path leaves it to 'X' and comes back"),
        ("a b, c d, a X d, c Y b", ["ab", "cd"], "clusters [0, 1] wait for each other"),
        ("a b", ["a", "b"], "clusters 0 and 1 can be merged"),
    ],
)
def test_each_violation_is_named(text, clusters, sentence):
    assert found(text, *clusters) == [sentence]


def test_a_partition_has_none():
    """a and c cannot be merged: X lies between them."""
    assert found("a b, a X c, b c", "ab", "c") == []


def test_islands_may_share_a_cluster_when_not_connected():
    assert found("a, b", "ab", connected=False) == []
    assert found("a, b", "a", "b", connected=False) == ["clusters 0 and 1 can be merged"]


def test_neighbours_can_be_merged_when_not_connected():
    assert found("a b", "a", "b", connected=False) == ["clusters 0 and 1 can be merged"]


def test_a_cluster_between_two_keeps_them_apart():
    """a-c has an edge, but b lies between; only neighbours b can join either."""
    assert found("a b c, a c", "a", "b", "c") == [
        "clusters 0 and 1 can be merged",
        "clusters 1 and 2 can be merged",
    ]


def test_taken_nodes_are_covered_and_no_others():
    assert found("a b, X c", "ab", taken="ab") == []
    assert found("a b, X c", "ab", "c", taken="ab") == [
        "cluster 1 holds 'c', which is not to be taken"
    ]
    assert found("a b, X c", "ab", taken="abc") == ["'c' is in no cluster"]
