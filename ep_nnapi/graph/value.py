"""Tensors of a graph: name, element type, shape, quantization and constant data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from enum import IntEnum
from functools import lru_cache
from math import isfinite, prod
from typing import Any, TypeAlias

import numpy as np

from ep_nnapi.errors import FIX_ADVICE
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.sizes import Size, at_present, objects, plain

Dim: TypeAlias = int | str | None  # a size, a symbolic dimension's name, or unknown


MAX_RANK = 4
"""Maximum rank of most NNAPI operations.

Source: NeuralNetworksTypes.h, "Supported tensor rank"."""

MAX_NUMPY_RANK = 64
"""Maximum rank of a numpy array; the sizes of tensors of higher rank are not read."""


def operand_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the NNAPI operand for a tensor: (1,) for rank 0, flattened above rank 4."""
    if len(shape) > MAX_RANK:
        return (prod(shape),)
    return tuple(shape) or (1,)


def require_finite(number: float, dtype: np.dtype[Any], name: str) -> None:
    """Raises Reject(ATTRIBUTE) if `number` is finite, but infinite in the float type `dtype`."""
    if dtype.kind == "f" and isfinite(number) and abs(number) > float(np.finfo(dtype).max):
        raise Reject(Reason.ATTRIBUTE, f"{name} is {number:g}, too large for {dtype.name}")


class DType(IntEnum):
    """Element types with ONNX's names and codes (TensorProto.DataType)."""

    UNDEFINED = 0  # not a tensor (a sequence, map or optional), or an unknown type
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
        """The numpy type of one element; raises Reject(DTYPE) if numpy has none."""
        if self not in _NUMPY:
            raise Reject(Reason.DTYPE, f"{self.name} has no numpy type; use a standard type")
        return _NUMPY[self]

    @property
    def readable(self) -> bool:
        """True if numpy has the type, so that constants of it can be read."""
        return self in _NUMPY

    @property
    def widened(self) -> DType:
        """INT8 or UINT8 for 4 bits, as which constants of these are read; else the type itself."""
        return {DType.INT4: DType.INT8, DType.UINT4: DType.UINT8}.get(self, self)

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
ITEM_BYTES = {kind: _NUMPY[kind].itemsize if kind.readable else 1 for kind in DType}
"""Bytes of one element; 1 for a type that numpy does not have."""


@immutable
class Quantization:
    """Quantization parameters: real = scale * (quantized - zero_point), per tensor or `axis`.

    scale, zero_point   one element per tensor, or one per index along `axis`
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @property
    def per_tensor(self) -> bool:
        """True for one scale for the whole tensor."""
        return self.axis is None


@immutable
class Recipe:
    """How a large constant is made of small ones: by `of` from their arrays."""

    sources: tuple[Constant, ...]
    of: Callable[[Sequence[Array]], Array]

    @property
    def arrays(self) -> list[Array]:
        """The arrays of the sources."""
        return [source.array for source in self.sources]


@immutable
class Constant:
    """Constant data, loaded only when the NNAPI model is built.

    `load()` returns the array; `shape` and `dtype` are known without loading it.

    numbers   its elements, which are integers, if some of them are a `Size`; else empty
    owned     True if the array, once loaded, lives as long as whoever reads it
    recipe    what it is made of, if it is much larger: models make it only when it is read
    packed    its type in the ONNX model, if that has fewer bits
    """

    shape: tuple[int, ...]
    dtype: DType
    load: Callable[[], Array] = field(repr=False, compare=False)
    numbers: tuple[int, ...] = field(default=(), repr=False, compare=False)
    owned: bool = field(default=False, repr=False, compare=False)
    recipe: Recipe | None = field(default=None, repr=False, compare=False)
    packed: DType | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def made(shape: Sequence[int], dtype: DType, recipe: Recipe) -> Constant:
        """Returns a constant that is made of others when it is read."""
        return Constant(tuple(shape), dtype, lambda: recipe.of(recipe.arrays), recipe=recipe)

    @staticmethod
    def of(array: Array) -> Constant:
        """Returns a constant of an array in memory."""
        return Constant(array.shape, DType.of(array.dtype), lambda: array)

    @staticmethod
    def of_sizes(numbers: Sequence[int], shape: Sequence[int], dtype: DType) -> Constant:
        """Returns a constant of integers, of which some may be a `Size`."""
        if {*map(type, numbers)} <= {int} and len(numbers) <= _SHORT:
            return _integers(tuple(numbers), tuple(shape), dtype)
        values = [*map(at_present, numbers)]
        array = np.array(values, dtype.numpy).reshape(shape)
        sized = any(isinstance(number, Size) for number in numbers)
        return Constant(array.shape, dtype, lambda: array, tuple(numbers) if sized else ())

    @property
    def array(self) -> Array:
        """The data as loaded (possibly a view); sizes become the numbers that they are."""
        plain(self.numbers)
        plain(self.shape)
        return self.load()

    @property
    def integers(self) -> tuple[int, ...]:
        """Its elements as integers, in order; some may be a `Size`."""
        return self.numbers or tuple([int(i) for i in self.array.reshape(-1)])

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def map(self, shape: Sequence[int], change: Callable[[Array], Array]) -> Constant:
        """Applies `change` lazily; `shape` is the shape of its result."""
        if self.numbers:
            moved = change(objects(self.numbers).reshape(self.shape))
            return Constant.of_sizes(moved.reshape(-1).tolist(), shape, self.dtype)
        if self.recipe:
            sources, make = self.recipe.sources, self.recipe.of
            return Constant.made(shape, self.dtype, Recipe(sources, lambda a: change(make(a))))
        return Constant(tuple(shape), self.dtype, lambda: change(self.array), owned=self.owned)

    def cast(self, dtype: DType) -> Constant:
        """Converts the elements to another type, lazily."""
        to = dtype.numpy
        if self.numbers and to.kind == "i":
            return Constant.of_sizes(self.numbers, self.shape, dtype)
        return Constant(self.shape, dtype, lambda: self.array.astype(to), owned=self.owned)

    def transposed(self, perm: Sequence[int]) -> Constant:
        """Permutes the axes as numpy.transpose does, lazily."""
        axes = tuple(perm)
        return self.map([self.shape[i] for i in axes], lambda a: a.transpose(axes))

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """Reshapes the constant (no -1), lazily."""
        to = tuple(shape)
        return self.map(to, lambda a: a.reshape(to))


_SHORT = 8
"""Most integers of a list that is kept to be used again: an axis, a shape, a permutation."""


@lru_cache(1 << 10)
def _integers(numbers: tuple[int, ...], shape: tuple[int, ...], dtype: DType) -> Constant:
    array = np.array(numbers, dtype.numpy).reshape(shape)
    array.flags.writeable = False  # it is shared
    return Constant(array.shape, dtype, lambda: array)


def only_element(constant: Constant, name: str) -> float:
    """Returns the element of a constant; raises Reject(SHAPE) if it has none or several."""
    if prod(constant.shape) != 1:
        shape = list(constant.shape)
        raise Reject(Reason.SHAPE, f"{name} has shape {shape}; it must be one number")
    if constant.numbers:
        return constant.numbers[0]
    element: float = constant.array.item()
    return element


_NO_RANK = f"has an unknown rank; declare its shape in the model, or {FIX_ADVICE}"


@immutable
class Value:
    """A named tensor. `shape` and `rank` raise Reject(SHAPE) if a dimension or the rank is unknown.

    folded          True if `constant` is a node's output folded for the current input sizes
    fits_int32      True for an INT64 tensor whose elements all fit INT32
    magnitude       no element of an INT64 tensor is further from 0, if that is known
    single          what each element of an INT64 tensor is, if that is known
    limit           `magnitude` as supposed: clusters that it enters check it in each run; 0: none
    shape_producer  the node whose run determines its data-dependent shape, "" for none
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...] | None = None
    quantization: Quantization | None = None
    constant: Constant | None = field(default=None, compare=False)
    folded: bool = field(default=False, compare=False)
    fits_int32: bool = field(default=False, compare=False)
    magnitude: int | None = field(default=None, compare=False)
    single: int | None = field(default=None, compare=False)
    limit: int = field(default=0, compare=False)
    shape_producer: str = field(default="", compare=False)
    _shape: tuple[int, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @staticmethod
    def of(name: str, constant: Constant) -> Value:
        """Returns a value for a constant."""
        return Value(name, constant.dtype, constant.shape, constant=constant)

    @property
    def rank(self) -> int:
        """Number of dimensions; raises Reject(SHAPE) if unknown."""
        if self.dims is None:
            raise self._unknown(_NO_RANK)
        return len(self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape; raises Reject(SHAPE) that names the first unknown dimension."""
        if self._shape is not None:  # lowerings ask again and again
            return self._shape
        if self.dims is None:
            raise self._unknown(_NO_RANK)
        for dim in self.dims:
            if not isinstance(dim, int):
                called = f"'{dim}'" if dim else "unknown"
                index = self.dims.index(dim)
                raise self._unknown(f"dimension {index} is {called}; {FIX_ADVICE}")
        object.__setattr__(self, "_shape", self.dims)
        return self.dims  # type: ignore[return-value]  # each is an integer

    def _unknown(self, what: str) -> Reject:
        if self.shape_producer:
            what = f"has a data-dependent shape, produced by {self.shape_producer}"
        return Reject(Reason.SHAPE, f"{self.name} {what}")

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)
