"""Rewrites of nodes to equal ones that NNAPI takes: of Clip, int8, transposes, by definitions.

Clip becomes Max and Min, int8 tensors between QuantizeLinear and DequantizeLinear become uint8,
transposes of rank 5 and more between reshapes get fewer axes, or become DepthToSpace, and operators
are replaced by ONNX's own definition of them in terms of others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import (
    FunctionProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    inliner,
    numpy_helper,
    version_converter,
)

from ep_nnapi.graph.definitions import DOMAIN, definition_of
from ep_nnapi.graph.onnx_io import ONNX_DOMAINS, graphs, opset_of, replace_all, static_sizes
from ep_nnapi.operators.lib.movement import merged as merged_axes


def _copied(model: ModelProto) -> tuple[ModelProto, dict[str, list[NodeProto]]]:
    """Returns a copy of the model, and its nodes by the names of their inputs."""
    copy = deepcopy(model)
    readers: dict[str, list[NodeProto]] = {}
    for node in copy.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    return copy, readers


def clips_as_min_and_max(model: ModelProto, names: Collection[str]) -> ModelProto | None:
    """Returns the model with the named Clips as Max, then Min; None if none of them is a Clip.

    Clips of opset 11 and later, whose limits are inputs. Max with the lower limit comes first: if
    the limits are in the wrong order, the upper one wins in both forms.
    """
    nodes = [part for node in model.graph.node for part in _parts(node, names)]
    if nodes == list(model.graph.node):
        return None
    rewritten = deepcopy(model)
    replace_all(rewritten.graph.node, nodes)
    return rewritten


def _parts(node: NodeProto, names: Collection[str]) -> Iterator[NodeProto]:
    limits = [*node.input[1:], "", ""][:2]
    if node.op_type != "Clip" or node.name not in names or not any(limits):
        yield node
        return
    value, last = node.input[0], node.output[0]
    given = [pair for pair in zip(("Max", "Min"), limits, strict=True) if pair[1]]
    for op_type, limit in given:
        out = last if op_type == given[-1][0] else f"{last}_{op_type}"
        yield helper.make_node(op_type, [value, limit], [out], f"{node.name}/{op_type}")
        value = out


_OFFSET = 128


def int8_as_uint8(model: ModelProto, names: Collection[str]) -> ModelProto | None:
    """Returns the model with int8 activations in uint8; None if there are none near named nodes.

    A stored number s with zero point z becomes s + 128 with z + 128. Both saturate at the same real
    numbers, so that every dequantized value stays the same. Changes a QuantizeLinear with a
    constant zero point whose readers are all DequantizeLinear nodes with the same zero point, if
    one of them or a node that reads from them is named.
    """
    rewritten, readers = _copied(model)
    graph = rewritten.graph
    tensors = {t.name: t for t in graph.initializer}
    outputs = {o.name for o in graph.output}
    changed = False
    for node in graph.node:
        if node.op_type != "QuantizeLinear" or node.output[0] in outputs:
            continue
        around = readers.get(node.output[0], [])
        zero = _int8_zero_point(node, tensors)
        nodes = [node, *around, *(n for d in around for n in readers.get(d.output[0], []))]
        if (
            zero is None
            or not any(n.name in names for n in nodes)
            or not all(
                d.op_type == "DequantizeLinear"
                and d.input[0] == node.output[0]
                and _int8_zero_point(d, tensors) == zero
                for d in around
            )
        ):
            continue
        name = f"{node.output[0]}/zero_point"
        graph.initializer.append(numpy_helper.from_array(np.array(zero + _OFFSET, np.uint8), name))
        for each in (node, *around):
            each.input[2] = name
        _retype(rewritten, node)
        changed = True
    return rewritten if changed else None


def _int8_zero_point(node: NodeProto, tensors: dict[str, TensorProto]) -> int | None:
    """Returns a constant int8 zero point for the whole tensor; None for all others."""
    tensor = tensors.get(node.input[2]) if len(node.input) > 2 else None
    if tensor is None or tensor.data_type != TensorProto.INT8:
        return None
    array = numpy_helper.to_array(tensor)
    return int(array.reshape(-1)[0]) if array.size == 1 else None


def _retype(model: ModelProto, node: NodeProto) -> None:
    """Sets the type of a QuantizeLinear's output where the model states it."""
    for attribute in [a for a in node.attribute if a.name == "output_dtype"]:
        node.attribute.remove(attribute)
        node.attribute.append(helper.make_attribute("output_dtype", int(TensorProto.UINT8)))
    for info in model.graph.value_info:
        if info.name == node.output[0]:
            info.type.tensor_type.elem_type = TensorProto.UINT8


Sizes: TypeAlias = tuple[int, ...]
_MAX_RANK = 4
_BLOCKS = {
    (0, 3, 4, 1, 5, 2): ("DepthToSpace", {"mode": "DCR"}),
    (0, 1, 4, 2, 5, 3): ("DepthToSpace", {"mode": "CRD"}),
    (0, 3, 5, 1, 2, 4): ("SpaceToDepth", {}),
}
"""ONNX's definitions of both operators as a transpose between two reshapes."""


def transposes_in_fewer_axes(model: ModelProto, names: Collection[str]) -> ModelProto | None:
    """Returns the model with transposes between reshapes in at most four axes; None without any.

    Transposes between two reshapes with known sizes: as DepthToSpace or SpaceToDepth where they are
    one, else with axes merged that stay together. One of the three nodes has to be named.
    """
    rewritten, readers = _copied(model)
    shapes = _shapes(model)
    outputs = {o.name for o in rewritten.graph.output}
    writers = {name: node for node in rewritten.graph.node for name in node.output}
    changed = False
    for transpose in [n for n in rewritten.graph.node if n.op_type == "Transpose"]:
        before, after = writers.get(transpose.input[0]), readers.get(transpose.output[0], [])
        chain = [before, transpose, *after]
        if (
            before is None
            or [n.op_type for n in chain if n is not None] != ["Reshape", "Transpose", "Reshape"]
            or not any(n.name in names for n in chain if n is not None)
            or len(readers[before.output[0]]) != 1
            or outputs & {before.output[0], transpose.output[0]}
        ):
            continue
        changed |= _replace(rewritten, before, transpose, after[0], shapes)
    return rewritten if changed else None


def _replace(
    model: ModelProto,
    before: NodeProto,
    transpose: NodeProto,
    after: NodeProto,
    shapes: Mapping[str, Sizes],
) -> bool:
    """Replaces the three nodes by an equal form of lower rank; returns False if there is none."""
    start, sizes = shapes.get(before.input[0]), shapes.get(before.output[0])
    end = shapes.get(after.output[0])
    if start is None or sizes is None or end is None or len(sizes) <= _MAX_RANK or 0 in end:
        return False
    perm = tuple(next((a.ints for a in transpose.attribute if a.name == "perm"), ()))
    perm = perm or tuple(reversed(range(len(sizes))))
    block = _block(start, sizes, perm, end)
    if block is not None:
        op_type, attributes = block
        ends = [before.input[0]], [after.output[0]]
        after.CopyFrom(helper.make_node(op_type, *ends, transpose.name, **attributes))
        model.graph.node.remove(before)
        model.graph.node.remove(transpose)
        return True
    merged, order = merged_axes(sizes, perm)
    if len(merged) > _MAX_RANK:
        return False
    shape = f"{before.output[0]}/merged"
    model.graph.initializer.append(numpy_helper.from_array(np.array(merged, np.int64), shape))
    before.input[1] = shape
    del transpose.attribute[:]
    transpose.attribute.append(helper.make_attribute("perm", list(order)))
    for name in (before.output[0], transpose.output[0]):
        for info in [v for v in model.graph.value_info if v.name == name]:
            model.graph.value_info.remove(info)
    target = f"{after.output[0]}/sizes"  # the old sizes may copy one of the axes that are merged
    model.graph.initializer.append(numpy_helper.from_array(np.array(end, np.int64), target))
    after.input[1] = target
    return True


def _block(
    start: Sizes, sizes: Sizes, perm: Sizes, end: Sizes
) -> tuple[str, dict[str, Any]] | None:
    """Returns the operator that the three nodes are together, if they are one."""
    if perm not in _BLOCKS or len(start) != _MAX_RANK or len(end) != _MAX_RANK:
        return None
    op_type, attributes = _BLOCKS[perm]
    n, c, h, w = start
    size = sizes[3] if op_type == "SpaceToDepth" else (end[2] // h if h else 0)
    if size < 1 or c % (size * size if op_type == "DepthToSpace" else 1):
        return None
    if op_type == "SpaceToDepth":
        wanted = (n, c, h // size, size, w // size, size), (n, c * size**2, h // size, w // size)
    else:
        depth = c // size**2
        blocks = (size, size, depth) if "DCR" in attributes.values() else (depth, size, size)
        order = (n, *blocks, h, w)
        wanted = order, (n, depth, h * size, w * size)
    return (op_type, {**attributes, "blocksize": size}) if (sizes, end) == wanted else None


def _shapes(model: ModelProto) -> dict[str, Sizes]:
    """Returns the shapes of values that are fully known."""
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return {v.name: sizes for v in values if (sizes := static_sizes(v)) is not None}


def expand_definitions(model: ModelProto, names: Collection[str]) -> ModelProto | None:
    """Returns the model with the named nodes replaced by their definitions; None if none has one.

    ONNX defines many operators as functions of others (HardSwish, LayerNormalization, Mish ...). A
    definition for a newer opset raises the opset of the whole model, by ONNX's converter.
    """
    rewritten = deepcopy(model)
    defined = _definitions(rewritten, names)
    if not defined:
        return None
    needed = max(o.version for f in defined for o in f.opset_import)
    if needed > opset_of(rewritten):
        rewritten = version_converter.convert_version(model, needed)
        defined = _definitions(rewritten, names)
    rewritten.functions.extend(defined)
    rewritten.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    inlined = inliner.inline_local_functions(rewritten)
    replace_all(inlined.opset_import, [o for o in inlined.opset_import if o.domain != DOMAIN])
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


def _definitions(model: ModelProto, names: Collection[str]) -> list[FunctionProto]:
    """Makes the named nodes call functions of this module, and returns these."""
    types = types_of(model)
    found: list[FunctionProto] = []
    for node in model.graph.node:
        if node.name not in names or node.domain not in ONNX_DOMAINS:
            continue
        body = definition_of(node, opset_of(model), types)
        if body is None:
            continue
        for imported in body.opset_import:  # a definition holds until there is a newer one
            imported.version = max(imported.version, opset_of(model))
        body.name = f"{node.op_type}_{len(found)}"
        body.domain = DOMAIN
        node.op_type, node.domain = body.name, DOMAIN
        found.append(body)
    return found


def types_of(model: ModelProto) -> dict[str, onnx.TypeProto]:
    """Returns the types of the model's values by name, as far as they can be inferred."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
    constants = {
        t.name: helper.make_tensor_type_proto(t.data_type, t.dims) for t in graph.initializer
    }
    return types | constants
