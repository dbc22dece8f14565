"""An ONNX model as a Graph, straight from its proto: for tests without a session."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx.parser
from onnx import defs, helper, numpy_helper, shape_inference

from ep_nnapi.graph.graph import Attribute, Graph, GraphNode
from ep_nnapi.graph.value import Constant, Dim, DType, Value

Shape = Sequence[int | str | None] | None
Infos = Mapping[str, Shape | tuple[type, Shape]]
"""Tensors by name: the sizes of floats, or a numpy type and sizes."""


def parsed(
    text: str,
    opset: int = 17,
    ir_version: int = 9,
    domains: Mapping[str, int] = MappingProxyType({"com.microsoft": 1}),
    **constants: object,
) -> onnx.ModelProto:
    """A model in ONNX's own syntax: "(float[2,3] x) => (float[2,3] y) { [name] y = Abs (x) }"."""
    opsets = ", ".join(f'"{d}": {v}' for d, v in {"": opset, **domains}.items())
    head = f"<ir_version: {ir_version}, opset_import: [{opsets}]>"
    model = onnx.parser.parse_model(f"{head} g {text}")
    model.graph.initializer.extend(tensors(constants))
    return model


def serialized(text: str, *versions: int, **given: object) -> bytes:
    """The bytes of `parsed(...)`."""
    return parsed(text, *versions, **given).SerializeToString()


def nodes_of(text: str) -> list[onnx.NodeProto]:
    """Nodes in ONNX's own syntax: "[name] y = Abs (x) [other] z = Concat <axis = 1> (y, y)"."""
    return list(parsed(f"() => () {{ {text} }}").graph.node)


def model_of(
    nodes: Sequence[onnx.NodeProto] | str,
    inputs: Infos,
    outputs: Infos,
    constants: Mapping[str, object] = MappingProxyType({}),
    opset: int = 17,
    *,
    ir_version: int = 8,
    declared: Infos = MappingProxyType({}),
    domains: Mapping[str, int] = MappingProxyType({}),
) -> onnx.ModelProto:
    """A model of nodes, or of their text; `declared` are the types of values inside."""
    listed = nodes_of(nodes) if isinstance(nodes, str) else list(nodes)
    ends, inside = (infos(inputs), infos(outputs)), infos(declared)
    graph = helper.make_graph(listed, "g", *ends, tensors(constants), value_info=inside)
    opsets = [helper.make_opsetid(d, v) for d, v in {"": opset, **domains}.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def typed(code: int, sizes: Shape = None) -> tuple[type, Shape]:
    """An entry of `Infos` of ONNX's code of an element type."""
    return helper.tensor_dtype_to_np_dtype(code).type, sizes


def infos(given: Infos) -> list[onnx.ValueInfoProto]:
    found = []
    for name, sizes in given.items():
        has_type = isinstance(sizes, tuple) and sizes and isinstance(sizes[0], type)
        kind, shape = sizes if has_type else (np.float32, sizes)
        code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        found.append(helper.make_tensor_value_info(name, code, shape))
    return found


def tensors(constants: Mapping[str, object]) -> list[onnx.TensorProto]:
    return [
        a if isinstance(a, onnx.TensorProto) else numpy_helper.from_array(np.asarray(a), name)
        for name, a in constants.items()
    ]


def graph_of(model: onnx.ModelProto) -> Graph:
    """The main graph with shapes inferred; initializers that are no inputs are constants."""
    model = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    graph = model.graph
    opsets = {o.domain: o.version for o in model.opset_import}
    values = _values(graph)
    nodes = tuple(_node(i, n, values, opsets) for i, n in enumerate(graph.node))
    inputs = tuple(values[i.name] for i in graph.input)
    outputs = tuple(values[o.name] for o in graph.output)
    return Graph("main", nodes, inputs, outputs, opsets)


def _values(graph: onnx.GraphProto) -> dict[str, Value]:
    values = {
        info.name: Value(
            info.name, DType(info.type.tensor_type.elem_type), _dims(info.type.tensor_type)
        )
        for info in (*graph.input, *graph.value_info, *graph.output)
    }
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        constant = Constant(tuple(tensor.dims), DType(tensor.data_type), lambda a=array: a)
        values.setdefault(
            tensor.name, Value(tensor.name, constant.dtype, constant.shape, constant=constant)
        )
    return values


def _dims(tensor: onnx.TypeProto.Tensor) -> tuple[Dim, ...] | None:
    if not tensor.HasField("shape"):
        return None
    return tuple(
        d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in tensor.shape.dim
    )


def _node(
    index: int, node: onnx.NodeProto, values: Mapping[str, Value], opsets: Mapping[str, int]
) -> GraphNode:
    def value(name: str) -> Value | None:
        return values.get(name, Value(name, DType.FLOAT)) if name else None

    try:
        domain = node.domain
        since = defs.get_schema(node.op_type, opsets[domain], domain).since_version
    except defs.SchemaError:
        since = 1
    return GraphNode(
        index,
        node.name or node.output[0],
        node.op_type,
        node.domain,
        since,
        tuple(value(i) for i in node.input),
        tuple(value(o) for o in node.output),
        {a.name: _attribute(a) for a in node.attribute if a.type != onnx.AttributeProto.GRAPH},
        members=(index,),
    )


def _attribute(attribute: onnx.AttributeProto) -> Attribute:
    given = helper.get_attribute_value(attribute)
    if isinstance(given, onnx.TensorProto):
        return Constant.of(np.asarray(numpy_helper.to_array(given)))
    if isinstance(given, bytes):
        return given.decode()
    if isinstance(given, list | tuple) or hasattr(given, "__iter__"):
        return tuple(g.decode() if isinstance(g, bytes) else g for g in given)
    return given
