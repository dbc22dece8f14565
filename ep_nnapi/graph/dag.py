"""Conversion of a graph to the partitioner's DAG: node ids, tensor names and tensor bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import networkx as nx

from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import ITEM_BYTES, Value
from ep_nnapi.nnapi.sizes import is_symbolic


def dag_of(graph: Graph) -> nx.DiGraph:
    """Returns the DAG of node ids, with each tensor's bytes on its edges.

    Tensors that enter or leave the graph are in the node data `inputs` and `outputs`, constants in
    `weights`.
    """
    dag = nx.DiGraph()
    producers: dict[str, int] = {}
    values: dict[str, Value] = {}
    for node in graph.nodes:
        dag.add_node(node.id)
        read = [v for part in node.originals for v in part.inputs if v is not None]
        constants = (v for v in read if v.constant is not None and not v.folded)
        if weights := {v.name: bytes_of(v) for v in constants}:
            dag.nodes[node.id]["weights"] = weights
        for value in outputs_of(node):
            producers[value.name] = node.id
            values[value.name] = value
    for node in graph.nodes:
        implicit = [values[name] for name in node.implicit if name in values]
        for value in (*inputs_of(node), *implicit):
            name = value.name
            source = producers.get(name)
            if source is None:
                dag.nodes[node.id].setdefault("inputs", {})[name] = bytes_of(value)
            elif dag.has_edge(source, node.id):
                dag.edges[source, node.id]["tensors"][name] = bytes_of(value)
            else:
                dag.add_edge(source, node.id, tensors={name: bytes_of(value)})
    for value in graph.outputs:
        if value.name in producers:
            node_data = dag.nodes[producers[value.name]]
            node_data.setdefault("outputs", {})[value.name] = bytes_of(value)
    return dag


def mean_of(dags: Sequence[nx.DiGraph]) -> nx.DiGraph:
    """Returns the first DAG with the mean bytes of each tensor in all of them: of several sizes."""
    first = dags[0]
    if len(dags) == 1:
        return first
    for node, data in first.nodes(data=True):
        for kind in data.keys() & {"inputs", "outputs"}:
            data[kind] = _mean([dag.nodes[node][kind] for dag in dags])
    for *ends, data in first.edges(data=True):
        data["tensors"] = _mean([dag.edges[ends]["tensors"] for dag in dags])
    return first


def _mean(of: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The mean bytes of each tensor."""
    return {name: sum(each[name] for each in of) // len(of) for name in of[0]}


def inputs_of(node: GraphNode) -> tuple[Value, ...]:
    """The values that a node reads, without constants."""
    return tuple([v for v in node.inputs if v is not None and (v.constant is None or v.folded)])


def outputs_of(node: GraphNode) -> tuple[Value, ...]:
    """The values that a node computes."""
    return tuple([v for v in node.outputs if v is not None])


def bytes_of(value: Value) -> int:
    """A tensor's bytes; an unknown dimension or item size counts as 1, an unknown rank gives 1."""
    if value.dims is None:
        return 1
    sizes = [dim for dim in value.dims if isinstance(dim, int)]
    below = any(n < 0 for n in sizes) if is_symbolic(sizes) else min(sizes, default=0) < 0
    if below:
        return 0  # a model may declare a negative size
    return prod(sizes, start=ITEM_BYTES[value.dtype])
