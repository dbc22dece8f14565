"""Detection of the model properties that determine tolerances for its outputs."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import onnx
from onnx import TensorProto, numpy_helper

from ep_nnapi.diagnostics.float64_decomposition import DECOMPOSITIONS
from ep_nnapi.diagnostics.model_sources import Loadable
from ep_nnapi.diagnostics.output_kinds import Traits
from ep_nnapi.diagnostics.reference_run import all_nodes, from_ort, read_model

_KEEPS_SCALE = frozenset(
    ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Relu")
)
"""Operators whose outputs keep the quantization scale of their first input."""

_NAMES = (b"QuantizeLinear", b"QLinear", b"MatMulInteger", b"ConvInteger")


def traits_of(model: Loadable, *, half: bool = False) -> Traits:
    """Returns the traits of a model; of an .ort file without quantized operators only `half`.

    half   True if float32 may be computed in float16, whatever types the model has
    """
    proto = read_model(model)
    quantized = proto is None and _is_quantized(model)
    if quantized:
        with suppress(Exception):  # nodes that are compiled are for their own provider
            proto = from_ort(model)
    if proto is None:
        return Traits(quantized, half)
    nodes = list(all_nodes(proto.graph))
    producers = {name: node for node in proto.graph.node for name in node.output}
    names = [o.name for o in proto.graph.output]
    tensors = {t.name: t for t in proto.graph.initializer}
    found = ((name, _step(name, producers, tensors)) for name in names)
    boxes, random = (
        frozenset(n for n in names if _depends(n, producers, on)) if any(map(on, nodes)) else ()
        for on in (_detects, _draws)
    )
    return Traits(
        any(node.op_type in DECOMPOSITIONS for node in nodes),
        half or _computes_half(proto.graph, nodes),
        {name: step for name, step in found if step is not None},
        frozenset(boxes),
        frozenset(random),
    )


def _computes_half(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> bool:
    """Returns True if initializers, inputs or casts are float16."""
    half = TensorProto.FLOAT16
    return (
        any(t.data_type == half for t in graph.initializer)
        or any(i.type.tensor_type.elem_type == half for i in graph.input)
        or any(a.name == "to" and a.i == half for n in nodes for a in n.attribute)
    )


def _step(
    name: str, producers: Mapping[str, onnx.NodeProto], tensors: Mapping[str, onnx.TensorProto]
) -> float | None:
    """Returns the scale of a value computed by DequantizeLinear, or None for other values."""
    node = producers.get(name)
    while node is not None and node.op_type in _KEEPS_SCALE:
        node = producers.get(node.input[0])
    if node is None or node.op_type != "DequantizeLinear" or node.input[1] not in tensors:
        return None
    return float(numpy_helper.to_array(tensors[node.input[1]]).max(initial=0.0))


def _detects(node: onnx.NodeProto) -> bool:
    return node.op_type == "NonMaxSuppression"


def _draws(node: onnx.NodeProto) -> bool:
    """Returns True if each session draws other numbers: no seed is set; Dropout only trains."""
    return (
        node.domain == ""
        and node.op_type != "Dropout"
        and onnx.defs.has(node.op_type)
        and "seed" in onnx.defs.get_schema(node.op_type).attributes
        and not any(a.name == "seed" for a in node.attribute)
    )


def _depends(
    name: str, producers: Mapping[str, onnx.NodeProto], on: Callable[[onnx.NodeProto], bool]
) -> bool:
    """Returns True if a value depends on the output of a node for which `on` is True."""
    seen: set[str] = set()
    left = [name]
    while left:
        value = left.pop()
        node = producers.get(value)
        if node is None or value in seen:
            continue
        if on(node):
            return True
        seen |= set(node.output)
        left.extend(node.input)
    return False


def _is_quantized(model: Loadable) -> bool:
    """Returns True if the file contains the name of a quantized operator as plain text."""
    if isinstance(model, bytes):
        return any(name in model for name in _NAMES)
    with (
        Path(model).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return any(data.find(name) >= 0 for name in _NAMES)
