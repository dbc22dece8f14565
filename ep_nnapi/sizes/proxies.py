"""Substitute operators for shape inference of operators that ONNX does not infer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from onnx import defs

from ep_nnapi.graph.graph import MICROSOFT_DOMAIN, GraphNode
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.quantization.qdq_groups import FLOAT_EQUIVALENTS, FloatEquivalent

_SHAPE_OF_FIRST_INPUT = frozenset(
    (
        *(("", name) for name in ("Affine", "GroupNormalization", "ImageScaler")),
        *(("", name) for name in ("MeanVarianceNormalization", "ParametricSoftplus", "ScaledTanh")),
        ("", "SimplifiedLayerNormalization"),
        *((MICROSOFT_DOMAIN, name) for name in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")),
        *(
            (MICROSOFT_DOMAIN, name)
            for name in ("DequantizeLinear", "QuantizeLinear", "RotaryEmbedding")
        ),
        *(("ai.onnx.ml", name) for name in ("Imputer", "Normalizer", "Scaler")),
        *((MICROSOFT_DOMAIN, f"Skip{kind}LayerNormalization") for kind in ("", "Simplified")),
    )
)
"""Domains and types of operators whose first output has the shape of the first input."""
_FUSED = {
    "DynamicQuantizeLSTM": ("LSTM", 3),
    "FusedConv": ("Conv", 3),
    "FusedGemm": ("Gemm", 3),
    **dict.fromkeys(("FusedMatMul", "MatMulNBits"), ("MatMul", 2)),
}
"""ONNX Runtime's own operators: the operator of ONNX they extend, and its number of inputs."""
_PROXY_OPSET = 13
"""An opset with all substitutes; later opsets do not change their shape inference."""
_LAST = 2**63 - 1
"""An end of Slice beyond every size."""
_EQUIVALENTS = {"GreaterOrEqual": "Greater", "LessOrEqual": "Less", "PRelu": "Mul"}
"""Equivalents for shape inference of operators that ONNX defines as functions, and of PRelu.

ONNX says that PRelu keeps the shape; ONNX Runtime computes with larger slopes too."""


def inference_proxy(node: GraphNode) -> GraphNode:
    """Returns an ONNX node with the same shape inference as `node`; `node` if none is known.

    Source: ONNX GroupNormalization-18, -21, MeanVarianceNormalization-13, LessOrEqual-12,
    GreaterOrEqual-12, ai.onnx.ml Imputer-1, Normalizer-1 and Scaler-1, which have no shape
    inference; com.microsoft schemas of ONNX Runtime.
    """
    if (node.domain, node.op_type) in _SHAPE_OF_FIRST_INPUT:
        return _rewrite_as(node, "Identity", node.inputs[:1])
    if not node.domain and node.op_type not in FLOAT_EQUIVALENTS:
        return _proxy_of_onnx(node)
    if node.domain not in ("", MICROSOFT_DOMAIN):
        return node
    if node.op_type in _FUSED:
        op_type, count = _FUSED[node.op_type]
        found = _rewrite_as(node, op_type, _as_read(node)[:count])
        return replace(found, outputs=node.outputs)
    equivalent = FLOAT_EQUIVALENTS.get(node.op_type)
    if equivalent is None or node.attributes.get("channels_last", 0):
        return node
    return _rewrite_as(node, equivalent.op_type, _float_inputs(node, equivalent))


def _proxy_of_onnx(node: GraphNode) -> GraphNode:
    if node.op_type == "Squeeze" and _has_empty_axes(node):
        return _rewrite_as(node, "Squeeze", node.inputs[:1])
    if node.op_type == "Crop":
        return _rewrite_as(node, "Slice", (node.inputs[0], *_ends_of_crop(node)))
    like = _EQUIVALENTS.get(node.op_type)
    return node if like is None else _rewrite_as(node, like, node.inputs)


def _rewrite_as(node: GraphNode, op_type: str, inputs: Sequence[Value | None]) -> GraphNode:
    known = defs.get_schema(op_type, _PROXY_OPSET).attributes
    return replace(
        node,
        op_type=op_type,
        domain="",
        since=_PROXY_OPSET,
        inputs=tuple(inputs),
        outputs=node.outputs[:1],
        attributes={name: a for name, a in node.attributes.items() if name in known},
    )


def _ends_of_crop(node: GraphNode) -> Iterator[Value]:
    """Yields starts, ends and axes. Source: ONNX Runtime's Crop, an operator of ONNX's first days.

    border  left, top, right, bottom; scale: height and width instead of right and bottom
    """
    left, top, right, bottom = cast("tuple[int, ...]", node.attributes.get("border", (0,) * 4))
    ends = [-bottom or _LAST, -right or _LAST]
    if scale := cast("tuple[int, ...]", node.attributes.get("scale", ())):
        ends = [top + scale[0], left + scale[1]]
    for name, given in {"starts": [top, left], "ends": ends, "axes": [2, 3]}.items():
        yield Value(f"{node.name}/{name}", DType.INT64, (2,), constant=Constant.of(np.array(given)))


def _has_empty_axes(node: GraphNode) -> bool:
    """True for axes of no elements, for which ONNX Runtime squeezes all, and ONNX infers none."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    return node.attributes.get("axes") == () or (given is not None and given.dims == (0,))


def _float_inputs(node: GraphNode, equivalent: FloatEquivalent) -> list[Value | None]:
    """The tensors of a QLinear operator as floats, without scales, zero points and bias."""
    given = (node.inputs[tensor] for tensor, _, _ in equivalent.triples(len(node.inputs)))
    found = [v and replace(v, dtype=DType.FLOAT, constant=None) for v in given]
    for position, source in (equivalent.unquantized or {}).items():
        found.insert(position, node.inputs[source])
    return found


def _as_read(node: GraphNode) -> list[Value | None]:
    """The inputs as they are multiplied: weights [K, N] of MatMulNBits, not the blocks of them.

    Those that FusedMatMul or DynamicQuantizeLSTM transposes have their last two dimensions swapped.
    """
    found = list(node.inputs)
    if node.op_type == "MatMulNBits":
        shape = tuple(cast("int", node.attributes.get(name, 0)) for name in ("K", "N"))
        return [found[0], Value(f"{node.name}/weights", DType.FLOAT, shape)]
    of_bytes, swapped = node.op_type == "DynamicQuantizeLSTM", [1, 2]
    if not of_bytes:
        fused = node.op_type == "FusedMatMul"
        swapped = [i for i in (0, 1) if fused and node.attributes.get(f"trans{'AB'[i]}", 0)]
    for i in swapped:
        value = found[i]
        if value is not None and value.dims is not None and len(value.dims) > 1:
            dims = (*value.dims[:-2], value.dims[-1], value.dims[-2])
            dtype = DType.FLOAT if of_bytes else value.dtype
            found[i] = replace(value, dtype=dtype, dims=dims, constant=None)
    return found
