"""Binding of a graph with symbolic dimensions to concrete input shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.sizes.inference import Assume, is_sized, settle
from ep_nnapi.sizes.symbols import Shapes, settled, symbols


def is_dynamic(values: Iterable[Value]) -> bool:
    """True if any value has a symbolic or unknown dimension, or unknown rank."""
    return not all(map(is_sized, values))


def entering(graph: Graph) -> tuple[Value, ...]:
    """Values that the graph reads and no node computes, without constants and duplicates."""
    written = {v.name for n in graph.nodes for v in outputs_of(n)}
    read = (v for n in graph.nodes for v in inputs_of(n))
    return tuple({v.name: v for v in (*graph.inputs, *read) if v.name not in written}.values())


def bound(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with shapes inferred, and shape arithmetic folded, from its inputs' `shapes`.

    The elements of a `settled` graph input are used for folding as well.
    """
    return followed(graph, shapes).graph


@dataclass(frozen=True, slots=True)
class Followed:
    """A graph bound to input shapes.

    agree    True if shape inference found no node with inconsistent inputs
    assumed  True if some nodes read tensors with assumed shapes; these tensors have no known shape
             as outputs of the nodes that compute them
    """

    graph: Graph
    agree: bool
    assumed: bool


def followed(graph: Graph, shapes: Shapes, assume: Assume | None = None) -> Followed:
    """Binds like `bound`; tensors with data-dependent shapes get the shapes from `assume`.

    Raises OptionError if `shapes` does not fit the graph's inputs.
    """
    numbers = symbols(entering(graph), shapes)
    known = {v.name: _substituted(v, shapes, numbers) for v in _values(graph)}
    known.update((v.name, replace(v, dims=shapes[v.name])) for v in graph.inputs if v.settled)
    parts = [part for n in graph.nodes for part in n.originals]
    found = settle(parts, known, {v.name for v in graph.outputs}, assume)
    seen = _with(graph, found.values, found.assumed)
    return Followed(seen, found.agree, bool(found.assumed))


def completed(graph: Graph) -> Graph:
    """Infers the remaining shapes of a graph whose inputs all have static shapes.

    ONNX Runtime infers none downstream of an operator without shape inference.
    """
    found = {v.name: v.dims for v in _values(bound(graph, {}))}
    return _with(graph, {v.name: replace(v, dims=found[v.name]) for v in _values(graph)})


def _values(graph: Graph) -> Iterator[Value]:
    yield from entering(graph)
    for node in graph.nodes:
        for part in node.originals:
            yield from outputs_of(part)


def _substituted(value: Value, shapes: Shapes, known: Mapping[str, int]) -> Value:
    if value.name in shapes:
        return replace(value, dims=shapes[value.name])
    if value.dims is None:
        return value
    return replace(value, dims=settled(value.dims, known))


def _with(
    graph: Graph, known: Mapping[str, Value], assumed: Mapping[str, Value] = MappingProxyType({})
) -> Graph:
    """The graph with values replaced from `known`, or `assumed` for the outputs of nodes."""
    computed = {**known, **assumed}

    def settled(value: Value | None, known: Mapping[str, Value] = known) -> Value | None:
        return value if value is None or value.constant is not None else known[value.name]

    def rebound(node: GraphNode) -> GraphNode:
        return replace(
            node,
            inputs=tuple(settled(v) for v in node.inputs),
            outputs=tuple(settled(v, computed) for v in node.outputs),
            parts=tuple(rebound(p) for p in node.parts),
            activation=rebound(node.activation) if node.activation is not None else None,
        )

    return replace(
        graph,
        nodes=tuple(rebound(n) for n in graph.nodes),
        inputs=tuple(known.get(v.name, v) for v in graph.inputs),
        outputs=tuple(computed.get(v.name, v) for v in graph.outputs),
    )
