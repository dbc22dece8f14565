"""Operands of shape inference: tensors with partly known shape and value, and scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from inspect import Parameter, signature
from typing import NamedTuple, TypeAlias

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import SpecError
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import operation_of

Dim: TypeAlias = int | None
Dims: TypeAlias = tuple[Dim, ...]
Scalar: TypeAlias = bool | int | float


class UnknownOperand(Exception):
    """A rank, size or value is unknown, so the outputs' shapes cannot be inferred."""


class ShapeError(SpecError):
    """Shapes or values of operands are invalid or inconsistent."""


@immutable
class Tensor:
    """A tensor in shape inference; its properties raise UnknownOperand if they are unknown.

    known   sizes, None for an unknown size; None if the rank is unknown
    data    the elements, None if unknown
    numbers  the same of integers, if some of them are a `Size`; else empty
    """

    known: Dims | None
    data: Array | None = None
    numbers: tuple[int, ...] = ()

    @staticmethod
    def of(array: Array, numbers: tuple[int, ...] = ()) -> Tensor:
        """A tensor of known shape and value."""
        return Tensor(array.shape, array, numbers)

    @property
    def dims(self) -> Dims:
        """Sizes, None for an unknown size; raises UnknownOperand if the rank is unknown."""
        if self.known is None:
            raise UnknownOperand
        return self.known

    @property
    def rank(self) -> int:
        """Number of dimensions; raises UnknownOperand if it is unknown."""
        return len(self.dims)

    @property
    def value(self) -> Array:
        """The elements; raises UnknownOperand if they are unknown."""
        if self.data is None:
            raise UnknownOperand
        return self.data

    @property
    def ints(self) -> tuple[int, ...]:
        """The elements of an integer tensor in row-major order; raises UnknownOperand."""
        return self.numbers or tuple(int(i) for i in self.value.reshape(-1))

    def size(self, dim: int) -> int:
        """The size of dimension `dim`; raises UnknownOperand if it is unknown."""
        size = self.dims[dim]
        if size is None:
            raise UnknownOperand
        return size


class Pending(Enum):
    """Placeholder for a scalar whose value is unknown."""

    PENDING = 0


ShapeOperand: TypeAlias = Tensor | Scalar | Pending | None
Operands: TypeAlias = Mapping[str, ShapeOperand | tuple[ShapeOperand, ...]]
Shapes: TypeAlias = Dims | list[Dims | None]
"""Dimensions of one output, or a list with those of several outputs."""
ShapeFunction: TypeAlias = Callable[..., Shapes]
ShapeFunctions: TypeAlias = dict[OperationSpec, ShapeFunction]
"""Shape functions by operation."""


class FunctionParameters(NamedTuple):
    """A function's parameter names, the required ones, and True if it has a `**` parameter."""

    names: frozenset[str]
    required: frozenset[str]
    everything: bool


@cache
def parameters_of(function: Callable[..., object]) -> FunctionParameters:
    """The operands that a function takes by their names."""
    parameters = signature(function).parameters.values()
    named = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    required = frozenset(p.name for p in named if p.default is Parameter.empty)
    return FunctionParameters(
        frozenset(p.name for p in named), required, len(named) < len(parameters)
    )


def by_name(*functions: ShapeFunction) -> ShapeFunctions:
    """The shape functions by NNAPI operation: `conv_2d` is that of CONV_2D."""
    return {operation_of(f): f for f in functions}


def axis_of(axis: int, rank: int) -> int:
    """Normalize a possibly negative `axis`; raises ShapeError if it is out of range."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


def axes_of(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Normalize axes as `axis_of` does; sorted, without duplicates."""
    return tuple(sorted({axis_of(a, rank) for a in axes}))


def require(condition: bool, message: str) -> None:
    """Raises ShapeError(message) unless `condition`."""
    if not condition:
        raise ShapeError(message)


def vector(tensor: Tensor) -> Dim:
    """The size of a tensor of rank 1; raises ShapeError for another rank."""
    require(tensor.rank == 1, f"a list has 1 dimension, not {tensor.rank}")
    return tensor.dims[0]


def unify(a: Dim, b: Dim) -> Dim:
    """Merge two sizes, either may be unknown; raises ShapeError if they differ."""
    if a is None or b is None or a == b:
        return b if a is None else a
    raise ShapeError(f"sizes {a} and {b} must be equal")
