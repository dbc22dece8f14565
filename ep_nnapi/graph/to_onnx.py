"""Nodes of a graph as an ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import onnx
from onnx import helper, numpy_helper

from ep_nnapi.graph.graph import Attribute, GraphNode
from ep_nnapi.graph.value import Constant, Value


def model_of(
    nodes: Sequence[GraphNode],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    opsets: Mapping[str, int],
) -> onnx.ModelProto:
    """The nodes as an ONNX model; constants are read now and become initializers."""
    tensors = [numpy_helper.from_array(c.array, name) for name, c in _constants(nodes).items()]
    return _model(nodes, inputs, outputs, tensors, opsets)


def _constants(nodes: Iterable[GraphNode]) -> dict[str, Constant]:
    return {
        v.name: v.constant
        for n in nodes
        for v in n.inputs
        if v is not None and v.constant is not None
    }


def _model(
    nodes: Sequence[GraphNode],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    tensors: Sequence[onnx.TensorProto],
    opsets: Mapping[str, int],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node_of(n) for n in nodes],
        "cluster",
        [_info(v) for v in inputs],
        [_info(v) for v in outputs],
        list(tensors),
    )
    domains = {n.domain for n in nodes} | {""}
    imports = [helper.make_opsetid(d, opsets.get(d, 1)) for d in sorted(domains)]
    # the lowest IR version that has what the opsets need, so that old runtimes load it too
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def node_of(node: GraphNode) -> onnx.NodeProto:
    """The node as ONNX writes it."""
    made = helper.make_node(
        node.op_type,
        [v.name if v is not None else "" for v in node.inputs],
        [v.name if v is not None else "" for v in node.outputs],
        node.name,
        domain=node.domain,
    )
    made.attribute.extend(
        helper.make_attribute(name, _attribute(value))
        for name, value in node.attributes.items()
        if value != ()  # an empty list has no type to write; absent, it is empty all the same
    )
    return made


def _attribute(value: Attribute) -> object:
    return numpy_helper.from_array(value.array) if isinstance(value, Constant) else value


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, int(value.dtype), value.dims)


def unsized(values: Iterable[Value]) -> list[Value]:
    """The values without sizes: a model whose ends are such takes and gives tensors of any."""
    return [replace(v, dims=None) for v in values]
