"""Shape inference for reductions along axes."""

from __future__ import annotations

from collections.abc import Callable

from ep_nnapi.nnapi.shapes.operands import Dims, Table, Tensor, axes_of, axis_of, require
from ep_nnapi.nnapi.spec import OPERATIONS
from ep_nnapi.nnapi.traits import AxisUse


def reduce(input: Tensor, axes: Tensor, keep_dims: int) -> Dims:
    """Reduced axes have size 1 if `keep_dims` is positive, else are removed; at least [1] remains.

    Source: NDK ANEURALNETWORKS_MEAN, REDUCE_SUM and other REDUCE_* operations.
    """
    reduced = axes_of(axes.ints, input.rank)
    if keep_dims > 0:
        return tuple(1 if i in reduced else size for i, size in enumerate(input.dims))
    return tuple(size for i, size in enumerate(input.dims) if i not in reduced) or (1,)


def arg(input: Tensor, axis: int) -> Dims:
    """The input's dimensions without `axis`; at least [1] remains.

    Source: NDK ANEURALNETWORKS_ARGMAX, ARGMIN.
    """
    at = axis_of(axis, input.rank)
    require(input.dims[at] != 0, f"axis {axis} has no elements")
    return (*input.dims[:at], *input.dims[at + 1 :]) or (1,)


_BY_AXIS_USE: dict[AxisUse | None, Callable[..., Dims]] = {
    AxisUse.REDUCED: reduce,
    AxisUse.REMOVED: arg,
}
SHAPES: Table = {
    operation: _BY_AXIS_USE[operation.traits.axis]
    for operation in OPERATIONS
    if operation.traits.axis in _BY_AXIS_USE
}
