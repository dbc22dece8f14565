"""Operators replaced by ONNX's own definition of them in terms of other operators."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, defs, helper, inliner, version_converter

from ep_nnapi.graph.onnx_io import graphs

_DOMAIN = "ep_nnapi.definitions"
_ONNX = ("", "ai.onnx")


def expand_definitions(model: ModelProto, names: Collection[str]) -> ModelProto | None:
    """Returns the model with the named nodes replaced by their definitions; None if none has one.

    ONNX defines many operators as functions of others (HardSwish, LayerNormalization, Mish ...). A
    definition for a newer opset raises the opset of the whole model, by ONNX's converter.
    """
    rewritten = ModelProto()
    rewritten.CopyFrom(model)
    defined = _definitions(rewritten, names)
    needed = max((o.version for f in defined for o in f.opset_import), default=0)
    if not defined:
        return None
    if needed > opset_of(rewritten):
        rewritten = version_converter.convert_version(model, needed)
        defined = _definitions(rewritten, names)
    rewritten.functions.extend(defined)
    rewritten.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    inlined = inliner.inline_local_functions(rewritten)
    kept = [o for o in inlined.opset_import if o.domain != _DOMAIN]
    del inlined.opset_import[:]
    inlined.opset_import.extend(kept)
    drop_unread(inlined, {name for node in model.graph.node for name in node.output})
    return inlined


def drop_unread(model: ModelProto, known: Collection[str]) -> None:
    """Removes nodes that only compute optional outputs which the model does not have."""
    read = {o.name for o in model.graph.output}
    for graph in graphs(model.graph):
        read |= {name for node in graph.node for name in node.input}
        read |= {o.name for o in graph.output}
    unread = [n for n in model.graph.node if not any(o in read or o in known for o in n.output)]
    for node in unread:
        model.graph.node.remove(node)
    if unread:
        drop_unread(model, known)


def opset_of(model: ModelProto) -> int:
    """Returns the version of ONNX's own operators that the model uses."""
    return next((o.version for o in model.opset_import if o.domain in _ONNX), 1)


def _definitions(model: ModelProto, names: Collection[str]) -> list[FunctionProto]:
    """Makes the named nodes call functions of this module, and returns these."""
    types = types_of(model)
    found: list[FunctionProto] = []
    for node in model.graph.node:
        if node.name not in names or node.domain not in _ONNX:
            continue
        body = _body(node, opset_of(model), types)
        if body is None:
            continue
        for imported in body.opset_import:  # a definition holds until there is a newer one
            imported.version = max(imported.version, opset_of(model))
        body.name = f"{node.op_type}_{len(found)}"
        body.domain = _DOMAIN
        _state_defaults(node, opset_of(model))
        node.op_type, node.domain = body.name, _DOMAIN
        found.append(body)
    return found


def _state_defaults(node: NodeProto, opset: int) -> None:
    """Adds the attributes that the node leaves to their defaults: definitions refer to them."""
    given = {a.name for a in node.attribute}
    for name, attribute in defs.get_schema(node.op_type, opset, "").attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def types_of(model: ModelProto) -> dict[str, onnx.TypeProto]:
    """Returns the types of the model's values by name, as far as they can be inferred."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
    constants = {
        t.name: helper.make_tensor_type_proto(t.data_type, t.dims) for t in graph.initializer
    }
    return types | constants


def _body(node: NodeProto, opset: int, types: dict[str, onnx.TypeProto]) -> FunctionProto | None:
    """Returns the newest definition of the node's operator up to its opset, else the oldest one."""
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
    return FunctionProto.FromString(data) if data else None
