"""Attributes that are 0 or 1, with other numbers."""

from __future__ import annotations

from ep_nnapi.graph.graph import GraphNode

_FLAGS = frozenset(
    (
        *("allowzero", "ceil_mode", "channels_last", "keepdims", "layout", "noop_with_empty_axes"),
        *("transA", "transB", "transBatchA", "transBatchB"),
    )
)
"""Attributes that are 0 or 1 and change shapes.

Of other numbers, ONNX's shape inference and ONNX Runtime's kernels may take one for 0, one for 1.
"""


def has_invalid_flag(node: GraphNode) -> bool:
    """True if shape inference and ONNX Runtime may take a flag of the node differently."""
    return any(name in _FLAGS and a not in (0, 1) for name, a in node.attributes.items())
