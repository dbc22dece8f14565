"""Read-only view of an ONNX graph: nodes and attributes. The rest of the package works on it.

`ep_nnapi.ort.reader` builds it from ONNX Runtime's graph; tests may build one by hand. A QDQ group
is one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from operator import is_
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import frozen, immutable, replace

MICROSOFT_DOMAIN = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

Attribute: TypeAlias = (
    int | float | str | Constant | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
)
NO_ATTRIBUTES: Mapping[str, Attribute] = MappingProxyType({})


@immutable
class GraphNode:
    """One ONNX node, or one QDQ group.

    id           unique in its graph, stable while the graph lives
    name         the node's name, or that of its first output if unnamed
    domain       "" for ai.onnx
    since        since_version of the operator schema that applies
    inputs       None for an omitted optional input
    implicit     outer-scope names that the node's subgraphs (If, Loop, Scan) read
    claimed_by   the execution provider already assigned to the node, "" for none
    members      ids of the ONNX nodes that it represents (itself, or all of a QDQ group)
    parts        a QDQ group's original nodes in topological order; () for a single node
    activation   a QDQ group's Relu or Clip between its operator and QuantizeLinear, or None
    """

    id: int
    name: str
    op_type: str
    domain: str
    since: int
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=lambda: NO_ATTRIBUTES)
    implicit: tuple[str, ...] = ()
    claimed_by: str = ""
    members: tuple[int, ...] = ()
    parts: tuple[GraphNode, ...] = ()
    activation: GraphNode | None = None

    @property
    def quantized(self) -> bool:
        """True for a group with quantized inputs or outputs."""
        values = (*self.inputs, *self.outputs)
        return bool(self.parts) and any(v is not None and v.quantization for v in values)

    @property
    def originals(self) -> tuple[GraphNode, ...]:
        """The original ONNX nodes that it represents."""
        return self.parts or (self,)


@immutable
class NodeInputs:
    """A node whose inputs are read by their place."""

    node: GraphNode

    def has(self, index: int) -> bool:
        """True if input `index` is given."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def input(self, index: int) -> Value:
        """Input `index`; raises Reject(ATTRIBUTE) when it is omitted."""
        return present(self.node.inputs, index, "input")

    def require(self, holds: object, reason: Reason, detail: str) -> None:
        """Raises Reject(reason, detail) unless `holds`."""
        if not holds:
            raise Reject(reason, detail)


def present(values: Sequence[Value | None], index: int, side: str) -> Value:
    """The value at a place on one side of a node; raises Reject(ATTRIBUTE) when it is omitted."""
    value = values[index] if index < len(values) else None
    if value is None:
        raise Reject(Reason.ATTRIBUTE, f"{side} {index} is missing")
    return value


Change: TypeAlias = Callable[[Value | None], Value | None]
"""Returns the value that takes the place of another."""


def with_values(node: GraphNode, inputs: Change, outputs: Change) -> GraphNode:
    """The node with other values of its own; itself if each stays the same object."""
    read, written = tuple(map(inputs, node.inputs)), tuple(map(outputs, node.outputs))
    if all(map(is_, read, node.inputs)) and all(map(is_, written, node.outputs)):
        return node
    return replace(node, inputs=read, outputs=written)


def numbered(key: str, times: int) -> str:
    """The key of the graph that is so many times one of that key."""
    return key if times == 1 else f"{key}#{times}"


@frozen
class Graph:
    """A graph with its nodes in topological order.

    key    identifies the graph: the same in every view of it; "" for a model's main graph
    path   the model file; "" for a model loaded from memory
    """

    key: str
    nodes: tuple[GraphNode, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    opsets: Mapping[str, int] = field(default_factory=dict)
    path: str = ""


def copy_constants(nodes: Sequence[GraphNode]) -> tuple[GraphNode, ...]:
    """Returns the nodes with copies of their constants, each copied once, to outlive the graph.

    Those whose memory lives as long as they do are loaded, not copied.
    """
    copies: dict[str, Constant] = {}

    def copied_value(value: Value | None) -> Value | None:
        if value is None or value.constant is None:
            return value
        if value.constant.owned:
            value.constant.load()  # while it can be
            return value
        if value.name not in copies:
            array = np.array(value.constant.array, order="C")
            copies[value.name] = replace(Constant.of(array), owned=True)
        return replace(value, constant=copies[value.name])

    def copied_node(given: GraphNode) -> GraphNode:
        node = with_values(given, copied_value, lambda output: output)
        if any(isinstance(a, Constant) for a in node.attributes.values()):
            attributes = {
                k: Constant.of(np.array(a.array, order="C")) if isinstance(a, Constant) else a
                for k, a in node.attributes.items()
            }
            node = replace(node, attributes=attributes)
        if not node.parts:
            return node
        activation = node.activation and copied_node(node.activation)
        return replace(node, parts=tuple(map(copied_node, node.parts)), activation=activation)

    return tuple(copied_node(n) for n in nodes)
