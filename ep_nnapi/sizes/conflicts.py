"""Conflicts between a node's declared output shapes and ONNX's shape inference."""

from __future__ import annotations

import re
from dataclasses import replace

from onnx import shape_inference

from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.sizes.inference import infer_outputs, is_sized

_PREFIX = re.compile(r"^\[\w+\]\s*(\(op_type:[^)]*\):\s*)?")
"""The kind of error and the node, with which onnx's messages begin."""


def shape_conflict(node: GraphNode) -> str:
    """Describes why the node's shapes are inconsistent; "" where shape inference finds no reason.

    ONNX Runtime keeps a declared output shape, with a warning, where its own inference differs.
    """
    try:
        inferred = infer_outputs(_unsized(node))
    except shape_inference.InferenceError as error:
        return _PREFIX.sub("", str(error).strip())
    for value, found in zip(outputs_of(node), (v for v in inferred if v), strict=True):
        if is_sized(value) and is_sized(found) and value.dims != found.dims:
            return (
                f"{value.name} is declared as {list(value.shape)}, inferred as {list(found.shape)}"
            )
    return ""


def unconfirmed_shape(node: GraphNode) -> str:
    """Names an output of ONNX's whose shape is only declared; "" where inference finds each shape.

    Raises InferenceError if the inputs are inconsistent.
    """
    inferred = (v for v in infer_outputs(_unsized(node)) if v)
    for value, found in zip(outputs_of(node), inferred, strict=True):
        if is_sized(value) and not is_sized(found):
            return f"{value.name} is only declared as {list(value.shape)}"
    return ""


def _unsized(node: GraphNode) -> GraphNode:
    return replace(node, outputs=tuple(v and replace(v, dims=None) for v in node.outputs))
