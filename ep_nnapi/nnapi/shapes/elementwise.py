"""Shape inference for elementwise operations, with or without broadcasting."""

from __future__ import annotations

from functools import reduce
from inspect import signature
from itertools import zip_longest

from ep_nnapi.nnapi.shapes.operands import Dim, Dims, ShapeError, Table, Tensor, require, unify
from ep_nnapi.nnapi.spec import OPERATIONS


def same(input: Tensor) -> Dims:
    """The input's dimensions."""
    return input.dims


def broadcast(*tensors: Tensor) -> Dims:
    """Broadcast dimensions: aligned at the last axis; sizes that are 1 or missing repeat.

    Source: NDK ANEURALNETWORKS_ADD, "broadcasting".
    """
    ends = zip_longest(*[t.dims[::-1] for t in tensors], fillvalue=1)
    return tuple([_stretched(sizes) for sizes in ends][::-1])


def _stretched(sizes: tuple[Dim, ...]) -> Dim:
    known = {*sizes} - {1, None}
    if len(known) > 1:
        raise ShapeError(f"sizes {sorted(s for s in known if s is not None)} do not broadcast")
    if known:
        return known.pop()
    return None if None in sizes else 1


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
    """The common dimensions of all three inputs. Source: NDK ANEURALNETWORKS_SELECT."""
    require(condition.rank == input1.rank == input2.rank, "SELECT takes tensors of equal rank")
    sizes = zip(condition.dims, input1.dims, input2.dims, strict=True)
    return tuple(reduce(unify, each) for each in sizes)


_BY_OPERANDS = {tuple(signature(f).parameters): f for f in (same, binary, power, prelu, select)}
SHAPES: Table = {
    operation: _BY_OPERANDS[operation.traits.elementwise]
    for operation in OPERATIONS
    if operation.traits.elementwise
}
