"""Attributes of which ONNX enumerates the values, with other values."""

from __future__ import annotations

from collections.abc import Mapping

from ep_nnapi.graph.graph import MICROSOFT_DOMAIN, GraphNode

_FLAGS = (
    *("allowzero", "ceil_mode", "channels_last", "inverse", "keepdims", "layout", "new_axis"),
    *("noop_with_empty_axes", "onesided", "transA", "transB", "transBatchA", "transBatchB"),
)
_VALUES: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(_FLAGS, (0, 1)),
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
}
"""Attributes of ONNX's and ONNX Runtime's operators that change shapes, and their values.

Of others, ONNX's shape inference and ONNX Runtime's kernels may each take another for granted.
"""


def undefined_value(node: GraphNode) -> str | None:
    """A sentence on an attribute that shape inference and ONNX Runtime may take differently."""
    if node.domain not in ("", MICROSOFT_DOMAIN):  # attributes of these names mean other things
        return None
    for name, given in node.attributes.items():
        defined = _VALUES.get(name)
        if defined is not None and given not in defined:
            return f"{name} is {given!r}; ONNX has {', '.join(map(str, defined))}"
    return None
