"""Output shapes of pools with ceil_mode, which may be declared larger than they are computed."""

from __future__ import annotations

from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Dim, Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.sizes.requirements import integers_of

_POOLS = ("AveragePool", "LpPool", "MaxPool")


def correct_ceil_mode(node: GraphNode) -> tuple[Value, ...]:
    """Corrects the node's inferred output shapes to what ONNX Runtime's kernels compute.

    As ONNX specifies, the kernels drop a last window that starts in the end padding; ONNX Runtime's
    shape inference counts it. There is at most one such window per axis.
    """
    found = _computed_counts(node)
    if found is None:
        return outputs_of(node)
    return tuple(replace(v, dims=(v.dims or ())[:2] + found) for v in outputs_of(node))


def declares_extra_window(node: GraphNode) -> bool:
    """True if the pool's declared output counts windows that start beyond the last element."""
    return _computed_counts(node) is not None


def _computed_counts(node: GraphNode) -> tuple[Dim, ...] | None:
    """The windows that a pool computes along its spatial axes; None if the declared ones."""
    x, y = node.inputs[:1], node.outputs[:1]
    if node.op_type not in _POOLS or node.domain or not node.attributes.get("ceil_mode", 0):
        return None
    if not x or not y or x[0] is None or y[0] is None or not (x[0].dims and y[0].dims):
        return None
    sizes, counts = x[0].dims[2:], y[0].dims[2:]
    strides = integers_of(node, "strides") or [1] * len(sizes)
    begins = integers_of(node, "pads")[: len(sizes)] or [0] * len(sizes)
    found = []
    for size, count, stride, begin in zip(sizes, counts, strides, begins, strict=False):
        found.append(count)
        if (
            isinstance(size, int)
            and isinstance(count, int)
            and (count - 1) * stride >= size + begin
        ):
            found[-1] = count - 1
    return tuple(found) if found != list(counts) else None
