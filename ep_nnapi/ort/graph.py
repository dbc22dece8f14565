"""Adapter from an OrtGraph to `ep_nnapi.graph.graph.Graph`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import check, text
from ep_nnapi.ort.reader import Reader

if TYPE_CHECKING:
    from ep_nnapi.ort._native import GraphFacts


@frozen
class _Members:
    """Members of an OrtGraph, as handles; `parent` is the node whose subgraph it is, or 0."""

    name: str
    path: str
    parent: int
    inputs: list[int]
    outputs: list[int]
    nodes: list[int]
    opsets: Mapping[str, int]


def read_graph(handle: int, reader: Reader) -> Graph:
    """Returns the OrtGraph behind `handle`; nodes are in topological order.

    `reader` reads the values and, until it is closed, the constants. Graph inputs include
    overridable initializers. The key is "" for the model's main graph, else the parent node and its
    attribute: "If_3.then_branch". The graph of the parent node is not part of the key, as ONNX
    Runtime does not expose it.
    """
    members = _members(handle)
    return Graph(
        key=_key(members),
        nodes=tuple(map(reader.node, members.nodes)),
        inputs=reader.present_values(members.inputs),
        outputs=reader.present_values(members.outputs),
        opsets=members.opsets,
        path=members.path,
    )


def is_inlined_later(handle: int) -> bool:
    """Returns True if the graph is the body of a function that ONNX Runtime will inline later.

    GetCapability is called again after inlining, and clusters taken before would be lost. Among
    ONNX's operators with a body, only SequenceMap is a function; the others have kernels.
    """
    parent = _members(handle).parent
    if not parent:
        return False
    parent_node = Reader().node(parent)
    return (parent_node.domain, parent_node.op_type) == ("", "SequenceMap")


def first_unclaimed_node(handle: int) -> int:
    """Returns the first node that is not assigned to a provider; 0 if there is none."""
    for node in _members(handle).nodes:
        if not Reader().node(node).claimed_by:
            return node
    return 0


def count_nodes(handle: int) -> int:
    """Returns the number of nodes of a graph."""
    facts: GraphFacts = ffi.new("GraphFacts *")
    check(lib.read_graph(handle, facts))
    return facts.nodes


def _members(handle: int) -> _Members:
    facts: GraphFacts = ffi.new("GraphFacts *")
    check(lib.read_graph(handle, facts))
    total = facts.inputs + facts.outputs + facts.nodes
    handles = ffi.new("uintptr_t[]", total + 1)
    domains = ffi.new("const char *[]", facts.opsets + 1)
    versions = ffi.new("int64_t[]", facts.opsets + 1)
    check(lib.list_graph(handle, facts, handles, domains, versions))
    members = ffi.unpack(handles, total)
    return _Members(
        name=text(facts.name),
        path=text(facts.path),
        parent=facts.parent,
        inputs=members[: facts.inputs],
        outputs=members[facts.inputs : facts.inputs + facts.outputs],
        nodes=members[facts.inputs + facts.outputs :],
        opsets={text(domains[i]): versions[i] for i in range(facts.opsets)},
    )


def _key(members: _Members) -> str:
    if not members.parent:
        return ""
    parent_name = Reader().node(members.parent).name
    own = _signature(members)
    for inner, attribute in _inner_graphs(members.parent):
        if _signature(_members(inner)) == own:
            return f"{parent_name}.{attribute}"
    return parent_name


def _signature(members: _Members) -> tuple[str, int, tuple[str, ...]]:
    """Returns data to identify a subgraph among those of its node.

    Handles cannot identify it, as they differ from callback to callback.
    """
    outputs = Reader().present_values(members.outputs)
    return members.name, len(members.nodes), tuple(value.name for value in outputs)


def _inner_graphs(node: int) -> Iterator[tuple[int, str]]:
    count = ffi.new("size_t *")
    check(lib.count_inner(node, count))
    graphs = ffi.new("uintptr_t[]", count[0] + 1)
    attributes = ffi.new("const char *[]", count[0] + 1)
    check(lib.list_inner(node, graphs, attributes, count[0]))
    for i in range(count[0]):
        yield graphs[i], text(attributes[i])
