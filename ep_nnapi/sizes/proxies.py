"""Substitute operators for shape inference of operators that ONNX does not infer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx import defs

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.quantization.qlinear import FORMS, Form

_RUNTIME = "com.microsoft"
_LIKE_FIRST = frozenset(
    (
        *(("", name) for name in ("GroupNormalization", "MeanVarianceNormalization")),
        *((_RUNTIME, name) for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")),
        *((_RUNTIME, name) for name in ("DequantizeLinear", "QuantizeLinear")),
        *((_RUNTIME, f"Skip{kind}LayerNormalization") for kind in ("", "Simplified")),
    )
)
"""Domains and types of operators whose first output has the shape of the first input."""
_FUSED = {"FusedConv": ("Conv", 3), "FusedGemm": ("Gemm", 3), "FusedMatMul": ("MatMul", 2)}
"""ONNX Runtime's fused operators: the operator they extend, and its number of inputs."""
_SINCE = 13
"""An opset with all substitutes; later opsets do not change their shape inference."""
_LIKE = {"GreaterOrEqual": "Greater", "LessOrEqual": "Less"}
"""Operators that ONNX defines as functions, and equivalents for shape inference."""


def counterpart(node: GraphNode) -> GraphNode:
    """Returns an ONNX node with the same shape inference as `node`; `node` if none is known.

    Source: ONNX GroupNormalization-18, -21, MeanVarianceNormalization-13, LessOrEqual-12,
    GreaterOrEqual-12, which have no shape inference; com.microsoft schemas of ONNX Runtime.
    """
    if (node.domain, node.op_type) in _LIKE_FIRST:
        return _as(node, "Identity", node.inputs[:1])
    if not node.domain:
        like = _LIKE.get(node.op_type)
        return node if like is None else _as(node, like, node.inputs)
    if node.domain != _RUNTIME:
        return node
    if node.op_type in _FUSED:
        op_type, count = _FUSED[node.op_type]
        return _as(node, op_type, _matrices(node)[:count])
    form = FORMS.get(node.op_type)
    if form is None or node.attributes.get("channels_last", 0):
        return node
    return _as(node, form.op_type, _quantized(node, form))


def _as(node: GraphNode, op_type: str, inputs: Sequence[Value | None]) -> GraphNode:
    known = defs.get_schema(op_type, _SINCE).attributes
    return replace(
        node,
        op_type=op_type,
        domain="",
        since=_SINCE,
        inputs=tuple(inputs),
        outputs=node.outputs[:1],
        attributes={name: a for name, a in node.attributes.items() if name in known},
    )


def _quantized(node: GraphNode, form: Form) -> list[Value | None]:
    """The tensors of a QLinear operator as floats, without scales, zero points and bias."""
    found = [_real(node.inputs[tensor]) for tensor, _, _ in form.triples(node)]
    for position, source in (form.plain or {}).items():
        found.insert(position, node.inputs[source])
    return found


def _real(value: Value | None) -> Value | None:
    return value and replace(value, dtype=DType.FLOAT, constant=None)


def _matrices(node: GraphNode) -> list[Value | None]:
    """The inputs; those that FusedMatMul transposes have their last two dimensions swapped."""
    found = list(node.inputs)
    for i, name in enumerate(("transA", "transB")):
        value = found[i]
        turned = node.op_type == "FusedMatMul" and node.attributes.get(name, 0)
        if turned and value is not None and value.dims is not None and len(value.dims) > 1:
            dims = (*value.dims[:-2], value.dims[-1], value.dims[-2])
            found[i] = replace(value, dims=dims, constant=None)
    return found
