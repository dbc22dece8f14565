"""An NNAPI model as frozen data: operands, operations, inputs, outputs, by index as in the NDK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.codes import OperandCode

if TYPE_CHECKING:
    from ep_nnapi.nnapi.signature import Match, OperationSpec


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
        """Of a few bytes from all over: what is not equal seldom has to be compared."""
        return hash((self.bytes.size, self.bytes[:: self.bytes.size // 1024 + 1].tobytes()))

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
class TypedOperand:
    """An operand of a model as a signature sees it."""

    operand: Operand
    index: int

    @property
    def rank(self) -> int | None:
        """None: unknown; 0 for scalars."""
        return len(self.operand.dimensions) or (None if self.operand.type.tensor else 0)

    @property
    def omitted(self) -> bool:
        """Whether it has no value."""
        return isinstance(self.operand.value, Omitted)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes, 0 for unknown; () for unknown rank and scalars."""
        return self.operand.dimensions

    @property
    def scale(self) -> float:
        """Scale of the whole tensor; 0: none."""
        return self.operand.scale

    @property
    def zero_point(self) -> int:
        """Zero point of the whole tensor."""
        return self.operand.zero_point

    @property
    def channel_dim(self) -> int | None:
        """The dimension along which scales differ; None: no such scales."""
        return self.operand.channels.dim if self.operand.channels else None

    def fits(self, code: OperandCode) -> bool:
        """Whether it is an operand of that type."""
        return self.operand.type is code

    def describe(self) -> str:
        """Index and type: "operand 3 is TENSOR_FLOAT16"."""
        return f"operand {self.index} is {self.operand.type.name}"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its spec row and the indexes of its operands.

    origin   names of the ONNX nodes it came from; not part of what makes models equal
    """

    spec: OperationSpec
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origin: tuple[str, ...] = field(default=(), compare=False)

    def match(self, operands: Sequence[Operand], feature_level: int) -> Match:
        """What the operation is among `operands` at that level; raises Reject as its spec row."""
        return self.spec.match(
            [TypedOperand(operands[i], i) for i in self.inputs],
            [TypedOperand(operands[i], i) for i in self.outputs],
            feature_level,
        )


@dataclass(frozen=True, slots=True)
class Model:
    """Operations in an order in which they can run."""

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    relaxed: bool = False

    @property
    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Where each operand's value comes from."""
        computed = {
            **dict.fromkeys(self.outputs, Lifetime.OUTPUT),
            **dict.fromkeys(self.inputs, Lifetime.INPUT),
        }
        return tuple(
            computed.get(index, Lifetime.TEMPORARY) if o.value is None else _lifetime(o.value)
            for index, o in enumerate(self.operands)
        )


def _lifetime(value: Data | Omitted | Model) -> Lifetime:
    """Where a value comes from that no run computes."""
    if isinstance(value, Data):
        return Lifetime.CONSTANT
    return Lifetime.SUBGRAPH if isinstance(value, Model) else Lifetime.NO_VALUE


OperandValue: TypeAlias = Data | Omitted | Model | None
