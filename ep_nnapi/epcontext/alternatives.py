"""Alternatives of a cluster: programs that compute the same, for systems that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ep_nnapi.epcontext.layout import AlternativeKind
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.nnapi.validate import required_level


@frozen
class Linked:
    """The bytes of a LiteRT flatbuffer or of an ONNX model, whose constants are in the weights.

    constants  what it reads there, as bytes
    link       returns its bytes for the offsets of its constants in the weights
    """

    constants: tuple[Array, ...]
    link: Callable[[Sequence[int]], bytes]


@frozen
class Alternative:
    """One way to compute a cluster, or a part of one.

    name           such as nnapi:4, litert or cpu
    feature_level  the NNAPI feature level that it needs; 0 if it is no NNAPI model
    border         its tensors; operands of the border are tensors themselves without an NNAPI model
    model          of NNAPI
    linked         of LiteRT and ONNX; when it was read, its bytes are `data`
    parts          of a partition in the order of their runs; none of them is a partition
    """

    name: str
    kind: AlternativeKind
    border: Border
    feature_level: int = 0
    model: Model | None = None
    linked: Linked | None = None
    data: bytes | None = None
    parts: tuple[Alternative, ...] = ()

    @staticmethod
    def nnapi(lowered: Lowered, name: str = "") -> Alternative:
        """An NNAPI program, named after the feature level that it needs unless it has a name."""
        level = required_level(lowered.model)
        name = name or f"nnapi:{level}"
        kind = AlternativeKind.NNAPI
        return Alternative(name, kind, lowered.border, level, lowered.model)

    @property
    def lowered(self) -> Lowered:
        """The NNAPI program as a lowered cluster; raises TypeError if it is none."""
        if self.model is None:
            raise TypeError(f"{self.name} is no NNAPI program")
        return Lowered(self.model, self.border)

    @property
    def needed(self) -> int:
        """The feature level without which nothing of it can run; 0 if NNAPI is not needed."""
        return max([self.feature_level, *(part.needed for part in self.parts)])

    def opened(self) -> Alternative:
        """Itself, as all of it has been read; see `LaterAlternative`."""
        return self


@frozen
class LaterAlternative:
    """An alternative that was not read: nothing but what runs is.

    needed   as `Alternative` has it
    size     bytes that it takes in the container
    opened   `opened()` reads it; raises ModelError
    """

    name: str
    kind: AlternativeKind
    needed: int
    size: int
    opened: Callable[[], Alternative]


def plain_crossing(name: str, dtype: DType, shape: tuple[int, ...], position: int) -> Crossing:
    """The crossing of an alternative that takes an ONNX tensor as it is."""
    return Crossing(name, dtype, shape, position, None, shape, dtype.numpy)


def everything(alternatives: Sequence[Alternative]) -> list[Alternative]:
    """The alternatives in the order of their table: the parts of partitions after all of them."""
    return [*alternatives, *(part for each in alternatives for part in each.parts)]


def constants(alternative: Alternative) -> Iterator[Array]:
    """The constants of an alternative without its parts, as bytes: of its model, or linked."""
    models = [alternative.model] if alternative.model else []
    while models:
        for operand in models.pop().operands:
            if isinstance(operand.value, Data):
                yield operand.value.bytes
            elif isinstance(operand.value, Model):
                models.append(operand.value)
    yield from alternative.linked.constants if alternative.linked else ()


def replaces(own: Border, other: Border) -> bool:
    """True for a border that takes no tensors but those of another, and gives the same."""
    entering, leaving = ({_tensor(c) for c in side} for side in (own.inputs, own.outputs))
    there = {_tensor(c) for c in other.inputs}
    return entering <= there and leaving == {_tensor(c) for c in other.outputs}


def _tensor(crossing: Crossing) -> tuple[object, ...]:
    return crossing.name, crossing.dtype, crossing.shape
