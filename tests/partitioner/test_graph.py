"""Graphs by number: order, contraction, components; their tensors, waves and limits."""

import random

import networkx as nx
import pytest

from partitioner import border_bytes, limited, partition, violations
from partitioner.clusters import sequence
from partitioner.graph import Region, components, indexed, sorted_nodes
from partitioner.merging import by_wave, earliest, maximal, wave_parts
from partitioner.search import planned, single_bits
from partitioner.tensors import TensorUse, cheapest, region_tensors, renamed
from tests.cases import each
from tests.partitioner import graphs
from tests.partitioner.graphs import cost_of as cost_by_definition


@each("seed", range(30))
def test_numbers_are_a_topological_order_that_insertion_does_not_change(seed):
    rng = random.Random(seed)
    dag = graphs.random_dag(rng, rng.randint(1, 30))
    capable = graphs.random_capable(rng, dag)
    graph = indexed(dag, capable)
    assert all(graph.number[u] < graph.number[v] for u, v in dag.edges)
    expected = [tuple(sorted(graph.number[u] for u in dag.pred[node])) for node in graph.number]
    assert graph.region.preds == expected
    wanted = tuple(node for node in graph.number if node in capable)
    assert graph.members(v for v, flag in enumerate(graph.region.capable) if flag) == wanted
    assert indexed(graphs.shuffled(rng, dag), capable) == graph


@each("seed", range(30))
def test_contraction_by_networkx(seed):
    """Of consecutive pairs in topological order, which leaves the graph acyclic."""
    rng = random.Random(seed)
    dag = graphs.random_dag(rng, rng.randint(1, 20))
    graph = indexed(dag, dag)
    label = [v // 2 for v in range(len(dag))]
    region, where = graph.region.contracted(label)
    numbers = nx.relabel_nodes(dag, graph.number)
    peer = nx.DiGraph((where[u], where[v]) for u, v in numbers.edges if where[u] != where[v])
    assert {(u, v) for v, row in enumerate(region.preds) for u in row} == set(peer.edges)
    assert all(u < v for u, v in peer.edges)
    expected = [label[a] == label[b] for a in range(len(dag)) for b in range(len(dag))]
    assert [where[a] == where[b] for a in range(len(dag)) for b in range(len(dag))] == expected


def test_a_part_keeps_the_edges_between_its_nodes():
    region = Region([[], [0], [0, 1], [2]], bytearray([1, 0, 1, 1]))
    assert region.part([0, 2, 3]) == Region([[], [0], [1]], bytearray([1, 1, 1]))
    assert region.succs == [(1, 2), (2,), (3,), ()]


@each("seed", range(30))
def test_components_by_networkx(seed):
    rng = random.Random(seed)
    peer = nx.gnm_random_graph(20, rng.randint(0, 25), seed=seed)
    names = components(20, peer.edges)
    for piece in nx.connected_components(peer):
        assert {names[v] for v in piece} == {min(piece)}


def test_nodes_of_one_kind_sort_by_themselves_and_others_by_type():
    assert sorted_nodes([(2,), 10, "b", 9, "a", (1,)]) == [10, 9, "a", "b", (1,), (2,)]


# Plans of a search: a topological order, and which nodes are live


@pytest.mark.parametrize("against", [False, True])
@each("seed", range(40))
def test_live_nodes_own_a_bit_each(seed, against):
    """Against the edges, a node reads what reads it along them."""
    rng = random.Random(seed)
    dag = graphs.random_layers(rng, rng.randint(1, 40))
    region = indexed(dag, graphs.random_capable(rng, dag)).region
    reads, read_by = (region.succs, region.preds) if against else (region.preds, region.succs)
    live: dict[int, int] = {}  # node by bit
    left = [len(row) for row in read_by]
    for step in planned(region, [], 10**6, against=against):
        assert step.bit not in live
        assert sorted(live[bit] for bit in single_bits(step.reads)) == list(reads[step.node])
        live[step.bit] = step.node
        for u in reads[step.node]:
            left[u] -= 1
        dying = {live.pop(bit) for bit in single_bits(step.dying)}
        assert dying == {u for u in (*reads[step.node], step.node) if not left[u]}
    assert not live


def test_a_region_with_too_many_live_nodes_has_no_plan():
    """Of a chain of three nodes, one and one are live after a step, none after the last."""
    chain = Region([[], [0], [1]], bytearray([1, 1, 1]))
    assert len(planned(chain, [], 5)) == 3
    assert planned(chain, [], 4) == []


def test_tensors_are_open_until_the_last_node_that_touches_them():
    chain = Region([[], [0], [1]], bytearray([1, 1, 1]))
    steps = planned(chain, [TensorUse(1, (0, 1), True), TensorUse(1, (0, 2), True)], 100)
    assert [step.touches for step in steps] == [0b11, 0b01, 0b10]
    assert [step.open for step in steps] == [0b11, 0b10, 0]


def test_clusters_that_must_follow_a_live_node():
    """0 → 1 (incapable) → 2: whatever holds node 0 or 1, one more cluster follows."""
    steps = planned(Region([[], [0], [1]], bytearray([1, 0, 1])), [], 100)
    assert [step.tails for step in steps] == [((1, 1),), ((1, steps[1].bit),), ()]


def waves_of(text: str) -> dict[str, int]:
    """The earliest wave of each node of a drawn graph."""
    dag = graphs.dag_of(text)
    graph = indexed(dag, graphs.capable_of(dag))
    waves = earliest(graph.region.preds, range(len(dag)), graph.region.capable)
    return {node: waves[v] for node, v in graph.number.items()}


def test_each_return_to_capable_nodes_is_another_wave():
    assert waves_of("a X b c Y d") == {"a": 1, "X": 1, "b": 2, "c": 2, "Y": 2, "d": 3}
    assert waves_of("X a, b a") == {"X": 0, "a": 1, "b": 1}


@each("seed", range(40))
def test_waves_are_as_many_as_onnx_runtimes_groups(seed):
    rng = random.Random(seed)
    dag = graphs.random_layers(rng, rng.randint(1, 60))
    capable = graphs.random_capable(rng, dag)
    graph = indexed(dag, capable)
    waves = earliest(graph.region.preds, range(len(dag)), graph.region.capable)
    count = len(graphs.by_waves(dag, capable))
    assert max(waves) == count == len(partition(dag, capable, connected=False))
    assert len(partition(dag, capable)) >= count


@each("seed", range(40))
def test_connected_waves_are_sound(seed):
    rng = random.Random(seed)
    dag = graphs.random_layers(rng, rng.randint(1, 60))
    capable = graphs.random_capable(rng, dag)
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
    dag = graphs.dag_of("a X b c")
    graph = indexed(dag, graphs.capable_of(dag))
    assert by_wave(graph.region, []) == [0, 1, 2, 2]


def test_a_node_moves_to_the_wave_where_it_saves_bytes():
    """c, ready early, reads nothing of a; b's wave has its reader, to which it carries 9 bytes."""
    dag = graphs.dag_of("a X b")
    dag.add_edge("c", "b", tensors={"t": 9})
    graph = indexed(dag, graphs.capable_of(dag))
    (tensors,) = region_tensors(dag, graph, [range(len(dag))])
    block = by_wave(graph.region, tensors)
    assert block[graph.number["c"]] == block[graph.number["b"]] != block[graph.number["a"]]


@each("seed", range(60))
def test_bytes_and_prices_by_the_definition(seed):
    """Prices differ from the bytes of the graph by the same for every division into clusters."""
    rng = random.Random(seed)
    dag = graphs.random_small(rng, rng.randint(2, 12))
    capable = graphs.random_capable(rng, dag)
    graph = indexed(dag, capable)
    (tensors,) = region_tensors(dag, graph, [range(len(dag))])
    differences = set()
    for _ in range(5):
        block = [
            v if not flag else -rng.randint(1, 3) for v, flag in enumerate(graph.region.capable)
        ]
        homes = {block[graph.number[node]] for node in capable}
        clusters = [[v for v in capable if block[graph.number[v]] == home] for home in homes]
        size = border_bytes(dag, clusters)
        assert (len(clusters), size) == cost_by_definition(dag, clusters)
        count, price = graphs.priced(graph.region, tensors, block)
        assert count == len(clusters)
        differences.add(size - price)
    assert len(differences) == 1


@each("seed", range(60))
def test_the_cheapest_way_of_each_part_by_the_definition(seed):
    """Of two parts and nodes between them, each decided as if the other were not."""
    rng = random.Random(seed)
    dag = graphs.random_small(rng, rng.randint(4, 14))
    capable = graphs.random_capable(rng, dag)
    graph = indexed(dag, capable)
    numbers = rng.sample(range(len(dag)), len(dag))
    parts = [sorted(numbers[0::3]), sorted(numbers[1::3])]
    ways = [[[rng.randint(0, 2) for _ in part] for _ in range(3)] for part in parts]
    chosen = cheapest(dag, graph, parts, ways)
    nodes = list(graph.number)
    for part, blocks, best in zip(parts, ways, chosen, strict=True):
        sizes = []
        for block in blocks:
            homes = {nodes[v]: b for v, b in zip(part, block, strict=True) if nodes[v] in capable}
            clusters = [[v for v in homes if homes[v] == b] for b in {*homes.values()}]
            sizes.append(border_bytes(dag, clusters))
        assert sizes[best] == min(sizes)
        assert best == sizes.index(min(sizes))


def test_the_price_of_a_tensor():
    """Free inside one cluster if no one else has it; else every cluster that touches it pays."""
    assert [TensorUse(4, (0, 1, 2), internal=True).price(k) for k in (1, 2, 3)] == [0, 8, 12]
    assert [TensorUse(4, (0, 1, 2), internal=False).price(k) for k in (1, 2, 3)] == [4, 8, 12]


def test_tensors_of_contracted_nodes_become_one_or_vanish():
    tensors = [TensorUse(4, (0, 1), True), TensorUse(2, (0, 2), True), TensorUse(3, (1, 2), True)]
    assert renamed(tensors, [0, 0, 1]) == [TensorUse(5, (0, 1), True)]


def test_a_tensor_without_a_size_is_one_byte_for_all_readers():
    dag = nx.DiGraph([("a", "b"), ("a", "c")])
    assert border_bytes(dag, ["a", "b", "c"]) == 3


DAG = graphs.dag_of("a X b c Y d e f")


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
    dag = graphs.dag_of("a b, c d, a X d, c Y b")
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
        dag = graphs.random_layers(rng, rng.randint(1, 40))
        capable = graphs.random_capable(rng, dag)
        limits = {"min_cluster_nodes": rng.randint(1, 4), "max_clusters": rng.choice([None, 2])}
        kept, given_up = limited(dag, capable, connected=connected, **limits)
        taken = {node for members in kept for node in members}
        left = [node for members in given_up for node in members]
        assert sorted([*taken, *left]) == sorted(capable), f"seed {seed}"
        assert violations(dag, capable, kept, connected=connected, taken=taken) == []
        assert all(len(members) >= limits["min_cluster_nodes"] for members in kept)
        assert len(kept) <= (limits["max_clusters"] or len(kept))
