"""The read-only view of an ONNX graph that everything else judges: nodes, values, constants.

One adapter fills it from ONNX Runtime's own graph (`ep_nnapi.ort.graph`); tests may build one by
hand. A QDQ group is one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from ep_nnapi.graph.value import Constant, Value

Attribute: TypeAlias = (
    int | float | str | Constant | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
)
NO_ATTRIBUTES: Mapping[str, Attribute] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One ONNX node, or one QDQ group.

    id           unique in its graph, stable while the graph lives
    name         the node's name; an unnamed node goes by its first output
    domain       "" is ai.onnx
    since        the operator schema's since_version in force
    inputs       None for an omitted optional input
    implicit     names that inner graphs (If, Loop, Scan) read from this graph
    claimed_by   the execution provider that has the node already, "" for none
    members      ids of the ONNX nodes that it stands for (itself, or a whole QDQ group)
    parts        a QDQ group's nodes as they were, in topological order; () for a single node
    activation   a QDQ group's Relu or Clip between its operator and the quantization
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
        """Whether it is a group that stands for a computation on quantized tensors."""
        values = (*self.inputs, *self.outputs)
        return bool(self.parts) and any(v is not None and v.quantization for v in values)

    @property
    def originals(self) -> tuple[GraphNode, ...]:
        """The single nodes that it stands for."""
        return self.parts or (self,)


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in topological order.

    key    the same for every view of the same graph
    path   the model's file; "" when it was loaded from memory
    """

    key: str
    nodes: tuple[GraphNode, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    opsets: Mapping[str, int] = field(default_factory=dict)
    path: str = ""
