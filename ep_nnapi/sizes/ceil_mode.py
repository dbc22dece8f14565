"""Output shapes of pools with ceil_mode, which may be declared larger than they are computed."""

from __future__ import annotations

from collections.abc import Sequence

from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Dim, Value
from ep_nnapi.nnapi.immutable import frozen, replace

_POOLS = ("AveragePool", "LpPool", "MaxPool")


def correct_ceil_mode(node: GraphNode) -> tuple[Value, ...]:
    """Corrects the node's inferred output shapes to what ONNX Runtime's kernels compute.

    As ONNX specifies, the kernels drop a last window that starts in the end padding; ONNX Runtime's
    shape inference counts it. There is at most one such window per axis.
    """
    if not declares_extra_window(node):
        return outputs_of(node)
    computed_count = tuple(axis.computed_count for axis in _axes(node))
    return tuple(replace(v, dims=(v.dims or ())[:2] + computed_count) for v in outputs_of(node))


def declares_extra_window(node: GraphNode) -> bool:
    """True if the pool's declared output counts windows that start beyond the last element."""
    return any(axis.has_extra_window for axis in _axes(node))


@frozen
class _Axis:
    """One spatial axis of a pool: input size, window count, stride and padding at the beginning."""

    size: Dim
    count: Dim
    stride: int
    pad_begin: int

    @property
    def has_extra_window(self) -> bool:
        """True if the last window is known to start beyond the last element."""
        if not isinstance(self.size, int) or not isinstance(self.count, int):
            return False
        return (self.count - 1) * self.stride >= self.size + self.pad_begin

    @property
    def computed_count(self) -> Dim:
        """The number of windows that are computed."""
        if isinstance(self.count, int) and self.has_extra_window:
            return self.count - 1
        return self.count


def _axes(node: GraphNode) -> tuple[_Axis, ...]:
    """The spatial axes of a pool with ceil_mode and known rank; () for any other node."""
    if node.op_type not in _POOLS or node.domain or not node.attributes.get("ceil_mode", 0):
        return ()
    given, x, y = node.attributes, node.inputs[:1], node.outputs[:1]
    if not x or not y or x[0] is None or y[0] is None or not (x[0].dims and y[0].dims):
        return ()
    sizes, counts = x[0].dims[2:], y[0].dims[2:]
    strides = _integers(given.get("strides"), (1,) * len(sizes))
    begins = _integers(given.get("pads"), (0,) * len(sizes))[: len(sizes)]
    return tuple(map(_Axis, sizes, counts, strides, begins))


def _integers(given: object, default: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(i) for i in given) if isinstance(given, tuple) else tuple(default)
