"""Attributes that are 0 or 1, with other numbers."""

from __future__ import annotations

from ep_nnapi.graph.graph import GraphNode

_FLAGS = frozenset(
    (
        *("allowzero", "ceil_mode", "channels_last", "keepdims", "layout"),
        *("transA", "transB", "transBatchA", "transBatchB"),
    )
)
"""Attributes of ONNX's and ONNX Runtime's operators that are 0 or 1 and change shapes.

Of other numbers, ONNX's shape inference and ONNX Runtime's kernels may take one for 0, one for 1.
"""


def invalid_flag(node: GraphNode) -> str | None:
    """The name of a flag that shape inference and ONNX Runtime may take differently."""
    if node.domain not in ("", "com.microsoft"):  # attributes of these names mean other things
        return None
    wrong = (name for name, a in node.attributes.items() if name in _FLAGS and a not in (0, 1))
    return next(wrong, None)
