"""Shape inference by traits: elementwise operations, reductions; and of normalizations."""

from __future__ import annotations

from functools import reduce
from inspect import signature
from itertools import zip_longest
from types import NoneType
from typing import cast

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes.operands import (
    Dim,
    Dims,
    ShapeError,
    ShapeFunction,
    ShapeFunctions,
    Tensor,
    axes_of,
    axis_of,
    require,
    unify,
)
from ep_nnapi.nnapi.signature import AxisUse
from ep_nnapi.nnapi.sizes import broadcast as broadcast_sizes
from ep_nnapi.nnapi.spec import OPERATIONS


def same(input: Tensor) -> Dims:
    """The input's dimensions."""
    return input.dims


def broadcast(*tensors: Tensor) -> Dims:
    """Broadcast dimensions: aligned at the last axis; sizes that are 1 or missing repeat.

    Source: NDK ANEURALNETWORKS_ADD, "broadcasting".
    """
    if not any(NoneType in map(type, tensor.dims) for tensor in tensors):
        return _known(*[tensor.dims for tensor in tensors])
    ends = zip_longest(*[t.dims[::-1] for t in tensors], fillvalue=1)
    return tuple([_stretched(sizes) for sizes in ends][::-1])


def _stretched(sizes: tuple[Dim, ...]) -> Dim:
    known = [size for size in sizes if size is not None]
    (found,) = _known(*[(size,) for size in known]) or (1,)
    return None if len(known) < len(sizes) and found == 1 else found


def _known(*shapes: Dims) -> tuple[int, ...]:
    try:
        return broadcast_sizes(*cast("tuple[tuple[int, ...], ...]", shapes))
    except ValueError as error:
        raise ShapeError(str(error)) from None


def binary(input1: Tensor, input2: Tensor) -> Dims:
    """Broadcast dimensions of both inputs."""
    return broadcast(input1, input2)


def power(base: Tensor, exponent: Tensor) -> Dims:
    """Broadcast dimensions of both inputs."""
    return broadcast(base, exponent)


def prelu(input: Tensor, alpha: Tensor) -> Dims:
    """Broadcast dimensions of input and slopes."""
    return broadcast(input, alpha)


def select(condition: Tensor, input1: Tensor, input2: Tensor) -> Dims:
    """The common dimensions of all three inputs."""
    require(condition.rank == input1.rank == input2.rank, "SELECT takes tensors of equal rank")
    sizes = zip(condition.dims, input1.dims, input2.dims, strict=True)
    return tuple(reduce(unify, each) for each in sizes)


def reduced(input: Tensor, axes: Tensor, keep_dims: int) -> Dims:
    """Reduced axes have size 1 if `keep_dims` is positive, else are removed; at least [1] remains.

    Source: NDK ANEURALNETWORKS_MEAN, REDUCE_SUM and other REDUCE_* operations.
    """
    along = axes_of(axes.ints, input.rank)
    if keep_dims > 0:
        return tuple(1 if i in along else size for i, size in enumerate(input.dims))
    return tuple(size for i, size in enumerate(input.dims) if i not in along) or (1,)


def without_axis(input: Tensor, axis: int) -> Dims:
    """The input's dimensions without `axis`; at least [1] remains.

    Source: NDK ANEURALNETWORKS_ARGMAX, ARGMIN.
    """
    at = axis_of(axis, input.rank)
    require(input.dims[at] != 0, f"axis {axis} has no elements")
    return (*input.dims[:at], *input.dims[at + 1 :]) or (1,)


def normalized(input: Tensor, axis: int = -1) -> Dims:
    """The input's dimensions; raises ShapeError if `axis` is out of range."""
    axis_of(axis, input.rank)
    return input.dims


_BY_OPERANDS: dict[tuple[str, ...], ShapeFunction] = {
    tuple(signature(f).parameters): f for f in (same, binary, power, prelu, select)
}
_BY_AXIS_USE: dict[AxisUse | None, ShapeFunction] = {
    AxisUse.REDUCED: reduced,
    AxisUse.REMOVED: without_axis,
}
_NORMALIZED = (
    spec.L2_NORMALIZATION,
    spec.LOCAL_RESPONSE_NORMALIZATION,
    spec.LOG_SOFTMAX,
    spec.SOFTMAX,
)
SHAPES: ShapeFunctions = {
    **{o: _BY_OPERANDS[o.traits.elementwise] for o in OPERATIONS if o.traits.elementwise},
    **{o: _BY_AXIS_USE[o.traits.axis] for o in OPERATIONS if o.traits.axis in _BY_AXIS_USE},
    **dict.fromkeys(_NORMALIZED, normalized),
    spec.INSTANCE_NORMALIZATION: same,
}
