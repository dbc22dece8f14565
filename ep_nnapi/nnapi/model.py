"""NNAPI models as immutable data: operands, operations, inputs, outputs, indexed as in the NDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode, OperandCode
from ep_nnapi.nnapi.expressions import Condition, Expression, Symbols
from ep_nnapi.nnapi.immutable import frozen, immutable, replace
from ep_nnapi.nnapi.sizes import Size, at_present, bound

if TYPE_CHECKING:
    from ep_nnapi.nnapi.signature import Match, OperationSpec


@frozen
class ChannelQuantization:
    """Per-channel scales along one dimension (ANeuralNetworksSymmPerChannelQuantParams)."""

    dim: int
    scales: tuple[float, ...]


class Lifetime(StrEnum):
    """Source of an operand's value: model input, constant, operation and so on."""

    INPUT = "input"
    OUTPUT = "output"
    TEMPORARY = "temporary"
    CONSTANT = "constant"
    NO_VALUE = "no value"
    SUBGRAPH = "subgraph"


_SAMPLED = 8
"""Bytes of a constant that are hashed, as it may be large."""


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """A constant: its bytes, or its elements in another order of memory; equal by content.

    One that is made when it is first read is equal to itself alone.

    source    a one-dimensional uint8 array, possibly a view, or the elements in their shape; or
              what makes the elements when they are first read
    numbers   its elements, which are integers, if some of them are a `Size`; else empty
    later     the number of bytes, if the elements are made when they are first read; else 0
    number    the only element, if that is known without reading it
    """

    source: Array | Callable[[], Array]
    numbers: tuple[int, ...] = ()
    later: int = 0
    number: float | None = None

    @property
    def stored(self) -> Array:
        """The array; makes it if it is not there yet."""
        source = self.source
        if isinstance(source, np.ndarray):
            return source
        made = Data.of(source()).stored
        object.__setattr__(self, "source", made)
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Data):
            return False
        if self.later or other.later:
            return self is other
        a, b = self.stored, other.stored
        if a.dtype != b.dtype or a.shape != b.shape:
            a, b = self.bytes, other.bytes
        bits = f"u{a.itemsize}"  # NaN is equal to itself, and 0 is not -0
        if a is not b and not np.array_equal(a.view(bits), b.view(bits)):
            return False
        return [*map(Expression.of, self.numbers)] == [*map(Expression.of, other.numbers)]

    def __hash__(self) -> int:
        """Hash a sample of the bytes, so that hashing large constants is fast.

        Elements that are made when they are read are equal to themselves alone.
        """
        if self.later:
            return object.__hash__(self)
        stored = self.stored
        size, step = stored.nbytes, stored.nbytes // _SAMPLED + 1
        if stored.ndim == 1:
            return hash((size, stored.view(np.uint8)[::step].tobytes()))
        return hash((size, bytes(map(self._byte, range(0, size, step)))))

    def _byte(self, place: int) -> int:
        """The byte of the elements in C order at that place."""
        n, at = divmod(place, self.stored.itemsize)
        index: list[int] = []
        for size in reversed(self.stored.shape):
            n, i = divmod(n, size)
            index.append(i)
        return int(self.stored[tuple(index[::-1])].tobytes()[at])

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.later or self.stored.nbytes

    @property
    def bytes(self) -> Array:
        """The bytes of the elements in C order; copies elements in another order, once."""
        stored = self.stored
        if stored.ndim != 1 or stored.dtype != np.uint8:
            stored = Data.of(stored).stored
            object.__setattr__(self, "source", stored)
        return stored

    @staticmethod
    def of(array: Array) -> Data:
        """The bytes of `array` in C order; copies only if it is not contiguous."""
        return Data(np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    @staticmethod
    def of_number(number: float, dtype: np.dtype[np.generic]) -> Data:
        """The bytes of a number, rounded to this type."""
        array = np.array((number,), dtype)
        return Data(array.view(np.uint8), number=array.item())

    @staticmethod
    def of_sizes(numbers: Sequence[int], dtype: np.dtype[np.generic]) -> Data:
        """The bytes of integers of this type, of which some may be a `Size`."""
        values = [*map(at_present, numbers)]
        sized = Size in map(type, numbers)
        return Data(np.array(values, dtype).view(np.uint8), tuple(numbers) if sized else ())

    def bind(self, symbols: Symbols, dtype: np.dtype[np.generic]) -> Data:
        """The data of this type with numbers for its sizes."""
        return Data.of_sizes(bound(self.numbers, symbols), dtype) if self.numbers else self


class Omitted(StrEnum):
    """The value of an omitted optional operand (setOperandValue with null and length 0)."""

    NO_VALUE = "no value"


@immutable
class Operand:
    """One operand.

    dimensions   sizes, 0 if unknown; () for a tensor of unknown rank and for every scalar
    channels     per-channel scales, for TENSOR_QUANT8_SYMM_PER_CHANNEL only
    value        constant data, omitted, a submodel, or None for model inputs and computed values
    """

    type: OperandCode
    dimensions: tuple[int, ...] = ()
    scale: float = 0.0
    zero_point: int = 0
    channels: ChannelQuantization | None = None
    value: OperandValue = None

    @property
    def known(self) -> bool:
        """True if rank and every dimension are known."""
        return not self.type.tensor or (bool(self.dimensions) and 0 not in self.dimensions)

    @property
    def size(self) -> int:
        """Number of elements; valid only if `known`."""
        return prod(self.dimensions)

    @property
    def quantization(self) -> tuple[float, int]:
        """Scale and zero point."""
        return self.scale, self.zero_point

    @property
    def array(self) -> Array:
        """A constant's value with its element type and shape (a view; rank 0 for a scalar)."""
        if not isinstance(self.value, Data):
            raise ValueError(f"{self.type.name} operand has no constant value")
        flat = self.value.bytes.view(self.type.numpy)
        return flat.reshape(self.dimensions if self.type.tensor else ())

    @property
    def elements(self) -> Array:
        """The same, in any order of memory: what is transposed again need not be copied."""
        stored = self.value.stored if isinstance(self.value, Data) else None
        if stored is None or (stored.dtype, stored.shape) != (self.type.numpy, self.dimensions):
            return self.array
        return stored

    @property
    def item(self) -> bool | int | float:
        """The only element of a constant; raises ValueError if it has more or none."""
        if not isinstance(self.value, Data):
            raise ValueError(f"{self.type.name} operand has no constant value")
        if self.value.number is not None:
            return self.value.number
        if self.value.numbers:
            return self.value.numbers[0]
        element: bool | int | float = self.value.bytes.view(self.type.numpy).item()
        return element

    def opened(self) -> Operand:
        """The operand with 0, an unknown dimension, for each of its sizes that is no number."""
        if not any(isinstance(d, Size) for d in self.dimensions):
            return self
        return replace(
            self, dimensions=tuple(0 if isinstance(d, Size) else d for d in self.dimensions)
        )

    def bind(self, symbols: Symbols) -> Operand:
        """The operand with numbers for its sizes."""
        value = self.value
        if isinstance(value, Data):
            value = value.bind(symbols, self.type.numpy)
        dimensions = bound(self.dimensions, symbols)
        if value is self.value and not any(isinstance(d, Size) for d in self.dimensions):
            return self
        return replace(self, dimensions=dimensions, value=value)


@dataclass(slots=True)  # not frozen: thousands are created, which would take three times as long
class TypedOperand:
    """Adapter from a model's operand to the `Typed` interface of signatures."""

    operand: Operand
    index: int

    @property
    def kind(self) -> object:
        """The operand type, in a tuple if the operand is omitted."""
        operand = self.operand
        return (operand.type,) if isinstance(operand.value, Omitted) else operand.type

    @property
    def rank(self) -> int | None:
        """Rank: 0 for scalars, None if unknown."""
        return len(self.operand.dimensions) or (None if self.operand.type.tensor else 0)

    @property
    def omitted(self) -> bool:
        """True if the operand is an omitted optional one."""
        return isinstance(self.operand.value, Omitted)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes, 0 if unknown; () for unknown rank and for scalars."""
        return self.operand.dimensions

    @property
    def scale(self) -> float:
        """Per-tensor scale; 0 if there is none."""
        return self.operand.scale

    @property
    def zero_point(self) -> int:
        """Per-tensor zero point; 0 if there is none."""
        return self.operand.zero_point

    @property
    def channel_dim(self) -> int | None:
        """Axis of per-channel scales; None if not quantized per channel."""
        return self.operand.channels.dim if self.operand.channels else None

    def fits(self, code: OperandCode) -> bool:
        """Return True if its type is `code`."""
        return self.operand.type is code

    def describe(self) -> str:
        """Index and type for a message, such as "operand 3 is TENSOR_FLOAT16"."""
        return f"operand {self.index} is {self.operand.type.name}"


@immutable
class Operation:
    """One operation: its spec row and the indexes of its operands.

    origin   names of the ONNX nodes it came from; ignored when models are compared
    """

    spec: OperationSpec
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origin: tuple[str, ...] = field(default=(), compare=False)

    def match(self, operands: Sequence[Operand], feature_level: int) -> Match:
        """The signature matched at `feature_level`; raises Reject as `OperationSpec.match` does."""
        return self.spec.match(
            [TypedOperand(operands[i], i) for i in self.inputs],
            [TypedOperand(operands[i], i) for i in self.outputs],
            feature_level,
        )


@immutable
class CompositePort:
    """A tensor of a composite.

    operand   index of an operand, or a constant that the members lack
    perm      axis i of the operand is axis perm[i] of the tensor
    shape     the tensor's sizes, to which it is reshaped after that; () for a number
    """

    operand: int | Operand
    perm: tuple[int, ...]
    shape: tuple[int, ...]

    def bind(self, symbols: Symbols) -> CompositePort:
        """The port with numbers for its sizes."""
        held = self.operand if isinstance(self.operand, int) else self.operand.bind(symbols)
        return CompositePort(held, self.perm, bound(self.shape, symbols))


@immutable
class Composite:
    """Operations that compute one operator together; a device computes either it or them.

    name        of the ONNX operator, after its domain and a colon if that is not ai.onnx
    since       version of the operator's schema
    inputs      the operator's tensors in its order; None for omitted ones
    outputs     the same; None also for those that no operation reads
    attributes  numbers, texts and tuples of them by name
    members     indexes of the operations, ascending; nothing else reads what only they compute
    activation  fused into the first output
    """

    name: str
    since: int
    inputs: tuple[CompositePort | None, ...]
    outputs: tuple[CompositePort | None, ...]
    attributes: Mapping[str, AttributeValue] = field(hash=False)
    members: tuple[int, ...]
    activation: FuseCode = FuseCode.NONE

    def bind(self, symbols: Symbols) -> Composite:
        """The composite with numbers for its sizes."""
        return replace(
            self,
            inputs=tuple(p and p.bind(symbols) for p in self.inputs),
            outputs=tuple(p and p.bind(symbols) for p in self.outputs),
            attributes={name: _bound(a, symbols) for name, a in self.attributes.items()},
        )


@immutable
class Requirements:
    """The feature level that a model needs, and the nesting depth of its submodels."""

    level: int
    depth: int


@immutable
class Model:
    """NNAPI model; inputs, outputs and operations refer to operands by index.

    Its dimensions and integers may be a `Size`: then it is a model for those sizes now, and `bind`
    makes it one for others that meet the conditions.

    conditions  of the symbols of its sizes
    contents    of its last inputs, as many as these: integers of which some are a `Size`; no
                operation reads these inputs
    composites  what groups of operations compute together; ignored when models are compared
    checked     True if known sizes of all operands are those that shape inference gives, and no
                operation takes memory out of proportion
    validated   what a valid model requires, as found by `validate`; empty before
    """

    operands: tuple[Operand, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    relaxed: bool = False
    composites: tuple[Composite, ...] = field(default=(), compare=False)
    conditions: tuple[Condition, ...] = field(default=(), compare=False)
    contents: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    checked: bool = field(default=False, repr=False, compare=False)
    validated: list[Requirements] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    _matches: dict[int, Match] = field(default_factory=dict, init=False, repr=False, compare=False)

    def bind(self, symbols: Symbols) -> Model:
        """The model with numbers for its sizes; raises ValueError if a condition does not hold."""
        for condition in self.conditions:
            if not condition.holds(symbols):
                raise ValueError(f"{condition} does not hold for {dict(symbols)}")
        return replace(
            self,
            operands=tuple(o.bind(symbols) for o in self.operands),
            composites=tuple(c.bind(symbols) for c in self.composites),
            conditions=(),
            contents=(),
        )

    def match(self, operation: int, feature_level: int) -> Match:
        """The signature of an operation by index, as `Operation.match`, found once for a model."""
        found = self._matches.get(operation)
        if found is None or found.level > feature_level:
            found = self.operations[operation].match(self.operands, feature_level)
            self._matches[operation] = found
        return found

    def set_matches(self, found: Sequence[Match]) -> None:
        """Set the signatures of all operations to those for operands of the same types."""
        self._matches.update(enumerate(found))

    def with_matches(self, of: Model, before: int = 0) -> Model:
        """The model itself, with the signatures of one whose operations it has after `before`."""
        self._matches.update({before + n: match for n, match in of._matches.items()})
        return self

    @property
    def lifetimes(self) -> tuple[Lifetime, ...]:
        """Lifetime of each operand: the source of its value."""
        computed = {
            **dict.fromkeys(self.outputs, Lifetime.OUTPUT),
            **dict.fromkeys(self.inputs, Lifetime.INPUT),
        }
        return tuple(
            computed.get(i, Lifetime.TEMPORARY) if o.value is None else _LIFETIMES[type(o.value)]
            for i, o in enumerate(self.operands)
        )


def _bound(attribute: AttributeValue, symbols: Symbols) -> AttributeValue:
    """The attribute with numbers for its sizes."""
    if isinstance(attribute, Size):
        return bound([attribute], symbols)[0]
    if isinstance(attribute, tuple) and any(isinstance(n, Size) for n in attribute):
        return bound(cast("tuple[int, ...]", attribute), symbols)
    return attribute


AttributeValue: TypeAlias = (
    int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
)
OperandValue: TypeAlias = Data | Omitted | Model | None
_LIFETIMES = {Data: Lifetime.CONSTANT, Omitted: Lifetime.NO_VALUE, Model: Lifetime.SUBGRAPH}
