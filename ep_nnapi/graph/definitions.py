"""Operators that ONNX defines as functions of others, and the nodes that such a function has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    defs,
    helper,
    inliner,
    numpy_helper,
    shape_inference,
)

from ep_nnapi.graph.contributed import contributed
from ep_nnapi.graph.graph import MICROSOFT_DOMAIN, Attribute, Graph, GraphNode
from ep_nnapi.graph.onnx_io import drop_constant_inputs, node_of, type_proto
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.immutable import replace

DOMAIN = "ep_nnapi.definitions"
"""The domain of functions that are inlined."""


def definition_of(
    node: NodeProto, opset: int, types: Mapping[str, TypeProto]
) -> FunctionProto | None:
    """Returns the newest definition of the node's operator up to its opset, else the oldest one.

    None if ONNX has none for these types. The node gets the attributes that it leaves to their
    defaults: definitions refer to them.
    """
    schema: Any = defs.get_schema(node.op_type, opset, "")  # its stubs lack these members
    dependent = list(schema.context_dependent_function_opset_versions)
    versions = dependent or list(schema.function_opset_versions)
    if not versions:
        return None
    version = max((v for v in versions if v <= opset), default=min(versions))
    if dependent:
        inputs = [types[n].SerializeToString() if n in types else b"" for n in node.input]
        data = schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), inputs
        )
    else:
        data = schema.get_function_with_opset_version(version)
    given = {a.name for a in node.attribute}
    for name, attribute in schema.attributes.items():
        if data and name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)
    function = FunctionProto.FromString(data) if data else None
    if function is not None and node.op_type == "AffineGrid":
        _keep_batch_axis(function)
    return function


def _keep_batch_axis(function: FunctionProto) -> None:
    """Has the definition of AffineGrid keep a batch of one, which its Squeeze removes too."""
    branches = (a.g for n in function.node for a in n.attribute if n.op_type == "If")
    for squeeze in (n for g in branches for n in g.node if n.op_type == "Squeeze"):
        squeeze.input[1:] = ["one_1d"]  # a constant of the definition's: 1


def _rotary(node: GraphNode) -> GraphNode | None:
    """RotaryEmbedding with a position for each row, whose number of heads is known.

    Source: ONNX Runtime, com.microsoft.RotaryEmbedding-1; ONNX RotaryEmbedding-23.
    """
    if (node.domain, node.op_type) != (MICROSOFT_DOMAIN, "RotaryEmbedding"):
        return None
    known = {"interleaved", "num_heads", "rotary_embedding_dim"}
    x, positions, cosines, sines = node.inputs
    others = {"scale": 1.0, "is_packed_batching": 0}
    given = {n: a for n, a in node.attributes.items() if n in known}
    plain = all(node.attributes.get(n, usual) == usual for n, usual in others.items())
    if not plain or x is None or positions is None or len(positions.dims or ()) != 2:
        return None
    if len(x.dims or ()) == 3 and not given.get("num_heads"):
        return None
    inputs = (x, cosines, sines, positions)
    return replace(node, domain="", since=_SINCE, inputs=inputs, attributes=given)


_SINCE = 23  # the schema of RotaryEmbedding that it is


def defining_graph(given: GraphNode, decide: Callable[[ModelProto], None]) -> Graph | None:
    """Returns the nodes that define an operator of ONNX's own; None if there is no definition.

    Operators of ONNX Runtime's own have that of an equal one, or `contributed`, whose Reject is
    raised. The nodes read and compute the node's values. Those between have names that begin with
    the node's first output, and no shapes. `decide` is given a model of them, in which it replaces
    branches and loops that it can decide; what is left of these has no bodies.
    """
    values = [v for v in (*given.inputs, *given.outputs) if v is not None]
    if given.implicit or not all(v.dtype for v in values):
        return None
    body = contributed(given)
    if body is not None:
        return _graph_of(body.call, node_of(body.call), body.function, decide)
    node = given if not given.domain else _rotary(given)
    if node is None:
        return None
    types = _types(node)
    proto = node_of(node)
    try:
        function = definition_of(proto, node.since, types)
    except (defs.SchemaError, ValueError, RuntimeError):  # types or attributes that it has not
        return None
    return None if function is None else _graph_of(node, proto, function, decide)


def _types(node: GraphNode) -> dict[str, TypeProto]:
    """The types of the node's values, by name."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    return {v.name: type_proto(v) for v in values}


def _graph_of(
    node: GraphNode,
    call: NodeProto,
    function: FunctionProto,
    decide: Callable[[ModelProto], None],
) -> Graph:
    """Returns the nodes of a function that the node calls."""
    inlined = _inlined(node, call, function, _types(node))
    if any(n.op_type in ("If", "Loop") for n in inlined.graph.node):
        known = {v.name: v.constant for v in node.inputs if v is not None and v.constant}
        tensors = (numpy_helper.from_array(c.array, name) for name, c in known.items())
        inlined.graph.initializer.extend(tensors)  # which may decide branches
        drop_constant_inputs(inlined.graph)
        decide(inlined)
        inlined = shape_inference.infer_shapes(inlined)
    opsets = {o.domain: o.version for o in inlined.opset_import}
    values = _named_values(node, inlined)
    nodes = tuple(_graph_node(i, n, values, opsets) for i, n in enumerate(inlined.graph.node))
    read = {v.name: replace(v, folded=False) for v in node.inputs if v is not None}
    outputs = tuple(v for v in node.outputs if v is not None)
    kept = tuple(n for n in nodes if n.op_type != "Constant")
    return Graph("", kept, tuple(read.values()), outputs, opsets)


def _inlined(
    node: GraphNode, proto: NodeProto, function: FunctionProto, types: Mapping[str, TypeProto]
) -> ModelProto:
    """Returns a model of the function's nodes, with the types of their values."""
    function.domain, function.name = DOMAIN, node.op_type
    proto.domain = DOMAIN
    infos = {n: helper.make_value_info(n, t) for n, t in types.items()}
    inputs, outputs = (
        [infos[n] for n in dict.fromkeys(v.name for v in values if v is not None)]
        for values in (node.inputs, node.outputs)
    )
    opsets = [*function.opset_import, helper.make_opsetid(DOMAIN, 1)]
    graph = helper.make_graph([proto], "definition", inputs, outputs)
    model = helper.make_model(graph, functions=[function], opset_imports=opsets)
    return shape_inference.infer_shapes(inliner.inline_local_functions(model))


def _named_values(node: GraphNode, inlined: ModelProto) -> dict[str, Value]:
    """Returns the values of the nodes by the names that they have in the model."""
    graph = inlined.graph
    known = {v.name: v for v in (*node.inputs, *node.outputs) if v is not None}
    types = {v.name: v.type.tensor_type.elem_type for v in graph.value_info}
    first = next(v.name for v in node.outputs if v is not None)
    for tensor in (t for t in graph.initializer if t.name not in known):
        constant = Constant.of(np.array(numpy_helper.to_array(tensor)))
        known[tensor.name] = Value.of(f"{first}/{tensor.name}", constant)
    for part in graph.node:
        for name in part.output:
            inner = f"{first}/{name}"
            if name and part.op_type == "Constant":
                known[name] = _constant(inner, part.attribute[0])
            elif name and name not in known:
                known[name] = Value(inner, DType(types.get(name, 0)))
    return known


def _constant(name: str, attribute: AttributeProto) -> Value:
    given = _attribute(attribute)
    if not isinstance(given, Constant):
        given = Constant.of(np.array(given, np.int64 if "int" in attribute.name else np.float32))
    return Value.of(name, given)


def _graph_node(
    index: int, node: NodeProto, known: Mapping[str, Value], opsets: Mapping[str, int]
) -> GraphNode:
    since = defs.get_schema(node.op_type, opsets[node.domain], node.domain).since_version
    inputs, outputs = (tuple(known.get(n) for n in names) for names in (node.input, node.output))
    name = next(v.name for v in outputs if v is not None)
    attributes = {a.name: _attribute(a) for a in node.attribute if not a.HasField("g")}
    op_type = node.op_type
    like = inputs[1] if op_type == "CastLike" else None
    if like is not None and like.dtype:  # of which the elements do not matter
        op_type, inputs, attributes = "Cast", inputs[:1], {"to": int(like.dtype)}
    return GraphNode(
        index, name, op_type, node.domain, since, inputs, outputs, attributes, members=(index,)
    )


def _attribute(attribute: AttributeProto) -> Attribute:
    given = helper.get_attribute_value(attribute)
    if isinstance(given, TensorProto):
        return Constant.of(np.array(numpy_helper.to_array(given)))
    if isinstance(given, bytes):
        return given.decode()
    if isinstance(given, int | float):
        return given
    return tuple(g.decode() if isinstance(g, bytes) else g for g in given)
