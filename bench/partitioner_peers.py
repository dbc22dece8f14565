"""Partitions beside those of simpler ways and of an integer program: clusters, bytes, seconds.

On published operator graphs (where they are present) with shares of their nodes declined, sums over
seeds, and on every family at a few sizes (of the zoo's networks: `python -m bench partitioning`):

    partition   this package; `least` is its lower bound, `proven` how many reach it
    forward     nodes join what they read from, one after the other
    backward    the same with every edge turned round
    waves       the connected parts of groups as ONNX Runtime's providers form them
    torch       the connected parts of what PyTorch's CapabilityBasedPartitioner makes; up to
                1,000 nodes, and only where torch is installed
    program     an exact integer program; of small graphs only

Prints a table and writes build/partitioner_peers.json; the table of docs/partitioner.md and the
plot beside it are made from that by `python -m bench partitioner_figures`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from time import process_time

import networkx as nx

from bench.partitioner_families import FAMILIES, Drawn, drawn, published, without
from bench.partitioner_torch import INSTALLED, by_torch
from partitioner import border_bytes, partition
from tests.partitioner import graphs as ways
from tests.partitioner.program import better_than

Clusters = Sequence[Sequence[Hashable]]
WAYS: dict[str, tuple[int, Callable[[nx.DiGraph, set[Hashable]], Clusters]]] = {
    "partition": (10**6, partition),  # and the most nodes that each is asked for
    "forward": (10**6, ways.by_single_nodes),
    "backward": (10**6, ways.by_single_nodes_backwards),
    "waves": (10**6, ways.by_connected_waves),
    **({"torch": (1_000, by_torch)} if INSTALLED else {}),
}
SIZES, PROGRAM = (30, 100, 500, 10_000), 30
DECLINED, SEEDS = (0.05, 0.1, 0.25), 10
OUTPUT = Path("build/partitioner_peers.json")


def compared(graphs: Sequence[Drawn]) -> dict[str, dict[str, float]]:
    """Clusters, bytes and seconds of each way, summed over graphs; and the lower bound."""
    found: dict[str, dict[str, float]] = {}
    for dag, capable in graphs:
        for name, (most, way) in WAYS.items():
            if len(dag) > most:
                continue
            start = process_time()
            clusters = way(dag, capable)
            row = found.setdefault(name, {"clusters": 0, "bytes": 0, "seconds": 0})
            row["seconds"] += process_time() - start
            row["clusters"] += len(clusters)
            row["bytes"] += border_bytes(dag, clusters)
            if isinstance(bound := getattr(clusters, "lower_bound", None), int):
                row["least"] = row.get("least", 0) + bound
                row["proven"] = row.get("proven", 0) + (bound == len(clusters))
    if len(graphs[0][0]) <= PROGRAM:
        found["program"] = _exact(graphs)
    return found


def _exact(graphs: Sequence[Drawn]) -> dict[str, float]:
    """Returns the figures of the integer program, asked for anything better than `partition`."""
    row = {"clusters": 0.0, "bytes": 0.0, "seconds": 0.0}
    for dag, capable in graphs:
        clusters = partition(dag, capable)
        found = len(clusters), border_bytes(dag, clusters)
        start = process_time()
        count, size = better_than(dag, capable, found) or found
        row["seconds"] += process_time() - start
        row["clusters"] += count
        row["bytes"] += size
    return row


def cases() -> Iterator[tuple[str, list[Drawn]]]:
    """Yields the name and the graphs of each case."""
    for name, dag in published():
        for share in DECLINED:
            graphs = [(dag, without(dag, share, seed)) for seed in range(SEEDS)]
            yield f"{name.removesuffix('_inference')} ({len(dag)}) {share:.0%}", graphs
    for nodes in SIZES:
        for family in FAMILIES:
            yield f"{family} {nodes:,} 10%", [drawn(family, nodes, 0.1)]


def compare() -> None:
    """Prints a line for each case as soon as it is known."""
    print(f"{'graphs':30} {'least':>7}  clusters / bytes / seconds of each way")
    results = {}
    for name, graphs in cases():
        results[name] = found = compared(graphs)
        columns = [
            f"{way} {row['clusters']:.0f} / {row['bytes']:.4g} / {row['seconds']:.2g}"
            for way, row in found.items()
        ]
        print(f"{name:30} {found['partition']['least']:7.0f}  " + "   ".join(columns), flush=True)
        OUTPUT.parent.mkdir(exist_ok=True)
        OUTPUT.write_text(json.dumps(results, indent=1))
