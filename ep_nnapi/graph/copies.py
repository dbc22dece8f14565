"""Copies of nodes that outlive the graph, whose constants are views of ONNX Runtime's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ep_nnapi.graph.graph import Attribute, GraphNode
from ep_nnapi.graph.value import Constant, Value


def copy_constants(nodes: Sequence[GraphNode]) -> tuple[GraphNode, ...]:
    """Returns the nodes with copies of their constants, each copied once, to outlive the graph.

    Those whose memory lives as long as they do stay as they are.
    """
    copies: dict[str, Constant] = {}

    def copied_value(value: Value | None) -> Value | None:
        if value is None or value.constant is None or value.constant.owned:
            return value
        if value.name not in copies:
            array = np.array(value.constant.array, order="C")
            copies[value.name] = replace(Constant.of(array), owned=True)
        return replace(value, constant=copies[value.name])

    def copied_node(node: GraphNode) -> GraphNode:
        return replace(
            node,
            inputs=tuple(copied_value(v) for v in node.inputs),
            attributes={k: _copied_attribute(a) for k, a in node.attributes.items()},
            parts=tuple(copied_node(p) for p in node.parts),
            activation=copied_node(node.activation) if node.activation is not None else None,
        )

    return tuple(copied_node(n) for n in nodes)


def _copied_attribute(attribute: Attribute) -> Attribute:
    if not isinstance(attribute, Constant):
        return attribute
    return Constant.of(np.array(attribute.array, order="C"))
