"""Waves: as many as ONNX Runtime's groups, and no partition has fewer clusters."""

from __future__ import annotations

import random

import pytest

from partitioner import partition, violations
from partitioner.clusters import sequence
from partitioner.graph import indexed
from partitioner.merging import by_wave, earliest, maximal, wave_parts
from partitioner.tensors import region_tensors
from tests.partitioner.baselines import by_waves
from tests.partitioner.graphs import capable_of, dag_of, random_capable, random_layers


def waves_of(text: str) -> dict[str, int]:
    """The earliest wave of each node of a drawn graph."""
    dag = dag_of(text)
    graph = indexed(dag, capable_of(dag))
    waves = earliest(graph.region.preds, range(len(dag)), graph.region.capable)
    return {node: waves[v] for node, v in graph.number.items()}


def test_each_return_to_capable_nodes_is_another_wave():
    assert waves_of("a X b c Y d") == {"a": 1, "X": 1, "b": 2, "c": 2, "Y": 2, "d": 3}
    assert waves_of("X a, b a") == {"X": 0, "a": 1, "b": 1}


@pytest.mark.parametrize("seed", range(40))
def test_waves_are_as_many_as_onnx_runtimes_groups(seed):
    rng = random.Random(seed)
    dag = random_layers(rng, rng.randint(1, 60))
    capable = random_capable(rng, dag)
    graph = indexed(dag, capable)
    waves = earliest(graph.region.preds, range(len(dag)), graph.region.capable)
    count = len(by_waves(dag, capable))
    assert max(waves) == count == len(partition(dag, capable, connected=False))
    assert len(partition(dag, capable)) >= count


@pytest.mark.parametrize("seed", range(40))
def test_connected_waves_are_sound(seed):
    rng = random.Random(seed)
    dag = random_layers(rng, rng.randint(1, 60))
    capable = random_capable(rng, dag)
    graph = indexed(dag, capable)
    region = graph.region
    early = earliest(region.preds, range(len(dag)), region.capable)
    late = earliest(region.succs, range(len(dag))[::-1], region.capable)
    for wave in (early, late):
        block = maximal(region, wave_parts(region, wave))
        assert all(block[b] == b for b in block)
        found = [graph.members(members) for members in sequence(region, block)]
        assert violations(dag, capable, found) == []


def test_waves_are_named_by_their_first_nodes_and_incapable_nodes_by_themselves():
    dag = dag_of("a X b c")
    graph = indexed(dag, capable_of(dag))
    assert by_wave(graph.region, []) == [0, 1, 2, 2]


def test_a_node_moves_to_the_wave_where_it_saves_bytes():
    """c, ready early, reads nothing of a; b's wave has its reader, to which it carries 9 bytes."""
    dag = dag_of("a X b")
    dag.add_edge("c", "b", tensors={"t": 9})
    graph = indexed(dag, capable_of(dag))
    (tensors,) = region_tensors(dag, graph, [range(len(dag))])
    block = by_wave(graph.region, tensors)
    assert block[graph.number["c"]] == block[graph.number["b"]] != block[graph.number["a"]]
