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
    unsized = replace(node, outputs=tuple(v and replace(v, dims=None) for v in node.outputs))
    try:
        inferred = infer_outputs(unsized)
    except shape_inference.InferenceError as error:
        return _PREFIX.sub("", str(error).strip())
    for value, found in zip(outputs_of(node), (v for v in inferred if v), strict=True):
        if is_sized(value) and is_sized(found) and value.dims != found.dims:
            return (
                f"{value.name} is declared as {list(value.shape)}, inferred as {list(found.shape)}"
            )
    return ""
