"""Time and memory of partitioning, beside networkx's topological sort and the graph itself.

Graphs of ten families, up to 100,000 nodes: times the sort at most `TIMES`, and growing with an
exponent (fitted over `SIZES`) of at most `EXPONENT`, or the sort's where that is larger: the sort
takes a number of steps linear in the graph, so what it has beyond 1 is the processor's caches,
which the graph outgrows. Wide graphs of 500 nodes, three in ten of them declined: at most `QUICK`
seconds. All are CPU seconds of this process, the least of some tries, since other processes slow
them; the sort and `partition` run in turn. A figure beyond its limit is marked, and the run fails
in the end.

Then the partitions beside those of simpler ways (see `partitioner_peers`).
"""

from __future__ import annotations

import gc
import math
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from statistics import linear_regression
from time import process_time

import networkx as nx

from bench import partitioner_peers
from bench.partitioner_families import FAMILIES, drawn, refused
from partitioner import partition

SIZES = (10_000, 30_000, 100_000)
TIMES, MEMORY = 12.0, 2.0  # of the sort and of the graph, at most, at 100,000 nodes
EXPONENT = 1.1
FEW, DECLINED, QUICK = 500, 0.3, 0.05  # nodes, share of them, seconds
TRIES = 4


def least(run: Callable[[], object], tries: int = TRIES) -> float:
    """CPU seconds, the least of some tries."""
    found = []
    for _ in range(tries):
        gc.collect()
        start = process_time()
        run()
        found.append(process_time() - start)
    return min(found)


def seconds(family: str, nodes: int) -> tuple[float, float]:
    """CPU seconds of networkx's topological sort and of `partition`, each the least of its runs."""
    dag, capable = refused(family, nodes)
    runs = [
        (
            least(lambda: list(nx.topological_sort(dag)), 1),
            least(lambda: partition(dag, capable), 1),
        )
        for _ in range(TRIES)
    ]
    return min(sort for sort, _ in runs), min(own for _, own in runs)


def growth(times: Mapping[int, float]) -> float:
    """The exponent of times by nodes."""
    return linear_regression(*([math.log(x) for x in xs] for xs in (times, times.values()))).slope


def quick(family: str) -> float:
    """CPU seconds of `partition` for a small graph with many nodes declined."""
    dag, capable = drawn(family, FEW, DECLINED)
    return least(lambda: partition(dag, capable), 5)


def memory(family: str, nodes: int) -> float:
    """The most memory that `partition` takes, over what the graph does."""
    gc.collect()
    tracemalloc.start()
    dag, capable = refused(family, nodes)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    partition(dag, capable)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (peak - before) / before


def marked(text: str, value: float, limit: float) -> str:
    """A figure, marked if it is beyond its limit."""
    return f"{text} (beyond {limit:g})" if value > limit else text


def rows(family: str) -> Iterator[str]:
    """Lines of seconds and times the sort, the fitted exponent, memory, and the small graph."""
    sort, own = {}, {}
    for nodes in SIZES:
        sort[nodes], own[nodes] = seconds(family, nodes)
        times = own[nodes] / sort[nodes]
        limit = TIMES if nodes == SIZES[-1] else math.inf
        yield f"{nodes:9,} nodes {own[nodes]:8.2f} s {marked(f'{times:6.1f} x sort', times, limit)}"
    text = f"{growth(own):8.2f}, the sort's {growth(sort):.2f}"
    yield f"{'exponent':>15} {marked(text, growth(own), max(EXPONENT, growth(sort)))}"
    share = memory(family, SIZES[-1])
    yield f"{'memory':>15} {marked(f'{share:8.2f} x graph', share, MEMORY)}"
    small = quick(family)
    yield f"{FEW:9,} nodes {marked(f'{small * 1e3:8.0f} ms', small, QUICK)}"


def main() -> None:
    """Prints the figures, a row as soon as it is known; fails if one is beyond its limit."""
    beyond = 0
    for family in FAMILIES:
        for line in rows(family):
            print(f"{family:16} {line}", flush=True)
            beyond += "beyond" in line
    print()
    partitioner_peers.compare()
    if beyond:
        sys.exit(f"{beyond} figures are beyond their limits")


if __name__ == "__main__":
    main()
