"""A tensor of the graph: its name, element type, shape, quantization and constant data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ep_nnapi.errors import Reason, Reject

Array: TypeAlias = NDArray[Any]
Dim: TypeAlias = int | str | None  # a size, a symbolic dimension's name, or unknown


MAX_RANK = 4
"""What most NNAPI operations take. Source: NeuralNetworksTypes.h, "Supported tensor rank"."""

READABLE_RANK = 64
"""Dimensions that a numpy array can have; sizes of tensors with more are not read."""


def held(shape: Sequence[int]) -> tuple[int, ...]:
    """The sizes with which NNAPI holds a tensor of that shape: {1} for rank 0, flat above 4."""
    if len(shape) > MAX_RANK:
        return (prod(shape),)
    return tuple(shape) or (1,)


class DType(IntEnum):
    """Element types under ONNX's names and codes (TensorProto.DataType)."""

    UNDEFINED = 0  # not a tensor (a sequence, map or optional), or a type unknown here
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of one element; raises Reject(DTYPE) when numpy has none."""
        if self not in _NUMPY:
            raise Reject(Reason.DTYPE, f"{self.name} has no numpy type; use a standard type")
        return _NUMPY[self]

    @property
    def readable(self) -> bool:
        """Whether numpy has it, so that constants of it can be read."""
        return self in _NUMPY

    @staticmethod
    def of(dtype: np.dtype[Any]) -> DType:
        """The ONNX type of a numpy type."""
        return _FROM_NUMPY[dtype]


_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.FLOAT: np.dtype(np.float32),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT8: np.dtype(np.int8),
    DType.UINT16: np.dtype(np.uint16),
    DType.INT16: np.dtype(np.int16),
    DType.INT32: np.dtype(np.int32),
    DType.INT64: np.dtype(np.int64),
    DType.BOOL: np.dtype(np.bool_),
    DType.FLOAT16: np.dtype(np.float16),
    DType.DOUBLE: np.dtype(np.float64),
    DType.UINT32: np.dtype(np.uint32),
    DType.UINT64: np.dtype(np.uint64),
}
_FROM_NUMPY = {v: k for k, v in _NUMPY.items()}


@dataclass(frozen=True, slots=True)
class Quantization:
    """real = scale * (quantized - zero_point), per tensor or along `axis`."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @property
    def per_tensor(self) -> bool:
        """Whether one scale holds for the whole tensor."""
        return self.axis is None


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant data that is read only when the NNAPI model is written.

    `load()` returns the array; `shape` and `dtype` are known without it.
    """

    shape: tuple[int, ...]
    dtype: DType
    load: Callable[[], Array] = field(repr=False, compare=False)

    @staticmethod
    def of(array: Array) -> Constant:
        """A constant that holds `array` already."""
        return Constant(array.shape, DType.of(array.dtype), lambda: array)

    @property
    def array(self) -> Array:
        """The data, as the loader gives it (possibly a view)."""
        return self.load()

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def map(self, shape: Sequence[int], change: Callable[[Array], Array]) -> Constant:
        """The constant `change` makes of this one, lazily; `shape` is its result's."""
        return Constant(tuple(shape), self.dtype, lambda: change(self.load()))

    def cast(self, dtype: DType) -> Constant:
        """The same numbers as another element type, lazily."""
        to = dtype.numpy
        return Constant(self.shape, dtype, lambda: self.load().astype(to))

    def transposed(self, perm: Sequence[int]) -> Constant:
        """Axes permuted as numpy.transpose does, lazily."""
        axes = tuple(perm)
        return self.map([self.shape[i] for i in axes], lambda a: a.transpose(axes))

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """The same elements in another shape (no -1), lazily."""
        to = tuple(shape)
        return self.map(to, lambda a: a.reshape(to))


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor by name. Asking is checking: `shape` rejects unless every dimension is known.

    settled   a node computes it, and its constant is what that gives for the sizes at hand
    fits      it is INT64, and INT32 has all its numbers
    sized_by  the node that must have run before its sizes are known, "" for none
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...] | None = None
    quantization: Quantization | None = None
    constant: Constant | None = field(default=None, compare=False)
    settled: bool = field(default=False, compare=False)
    fits: bool = field(default=False, compare=False)
    sized_by: str = field(default="", compare=False)

    @property
    def rank(self) -> int:
        """Number of dimensions; raises Reject(SHAPE) when unknown."""
        if self.dims is None:
            raise self._unsized("has no shape; state it in the model")
        return len(self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes; raises Reject(SHAPE) that names the first dimension that is not known."""
        shape = []
        for i in range(self.rank):
            dim = self.dims[i] if self.dims else None
            if not isinstance(dim, int):
                called = f"'{dim}'" if dim else "unknown"
                raise self._unsized(f"dimension {i} is {called}; fix it to a number")
            shape.append(dim)
        return tuple(shape)

    def _unsized(self, what: str) -> Reject:
        if self.sized_by:
            what = f"has a size that is known once {self.sized_by} has run; NNAPI wants it before"
        return Reject(Reason.SHAPE, f"{self.name} {what}")

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)
