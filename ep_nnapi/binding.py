"""A graph with symbolic dimensions, bound to the sizes of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ep_nnapi.dag import inputs_of, outputs_of
from ep_nnapi.graph import Graph, GraphNode
from ep_nnapi.settling import is_sized, settle
from ep_nnapi.sizes import Shapes, fixed_symbols, settled, symbols
from ep_nnapi.value import Dim, Value

_SAMPLES = ((64, 32), (96, 64))
"""First size and step of the sizes tried for dimensions that nothing settles.

Multiples of 32, which survive the usual five halvings; two samples, so that nothing is taken that
holds for one size by chance.
"""


def is_dynamic(values: Iterable[Value]) -> bool:
    """Whether any value has a dimension that is not a number."""
    return not all(map(is_sized, values))


def entering(graph: Graph) -> tuple[Value, ...]:
    """What nodes read and no node computes, constants left out; each once."""
    written = {v.name for n in graph.nodes for v in outputs_of(n)}
    read = (v for n in graph.nodes for v in inputs_of(n))
    return tuple({v.name: v for v in (*graph.inputs, *read) if v.name not in written}.values())


def samples(graph: Graph, fixed: Shapes) -> tuple[Shapes, ...]:
    """Sizes of the inputs to judge the graph with: one set when `fixed` settles all, else two.

    Raises OptionError when `fixed` names no input or does not fit one.
    """
    free = entering(graph)
    known = fixed_symbols(free, fixed)
    unknown = sorted({d for v in free for d in _dims(v) if isinstance(d, str)} - known.keys())
    anonymous = any(d is None for v in free if v.name not in fixed for d in _dims(v))
    if not unknown and not anonymous:
        return (_sizes(free, fixed, known, 1),)
    found = []
    for first, step in _SAMPLES:
        tried = {name: first + step * i for i, name in enumerate(unknown)}
        found.append(_sizes(free, fixed, {**known, **tried}, first))
    return tuple(found)


def bound(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with all that follows from its inputs' `shapes`: sizes, and what is made of them.

    A graph input that is settled gives its numbers as well.
    """
    numbers = symbols(entering(graph), shapes)
    known = {v.name: _substituted(v, shapes, numbers) for v in _values(graph)}
    known.update((v.name, replace(v, dims=shapes[v.name])) for v in graph.inputs if v.settled)
    parts = [part for n in graph.nodes for part in n.originals]
    return _with(graph, settle(parts, known, {v.name for v in graph.outputs}))


def _dims(value: Value) -> tuple[Dim, ...]:
    return value.dims or ()


def _sizes(
    values: Iterable[Value], fixed: Shapes, known: Mapping[str, int], anonymous: int
) -> Shapes:
    def size(dim: Dim) -> int:
        if isinstance(dim, str):
            return known[dim]
        return anonymous if dim is None else dim

    return {
        v.name: fixed.get(v.name) or tuple(size(d) for d in v.dims)
        for v in values
        if v.dims is not None
    }


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


def _with(graph: Graph, known: Mapping[str, Value]) -> Graph:
    def settled(value: Value | None) -> Value | None:
        return value if value is None or value.constant is not None else known[value.name]

    def rebound(node: GraphNode) -> GraphNode:
        return replace(
            node,
            inputs=tuple(settled(v) for v in node.inputs),
            outputs=tuple(settled(v) for v in node.outputs),
            parts=tuple(rebound(p) for p in node.parts),
            activation=rebound(node.activation) if node.activation is not None else None,
        )

    return replace(
        graph,
        nodes=tuple(rebound(n) for n in graph.nodes),
        inputs=tuple(known.get(v.name, v) for v in graph.inputs),
        outputs=tuple(known.get(v.name, v) for v in graph.outputs),
    )
