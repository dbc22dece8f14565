"""Read-only view of an ONNX graph: nodes and attributes. The rest of the package works on it.

`ep_nnapi.ort.reader` builds it from ONNX Runtime's graph; tests may build one by hand. A QDQ group
is one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TypeAlias

from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.nnapi.immutable import frozen, immutable

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
