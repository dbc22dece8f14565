"""Families of graphs that partitions are compared on, by size and seed, and published graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from random import Random

import networkx as nx

from bench.partitioner import KINDS

SHARED = Path(__file__).parents[2] / "shared" / "graphs"  # published graphs, if present
Drawn = tuple[nx.DiGraph, set[Hashable]]


def fans(nodes: int, random: Random) -> nx.DiGraph:
    """Fans in a row: a node, two to six arms that read it, and one that reads all of them."""
    dag = nx.empty_graph(1, nx.DiGraph)
    while len(dag) < nodes:
        last = len(dag) - 1
        arms = range(last + 1, last + 1 + random.randint(2, 6))
        dag.add_edges_from((last, arm) for arm in arms)
        dag.add_edges_from((arm, arms.stop) for arm in arms)
    return dag


def series_parallel(nodes: int, random: Random) -> nx.DiGraph:
    """An edge, of which any is divided by a node or gets a path beside it, again and again."""
    edges = [(0, 1)]
    for v in range(2, nodes):
        i = random.randrange(len(edges))
        a, b = edges[i]
        if random.random() < 0.5:
            edges[i] = (a, v)
        else:
            edges.append((a, v))
        edges.append((v, b))
    return nx.DiGraph(edges)


def near(nodes: int, random: Random) -> nx.DiGraph:
    """Each node reads up to three of the last nine."""
    dag = nx.empty_graph(nodes, nx.DiGraph)
    for v in range(1, nodes):
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            dag.add_edge(max(0, v - random.choice([1, 1, 2, 3, 5, 9])), v)
    return dag


def square(nodes: int, random: Random) -> nx.DiGraph:
    """As many layers as each has nodes, which read two of the layer before."""
    width = max(4, int(nodes**0.5))
    dag = nx.empty_graph(nodes, nx.DiGraph)
    for v in range(width, nodes):
        above = v // width * width - width
        dag.add_edges_from((u, v) for u in random.sample(range(above, above + width), 2))
    return dag


FAMILIES: dict[str, Callable[[int, Random], nx.DiGraph]] = {
    **{name: make for name, (make, _) in KINDS.items()},
    "fans": fans,
    "series-parallel": series_parallel,
    "near": near,
    "square layers": square,
}


def drawn(family: str, nodes: int, declined: float, seed: int = 0) -> Drawn:
    """A graph of a family, and its nodes without some that are declined at random."""
    dag = FAMILIES[family](nodes, Random(1000 * seed + nodes))
    return dag, without(dag, declined, seed)


def without(dag: nx.DiGraph, declined: float, seed: int) -> set[Hashable]:
    """The nodes of a graph but for a share of them, at least one."""
    nodes = sorted(dag, key=str)
    return set(nodes) - set(Random(seed).sample(nodes, max(1, round(len(nodes) * declined))))


def published() -> Iterator[tuple[str, nx.DiGraph]]:
    """The published operator graphs, with nanoseconds of transfer as bytes; none if absent."""
    for path in sorted(SHARED.glob("*.json")):
        data = json.loads(path.read_text())
        dag = nx.DiGraph()
        dag.add_nodes_from(node["id"] for node in data["nodes"])
        for edge in data["edges"]:
            tensors = {"output": round(edge["cost"] * 1e6)}
            dag.add_edge(edge["sourceId"], edge["destId"], tensors=tensors)
        yield path.stem, dag
