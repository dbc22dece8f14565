"""A graph as the partitioner sees it: nodes by id, tensors by name and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import networkx as nx

from ep_nnapi.errors import Reject
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Value


def dag_of(graph: Graph) -> nx.DiGraph:
    """The graph with the bytes of each tensor on its edges; constants are no tensors."""
    dag = nx.DiGraph()
    producers: dict[str, int] = {}
    values: dict[str, Value] = {}
    for node in graph.nodes:
        dag.add_node(node.id)
        for value in outputs_of(node):
            producers[value.name] = node.id
            values[value.name] = value
    for node in graph.nodes:
        for name, value in _read_by(node, values):
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


def inputs_of(node: GraphNode) -> tuple[Value, ...]:
    """The values that a node reads, constants left out."""
    return tuple(v for v in node.inputs if v is not None and (v.constant is None or v.settled))


def outputs_of(node: GraphNode) -> tuple[Value, ...]:
    """The values that a node computes."""
    return tuple(v for v in node.outputs if v is not None)


def _read_by(node: GraphNode, values: dict[str, Value]) -> Iterator[tuple[str, Value]]:
    for value in inputs_of(node):
        yield value.name, value
    for name in node.implicit:
        if name in values:
            yield name, values[name]


def bytes_of(value: Value) -> int:
    """A tensor's bytes, a dimension that is not known counted as 1."""
    if value.dims is None:
        return 1
    try:
        item = value.dtype.numpy.itemsize
    except Reject:
        item = 1
    return prod(d for d in value.dims if isinstance(d, int)) * item
