"""Binding of a graph with symbolic dimensions to concrete input shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode, with_values
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.sizes.inference import Assume, Conflict, infer_shapes, is_sized
from ep_nnapi.sizes.symbols import Shapes, substitute_symbols, symbol_values


def is_dynamic(values: Iterable[Value]) -> bool:
    """True if any value has a symbolic or unknown dimension, or unknown rank."""
    return not all(map(is_sized, values))


def graph_inputs(graph: Graph) -> tuple[Value, ...]:
    """Values that the graph reads and no node computes, without constants and duplicates."""
    written = {v.name for n in graph.nodes for v in n.outputs if v is not None}
    read = (v for n in graph.nodes for v in inputs_of(n))
    return tuple({v.name: v for v in (*graph.inputs, *read) if v.name not in written}.values())


def bind_shapes(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with shapes inferred, and shape arithmetic folded, from its inputs' `shapes`.

    The elements of a folded graph input are used for folding as well.
    """
    return bind_and_check(graph, shapes).graph


@frozen
class BoundGraph:
    """A graph bound to input shapes.

    conflict  as of `Inference`: None if shape inference found no node with inconsistent inputs
    assumed  True if some nodes read tensors with assumed shapes; these tensors have no known shape
             as outputs of the nodes that compute them
    """

    graph: Graph
    conflict: Conflict | None
    assumed: bool


def bind_and_check(
    graph: Graph, shapes: Shapes, assume: Assume | None = None, *, until: int | None = None
) -> BoundGraph:
    """Binds like `bind_shapes`; tensors with data-dependent shapes get the shapes from `assume`.

    until   as of `infer_shapes`; a graph with a conflict is not bound then
    Raises OptionError if `shapes` does not fit the graph's inputs.
    """
    sizes = symbol_values(graph_inputs(graph), shapes)
    known = {v.name: _substitute(v, shapes, sizes) for v in _values(graph)}
    known.update((v.name, replace(v, dims=shapes[v.name])) for v in graph.inputs if v.folded)
    parts = [part for n in graph.nodes for part in n.originals]
    found = infer_shapes(parts, known, {v.name for v in graph.outputs}, assume, until=until)
    if until is not None and found.conflict is not None:
        return BoundGraph(graph, found.conflict, bool(found.assumed))
    bound = _replace_values(graph, found.values, found.assumed)
    return BoundGraph(bound, found.conflict, bool(found.assumed))


def infer_missing_shapes(graph: Graph) -> Graph:
    """Infers the remaining shapes of a graph whose inputs all have static shapes.

    ONNX Runtime infers none downstream of an operator without shape inference.
    """
    found = {v.name: v.dims for v in _values(bind_shapes(graph, {}))}
    return _replace_values(graph, {v.name: replace(v, dims=found[v.name]) for v in _values(graph)})


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph_inputs(graph)
    for node in graph.nodes:
        for part in node.originals:
            yield from outputs_of(part)


def _substitute(value: Value, shapes: Shapes, known: Mapping[str, int]) -> Value:
    if value.name in shapes:
        return replace(value, dims=shapes[value.name])
    if value.dims is None or is_sized(value):
        return value
    return replace(value, dims=substitute_symbols(value.dims, known))


def _replace_values(
    graph: Graph, known: Mapping[str, Value], assumed: Mapping[str, Value] = MappingProxyType({})
) -> Graph:
    """The graph with values replaced from `known`, or `assumed` for the outputs of nodes."""
    computed = {**known, **assumed}

    def replaced(value: Value | None, known: Mapping[str, Value] = known) -> Value | None:
        return value if value is None or value.constant is not None else known[value.name]

    def with_values(node: GraphNode) -> GraphNode:
        return replace(
            node,
            inputs=tuple(replaced(v) for v in node.inputs),
            outputs=tuple(replaced(v, computed) for v in node.outputs),
            parts=tuple(with_values(p) for p in node.parts),
            activation=with_values(node.activation) if node.activation is not None else None,
        )

    return replace(
        graph,
        nodes=tuple(with_values(n) for n in graph.nodes),
        inputs=tuple(known.get(v.name, v) for v in graph.inputs),
        outputs=tuple(computed.get(v.name, v) for v in graph.outputs),
    )


def mark_data_dependent(graph: Graph) -> Graph:
    """Sets `shape_producer` on values without static shapes, in a graph with static input shapes.

    It is the name of the first node that must run before the shape is known. A node that reads a
    tensor with an assumed shape does not depend on the node that computes it.
    """
    found: dict[str, str] = {}
    for node in graph.nodes:
        for part in node.originals:
            unknown = [v.name for v in outputs_of(part) if not is_sized(v)]
            if unknown:
                read = (v for v in inputs_of(part) if v.name in found and not is_sized(v))
                source = next((found[v.name] for v in read), part.name)
                found.update(dict.fromkeys(unknown, source))
    if not found:
        return graph

    def marked(value: Value | None) -> Value | None:
        return value and replace(value, shape_producer=found.get(value.name, ""))

    return replace(graph, nodes=tuple(with_values(n, marked, marked) for n in graph.nodes))
