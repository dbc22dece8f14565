"""An NNAPI model as frozen data: operands, operations, inputs, outputs, by index as in the NDK."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.value import Array

if TYPE_CHECKING:
    from ep_nnapi.nnapi.signature import OperationSpec


@dataclass(frozen=True, slots=True)
class ChannelQuantization:
    """Scales along one dimension (ANeuralNetworksSymmPerChannelQuantParams)."""

    dim: int
    scales: tuple[float, ...]


class Lifetime(StrEnum):
    """Where an operand's value comes from."""

    INPUT = "input"
    OUTPUT = "output"
    TEMPORARY = "temporary"
    CONSTANT = "constant"
    NO_VALUE = "no value"
    SUBGRAPH = "subgraph"


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """A constant's raw bytes (a one-dimensional uint8 array, possibly a view); equal by content."""

    bytes: Array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and np.array_equal(self.bytes, other.bytes)

    def __hash__(self) -> int:
        return hash(self.bytes.size)

    @staticmethod
    def of(array: Array) -> Data:
        """The bytes of `array` in C order, without a copy where it is contiguous already."""
        return Data(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


class Omitted(StrEnum):
    """The value of an optional operand that is left out (set to null, length 0)."""

    NO_VALUE = "no value"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand.

    dimensions   sizes, 0 for unknown; () on a tensor means unknown rank; always () on a scalar
    channels     TENSOR_QUANT8_SYMM_PER_CHANNEL only
    value        constant data, left out, a referenced model, or None for what a run computes
    """

    type: OperandCode
    dimensions: tuple[int, ...] = ()
    scale: float = 0.0
    zero_point: int = 0
    channels: ChannelQuantization | None = None
    value: OperandValue = None

    @property
    def known(self) -> bool:
        """Whether every dimension is known."""
        return not self.type.tensor or (bool(self.dimensions) and 0 not in self.dimensions)

    @property
    def size(self) -> int:
        """Number of elements; meaningful when `known`."""
        return prod(self.dimensions)

    @property
    def array(self) -> Array:
        """A constant's value in its element type and shape (a view; a scalar has rank 0)."""
        if not isinstance(self.value, Data):
            raise ValueError(f"{self.type.name} operand has no constant value")
        flat = self.value.bytes.view(self.type.numpy)
        return flat.reshape(self.dimensions if self.type.tensor else ())


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its spec row and the indexes of its operands.

    origin   names of the ONNX nodes it came from; not part of what makes models equal
    """

    spec: OperationSpec
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origin: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Model:
    """Operations in an order in which they can run."""

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    relaxed: bool = False

    def lifetime(self, index: int) -> Lifetime:
        """Where the value of operand `index` comes from."""
        value = self.operands[index].value
        if isinstance(value, Data):
            return Lifetime.CONSTANT
        if isinstance(value, Model):
            return Lifetime.SUBGRAPH
        if value is not None:
            return Lifetime.NO_VALUE
        if index in self.inputs:
            return Lifetime.INPUT
        return Lifetime.OUTPUT if index in self.outputs else Lifetime.TEMPORARY


OperandValue: TypeAlias = Data | Omitted | Model | None
