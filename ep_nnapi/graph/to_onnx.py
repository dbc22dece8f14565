"""Conversion of nodes of a graph to an ONNX model."""

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
    """Returns the nodes as an ONNX model; constants are loaded and become initializers."""
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
        _named_once(nodes),
        "cluster",
        [_value_info(v) for v in inputs],
        [_value_info(v) for v in outputs],
        list(tensors),
    )
    domains = {n.domain for n in nodes} | {""}
    imports = [helper.make_opsetid(d, opsets.get(d, 1)) for d in sorted(domains)]
    # the lowest IR version that the opsets allow, so that older runtimes can load the model
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _named_once(nodes: Iterable[GraphNode]) -> list[onnx.NodeProto]:
    """The nodes; of several with one name all but the first are unnamed, as ONNX Runtime asks.

    A node that has no name goes by its output, which another node may be named after.
    """
    found: dict[str, onnx.NodeProto] = {}
    protos = [node_of(node) for node in nodes]
    for proto in protos:
        if found.setdefault(proto.name, proto) is not proto:
            proto.name = ""
    return protos


def node_of(node: GraphNode) -> onnx.NodeProto:
    """Returns the node as a NodeProto."""
    proto = helper.make_node(
        node.op_type,
        [v.name if v is not None else "" for v in node.inputs],
        [v.name if v is not None else "" for v in node.outputs],
        node.name,
        domain=node.domain,
    )
    proto.attribute.extend(
        helper.make_attribute(name, _attribute(value))
        for name, value in node.attributes.items()
        if value != ()  # the type of an empty list is unknown; omitting it has the same effect
    )
    return proto


def _attribute(value: Attribute) -> object:
    return numpy_helper.from_array(value.array) if isinstance(value, Constant) else value


def _value_info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, int(value.dtype), value.dims)


def without_shapes(values: Iterable[Value]) -> list[Value]:
    """The values without shapes, for a model whose inputs and outputs may have any shape."""
    return [replace(v, dims=None) for v in values]
