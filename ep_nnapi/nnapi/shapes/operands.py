"""Operands as shape functions see them: what is known of a tensor, and what is not yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ep_nnapi.errors import SpecError
from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.signature import OperationSpec

Dim: TypeAlias = int | None
Dims: TypeAlias = tuple[Dim, ...]
Scalar: TypeAlias = bool | int | float


class Unknown(Exception):
    """A rank or value that is not known yet, so neither are the outputs' shapes."""


class ShapeError(SpecError):
    """Operands whose shapes or values do not fit one another."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """What is known of a tensor. Asking is checking: `dims` and `value` raise Unknown.

    known   sizes, None for one that is unknown; None: not even the rank is known
    data    the elements, when they are known
    """

    known: Dims | None
    data: Array | None = None

    @staticmethod
    def of(array: Array) -> Tensor:
        """A tensor of which everything is known."""
        return Tensor(array.shape, array)

    @property
    def dims(self) -> Dims:
        """Sizes; raises Unknown when the rank is unknown."""
        if self.known is None:
            raise Unknown
        return self.known

    @property
    def rank(self) -> int:
        """Number of dimensions; raises Unknown."""
        return len(self.dims)

    @property
    def value(self) -> Array:
        """The elements; raises Unknown."""
        if self.data is None:
            raise Unknown
        return self.data

    @property
    def ints(self) -> tuple[int, ...]:
        """The elements of a tensor of integers, in order; raises Unknown."""
        return tuple(int(i) for i in self.value.reshape(-1))

    def size(self, dim: int) -> int:
        """The size of one dimension; raises Unknown."""
        size = self.dims[dim]
        if size is None:
            raise Unknown
        return size


class Pending(Enum):
    """A scalar whose value is not known yet."""

    PENDING = 0


Operand: TypeAlias = Tensor | Scalar | Pending | None
Operands: TypeAlias = Mapping[str, Operand | tuple[Operand, ...]]
Shapes: TypeAlias = Dims | list[Dims | None]
"""One output's dimensions, or a list of several outputs'."""
Table: TypeAlias = dict[OperationSpec, Callable[..., Shapes]]
"""The functions of a family by operation."""


def axis_of(axis: int, rank: int) -> int:
    """`axis`, counted from the end when negative, as an index; raises ShapeError beyond `rank`."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank


def axes_of(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Different axes, in increasing order, each as `axis_of`."""
    return tuple(sorted({axis_of(a, rank) for a in axes}))


def require(condition: bool, message: str) -> None:
    """Raises ShapeError(message) unless `condition`."""
    if not condition:
        raise ShapeError(message)


def unify(a: Dim, b: Dim) -> Dim:
    """The one size that both are, either of which may be unknown; raises ShapeError."""
    require(a is None or b is None or a == b, f"sizes {a} and {b} must be equal")
    return b if a is None else a
