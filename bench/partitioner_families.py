"""Families of graphs that partitions are compared on, by size and seed, and published graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from random import Random

import networkx as nx

SHARED = Path(__file__).parents[2] / "shared" / "graphs"  # published graphs, if present
REFUSED = 100  # one node in so many is not capable, where nothing else is said
Drawn = tuple[nx.DiGraph, set[Hashable]]


def chain(nodes: int, random: Random) -> nx.DiGraph:
    """A deep chain; one step in ten goes round a branch of three nodes."""
    dag = nx.DiGraph([(0, 1)])
    while len(dag) < nodes:
        last = len(dag) - 1
        if random.random() < 1 / 10:
            nx.add_path(dag, [last, last + 1, last + 2, last + 3, last + 4])
            dag.add_edge(last, last + 4)
        else:
            dag.add_edge(last, last + 1)
    return dag


def layers(nodes: int, random: Random) -> nx.DiGraph:
    """Layers of a thousand nodes, each of which reads two of the layer before."""
    width = 1000
    dag = nx.empty_graph(nodes, nx.DiGraph)
    for v in range(width, nodes):
        above = v // width * width - width
        dag.add_edges_from((u, v) for u in random.sample(range(above, above + width), 2))
    return dag


def scattered(nodes: int, random: Random) -> nx.DiGraph:
    """Each node reads one to three of all earlier ones."""
    dag = nx.empty_graph(nodes, nx.DiGraph)
    for v in range(1, nodes):
        dag.add_edges_from((random.randrange(v), v) for _ in range(random.randint(1, 3)))
    return dag


def transformer(nodes: int, random: Random) -> nx.DiGraph:
    """The layers of an encoder, one after the other; all of them read one mask."""
    dag = nx.DiGraph()
    paths = (
        "in mean sub square var root norm query queryheads scores scaled masked soft mixed merged"
        " out add",
        "in sub",
        "sub norm",
        "norm key keyheads keyturned scores",
        "norm value valueheads mixed",
        "in add add.mean add.sub add.norm up half erf one gelu down next",
        "add add.sub",
        "up gelu",
        "add next",
    )
    layer = 0
    while len(dag) < nodes:
        for path in paths:
            nx.add_path(dag, [(name, layer) for name in path.split()])
        dag.add_edge("mask", ("masked", layer))
        dag.add_edge(("next", layer - 1) if layer else "embedded", ("in", layer))
        layer += 1
    return dag


def ladder(nodes: int, random: Random) -> nx.DiGraph:
    """Two rails, and rungs from one to the other in turn."""
    dag = nx.DiGraph()
    for v in range(0, nodes - 2, 2):
        dag.add_edges_from([(v, v + 2), (v + 1, v + 3)])
        dag.add_edge(*((v, v + 1) if v % 4 else (v + 1, v)))
    return dag


def diamonds(nodes: int, random: Random) -> nx.DiGraph:
    """Diamonds in a row, the end of each the start of the next."""
    dag = nx.DiGraph()
    for v in range(0, nodes - 3, 3):
        dag.add_edges_from([(v, v + 1), (v, v + 2), (v + 1, v + 3), (v + 2, v + 3)])
    return dag


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


def most(dag: nx.DiGraph, random: Random) -> set[Hashable]:
    """All but one node in a hundred."""
    return set(dag) - set(random.sample(list(dag), len(dag) // REFUSED))


def alternate(dag: nx.DiGraph, random: Random) -> set[Hashable]:
    """Every other node along rails and arms."""
    return {v for v in dag if (v + v // 2) % 2}


FAMILIES: dict[str, Callable[[int, Random], nx.DiGraph]] = {
    "deep chain": chain,
    "wide layers": layers,
    "random": scattered,
    "transformer": transformer,
    "ladder": ladder,
    "diamonds": diamonds,
    "fans": fans,
    "series-parallel": series_parallel,
    "near": near,
    "square layers": square,
}


def refused(family: str, nodes: int) -> Drawn:
    """A graph of a family, and its nodes but for one in a hundred; of ladders and diamonds half."""
    dag = FAMILIES[family](nodes, Random(nodes))
    choose = alternate if family in ("ladder", "diamonds") else most
    return dag, choose(dag, Random(nodes))


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
