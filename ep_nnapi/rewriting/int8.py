"""int8 tensors between QuantizeLinear and DequantizeLinear as uint8, with the same real numbers."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

_OFFSET = 128


def int8_as_uint8(model: ModelProto, names: Collection[str]) -> ModelProto | None:
    """Returns the model with int8 activations in uint8; None if there are none near named nodes.

    A stored number s with zero point z becomes s + 128 with z + 128. Both saturate at the same real
    numbers, so that every dequantized value stays the same. Changes a QuantizeLinear with a
    constant zero point whose readers are all DequantizeLinear nodes with the same zero point, if
    one of them or a node that reads from them is named.
    """
    rewritten = ModelProto()
    rewritten.CopyFrom(model)
    graph = rewritten.graph
    tensors = {t.name: t for t in graph.initializer}
    readers: dict[str, list[NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
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
