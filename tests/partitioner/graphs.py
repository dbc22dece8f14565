"""Graphs to partition: random ones by seed, and ones drawn by hand."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence

import networkx as nx

from partitioner.graph import Region
from partitioner.tensors import Tensor


def dag_of(text: str) -> nx.DiGraph:
    """A graph from paths: `a b c, b d` has the edges a-b, b-c and b-d."""
    dag = nx.DiGraph()
    for path in text.split(","):
        nx.add_path(dag, path.split())
    return dag


def capable_of(dag: nx.DiGraph) -> set[Hashable]:
    """Nodes with a lower-case name: in drawn graphs, capitals are not capable."""
    return {node for node in dag if node.islower()}


def random_dag(rng: random.Random, size: int, density: float | None = None) -> nx.DiGraph:
    """Edges with one probability between all pairs, integers ascending; tensors of 1 to 9 bytes.

    Some producers have two tensors, some graphs inputs and outputs.
    """
    density = rng.choice([0.1, 0.2, 0.35, 0.5]) if density is None else density
    dag = nx.DiGraph()
    dag.add_nodes_from(range(size))
    for u in range(size):
        sizes = {f"t{u}.{k}": rng.randint(1, 9) for k in range(rng.choice([1, 1, 1, 2]))}
        for v in range(u + 1, size):
            if rng.random() < density:
                tid = rng.choice(list(sizes))
                dag.add_edge(u, v, tensors={tid: sizes[tid]})
        if rng.random() < 0.1:
            dag.nodes[u]["outputs"] = dict(list(sizes.items())[:1])
        if rng.random() < 0.1:
            dag.nodes[u]["inputs"] = {"x": 5}
    return dag


def random_small(rng: random.Random, size: int) -> nx.DiGraph:
    """As `random_dag`, of any density; edges carry up to three tensors or have no attribute."""
    density = rng.choice([0.05, 0.1, 0.2, 0.3, 0.5, 0.8])
    plain = rng.random() < 0.2
    dag = nx.DiGraph()
    dag.add_nodes_from(rng.sample(range(size), size))
    for u in range(size):
        sizes = {f"{u}.{k}": rng.choice([0, 1, 2, 3, 8, 100]) for k in range(rng.choice([1, 2, 3]))}
        for v in range(u + 1, size):
            if rng.random() < density:
                carried = rng.sample(sorted(sizes), rng.randint(1, len(sizes)))
                dag.add_edge(u, v, **({} if plain else {"tensors": {t: sizes[t] for t in carried}}))
        if rng.random() < 0.15:
            dag.nodes[u]["outputs"] = {t: sizes[t] for t in rng.sample(sorted(sizes), 1)}
        if rng.random() < 0.15:
            dag.nodes[u]["inputs"] = dict.fromkeys(rng.sample("xyz", rng.randint(1, 2)), 4)
    return dag


def random_layers(rng: random.Random, size: int) -> nx.DiGraph:
    """Short edges mostly, as in a network: each node reads up to three of the last few."""
    dag = nx.DiGraph()
    dag.add_nodes_from(range(size))
    sizes = [rng.choice([1, 4, 4, 16, 64]) for _ in range(size)]
    for v in range(1, size):
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            u = max(0, v - rng.choice([1, 1, 2, 3, 5, 9]))
            dag.add_edge(u, v, tensors={u: sizes[u]})
    return dag


def random_capable(rng: random.Random, dag: nx.DiGraph) -> set[Hashable]:
    """Each node with one probability out of a few."""
    share = rng.choice([0.3, 0.5, 0.7, 0.9, 1.0])
    return {node for node in dag if rng.random() < share}


def shuffled(rng: random.Random, dag: nx.DiGraph) -> nx.DiGraph:
    """The same graph with nodes and edges inserted in another order."""
    nodes, edges = list(dag.nodes(data=True)), list(dag.edges(data=True))
    rng.shuffle(nodes)
    rng.shuffle(edges)
    other = nx.DiGraph()
    other.add_nodes_from(nodes)
    other.add_edges_from(edges)
    return other


def priced(region: Region, tensors: Sequence[Tensor], block: Sequence[int]) -> tuple[int, int]:
    """Clusters and bytes of a partition that gives each node its block."""
    clusters = {b for b, flag in zip(block, region.capable, strict=True) if flag}
    touching = (len({block[v] for v in tensor.touched}) for tensor in tensors)
    sizes = (tensor.price(count) for tensor, count in zip(tensors, touching, strict=True))
    return len(clusters), sum(sizes)
