"""Removal of declared or inferred shapes that may differ from the computed ones."""

from __future__ import annotations

from collections.abc import Collection, Set

from ep_nnapi.graph.dag import inputs_of, outputs_of
from ep_nnapi.graph.graph import Graph, GraphNode, with_values
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.sizes.ceil_mode import declares_extra_window
from ep_nnapi.sizes.enumerated import undefined_value
from ep_nnapi.sizes.inference import (
    declares_wrong_shape,
    is_only_declared,
    is_unverifiable,
)
from ep_nnapi.sizes.scaled import declares_other_scaled_size


def drop_untrusted_shapes(graph: Graph) -> Graph:
    """Sets sizes to unknown where the computed shapes may differ from the declared ones.

    ONNX Runtime's shape inference counts pool windows that its kernels drop, and rounds sizes by
    scales otherwise. Where it infers nothing, as for data-dependent shapes, it trusts the shapes
    declared in the model. The sizes of all values that depend on such a node become unknown as
    well. Ranks are unchanged.
    """
    untrusted: set[str] = set()
    for node in graph.nodes:
        if (untrusted and _reads(node, untrusted)) or _is_untrusted(node):
            untrusted |= {v.name for v in outputs_of(node)}
    if not untrusted:
        return graph

    def dropped(value: Value | None) -> Value | None:
        return value and _drop_shape(value, untrusted)

    return replace(
        graph,
        nodes=tuple(with_values(n, dropped, dropped) for n in graph.nodes),
        outputs=tuple(_drop_shape(v, untrusted) for v in graph.outputs),
    )


def _reads(node: GraphNode, names: Set[str]) -> bool:
    """True if the node reads one of the tensors of these names."""
    return not names.isdisjoint([v.name for v in inputs_of(node)] + list(node.implicit))


def _is_untrusted(node: GraphNode) -> bool:
    return (
        undefined_value(node) is not None
        or declares_extra_window(node)
        or declares_other_scaled_size(node)
        or declares_wrong_shape(node)
        or is_only_declared(node)
    )


def unverified_tensors(graph: Graph) -> frozenset[str]:
    """Names of the tensors whose shapes depend on declarations that cannot be verified.

    These are outputs of nodes with subgraphs, with inputs that are not tensors, or of unknown
    domains, what enters a subgraph as input or from outside, inputs declared as scalars, whose rank
    ONNX Runtime does not check, and all values that depend on these.
    """
    names = {v.name for v in graph.inputs if graph.key or v.dims == ()}
    if graph.key:
        made = {v.name for node in graph.nodes for v in outputs_of(node)}
        names |= {v.name for node in graph.nodes for v in inputs_of(node)} - made
    for node in graph.nodes:
        if _reads(node, names) or any(is_unverifiable(part) for part in node.originals):
            names |= {v.name for v in outputs_of(node)}
    return frozenset(names)


def _drop_shape(value: Value, untrusted: Collection[str]) -> Value:
    if value.name not in untrusted or value.dims is None:
        return value
    return replace(value, dims=(None,) * len(value.dims))
