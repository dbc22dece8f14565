"""Alternatives of a cluster: programs that compute the same, for systems that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from ep_nnapi.epcontext.layout import AlternativeKind
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.validate import MAX_BYTES, required_level


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
        """Itself."""
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


def check(alternative: Alternative) -> None:
    """Raises ValueError if the tensors of an alternative are not those of what it consists of."""
    border = alternative.border
    if alternative.model is not None:
        _check_operands(border, alternative.model)
    else:
        _check_plain(border)
    for crossings in (border.inputs, border.outputs):
        tensors = {_tensor(c) for c in crossings}
        twice = crossings is border.inputs and alternative.model is not None  # in two layouts
        distinct = len(tensors) if twice else len(crossings)
        if len({c.name for c in crossings}) != distinct:
            raise ValueError("two tensors at the border have one name")
    if alternative.parts:
        _check_flow(alternative)


def _check_operands(border: Border, model: Model) -> None:
    """Raises ValueError unless every crossing matches its operand's shape, type and layout."""
    sides: tuple[tuple[Sequence[Crossing], Sequence[int]], ...] = (
        (border.inputs, model.inputs),
        (border.outputs, model.outputs),
    )
    for crossings, indexes in sides:
        met = [c.operand for c in crossings]
        fed_twice = crossings is border.inputs and len(met) != len(indexes)
        if set(met) != set(range(len(indexes))) or fed_twice:
            raise ValueError("the border does not fit the model")
        for c in crossings:
            if not _fits(c, model.operands[indexes[c.operand]]):
                raise ValueError(f"{c.name} does not fit its operand")


def _check_plain(border: Border) -> None:
    for crossings in (border.inputs, border.outputs):
        for position, c in enumerate(crossings):
            least, most = min(c.shape, default=1), prod(c.shape)
            if c.operand != position or c.perm is not None or least < 1 or most > MAX_BYTES:
                raise ValueError(f"{c.name} does not fit an alternative without NNAPI")


def _check_flow(partition: Alternative) -> None:
    """Raises ValueError unless each part reads what enters the partition or an earlier part made.

    What leaves it must have been made.
    """
    there = {c.name: _tensor(c) for c in partition.border.inputs}
    for part in partition.parts:
        _check_read(part.border.inputs, there)
        if not there.keys().isdisjoint(c.name for c in part.border.outputs):
            raise ValueError("a part makes a tensor that is there already")
        there |= {c.name: _tensor(c) for c in part.border.outputs}
    for c in partition.border.inputs:
        del there[c.name]
    _check_read(partition.border.outputs, there)


def _check_read(crossings: Sequence[Crossing], there: dict[str, tuple[object, ...]]) -> None:
    for c in crossings:
        if there.get(c.name) != _tensor(c):
            raise ValueError(f"{c.name} is read before a part makes it so")


def _tensor(crossing: Crossing) -> tuple[object, ...]:
    return crossing.name, crossing.dtype, crossing.shape


def _converts(crossing: Crossing) -> bool:
    """Returns True for element types between which a border converts; see docs/context.md."""
    inside, outside = crossing.nnapi_dtype, crossing.dtype
    if outside is DType.INT8 and inside == np.uint8:
        return True
    if outside is DType.INT64 and inside == np.int32:
        return True
    return outside.readable and outside.numpy == inside


def _fits(crossing: Crossing, operand: Operand) -> bool:
    shape, perm = crossing.shape, crossing.perm
    return (
        operand.type.tensor
        and crossing.nnapi_shape == operand.dimensions
        and crossing.nnapi_dtype == operand.type.numpy
        and _converts(crossing)
        and min(shape, default=1) > 0
        and prod(shape) == prod(crossing.nnapi_shape)
        and (perm is None or sorted(perm) == list(range(len(shape))))
    )
