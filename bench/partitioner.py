"""What partitioning costs, and how good it is beside simpler ways (see `partitioner_peers`).

Seconds against nodes, beside networkx's topological sort, and memory.

Graphs of six kinds. Of the first four, one node in a hundred is not capable; of a ladder and of
diamonds, every other one. Both times are CPU seconds of this process, the sort's the faster of two.
"""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Callable, Iterator
from importlib import import_module
from random import Random
from time import process_time

import networkx as nx

from partitioner import partition

SIZES = (10_000, 30_000, 100_000)
TIMES, MEMORY = 20.0, 2.0  # of the sort and of the graph, at most, at 100,000 nodes
REFUSED = 100  # one node in so many is not capable


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


def most(dag: nx.DiGraph, random: Random) -> set[object]:
    """All but one node in a hundred."""
    return set(dag) - set(random.sample(list(dag), len(dag) // REFUSED))


def alternate(dag: nx.DiGraph, random: Random) -> set[object]:
    """Every other node along rails and arms."""
    return {v for v in dag if (v + v // 2) % 2}


Make = Callable[[int, Random], nx.DiGraph]
Choose = Callable[[nx.DiGraph, Random], set[object]]
KINDS: dict[str, tuple[Make, Choose]] = {
    "deep chain": (chain, most),
    "wide layers": (layers, most),
    "random": (scattered, most),
    "transformer": (transformer, most),
    "ladder": (ladder, alternate),
    "diamonds": (diamonds, alternate),
}


def seconds(kind: str, nodes: int) -> tuple[float, float]:
    """CPU seconds of networkx's topological sort and of `partition`."""
    make, choose = KINDS[kind]
    dag = make(nodes, Random(nodes))
    capable = choose(dag, Random(nodes))

    def timed(run: Callable[[], object]) -> float:
        gc.collect()
        start = process_time()
        run()
        return process_time() - start

    sort = min(timed(lambda: list(nx.topological_sort(dag))) for _ in range(2))
    return sort, timed(lambda: partition(dag, capable))


def memory(kind: str, nodes: int) -> float:
    """The most memory that `partition` takes, over what the graph does."""
    make, choose = KINDS[kind]
    gc.collect()
    tracemalloc.start()
    dag = make(nodes, Random(nodes))
    gc.collect()
    graph = tracemalloc.get_traced_memory()[0]
    capable = choose(dag, Random(nodes))
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    partition(dag, capable)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - before) / graph


def rows(kind: str) -> Iterator[str]:
    """A line for each size: nodes, seconds, times the sort, and the exponent between sizes."""
    before: tuple[int, float] | None = None
    for nodes in SIZES:
        sort, own = seconds(kind, nodes)
        line = f"{kind:12} {nodes:8,} {own:8.2f} s {own / sort:8.1f}x"
        if before:
            exponent = math.log(own / before[1]) / math.log(nodes / before[0])
            line += f" {exponent:9.2f}"
        before = nodes, own
        yield line
    yield f"{kind:12} {SIZES[-1]:8,} {'memory':>31} {memory(kind, SIZES[-1]):8.2f}x"


def main() -> None:
    """Prints the table, a row as soon as it is known."""
    print(
        f"{'graph':12} {'nodes':>8} {'seconds':>10} {'x sort':>9} {'exponent':>9} {'x memory':>9}"
    )
    for kind in KINDS:
        for line in rows(kind):
            print(line, flush=True)
    print(f"(with {SIZES[-1]:,} nodes at most {TIMES:g}x the sort and {MEMORY:g}x the graph)\n")
    import_module("bench.partitioner_peers").compare()  # which draws on the kinds of this module


if __name__ == "__main__":
    main()
