"""Tables of a container: the NNAPI models and the border of a cluster, written and read.

What is read is validated as untrusted data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ep_nnapi.epcontext.composites import packed, unpacked
from ep_nnapi.epcontext.layout import (
    ALIGNMENT,
    COMPUTED,
    CONSTANT,
    HEADER,
    MAX_DEPTH,
    OMITTED,
    REFERENCED_MODEL,
    TABLES,
)
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.spec import BY_CODE

_Range: TypeAlias = tuple[int, int]


@dataclass
class ConstantPool:
    """The distinct constants in the order in which they are written.

    size  bytes of all constants, each padded to `ALIGNMENT`
    """

    arrays: list[Array] = field(default_factory=list)
    size: int = 0
    _found: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, data: Array) -> tuple[int, int]:
        """Adds a constant unless present; returns offset and size of its bytes in the pool."""
        if id(data) not in self._found:
            self._found[id(data)] = (self.size, data.size)
            self.arrays.append(data)
            self.size += data.size + (-data.size % ALIGNMENT)
        return self._found[id(data)]


def padded(arrays: Sequence[Array]) -> Iterator[bytes]:
    """Yields the bytes of constants and their padding, block by block."""
    for array in arrays:
        yield array.tobytes()
        yield b"\0" * (-array.size % ALIGNMENT)


class TableWriter:
    """The tables of one cluster; `pool` gets its constants."""

    def __init__(self, lowered: Lowered, pool: ConstantPool) -> None:
        self._pool = pool
        self._rows: dict[str, list[Any]] = {table.name: [] for table in TABLES}
        models = _in_order(lowered.model)
        self._index = {id(model): i for i, model in enumerate(models)}
        self._rows["models"] = [self._model(model) for model in models]
        self._rows["inputs"] = [self._crossing(c) for c in lowered.border.inputs]
        self._rows["outputs"] = [self._crossing(c) for c in lowered.border.outputs]
        self._composites = packed(lowered.model.composites, pool.add)

    def text(self, value: str) -> _Range:
        """Adds a text; returns its range."""
        return self._add("text", value.encode())

    def tables(self) -> tuple[dict[str, _Range], bytes]:
        """Offset and count of each table, and the bytes of all, which follow the header."""
        found, data = {}, b""
        for table in TABLES:
            rows = self._rows[table.name]
            found[table.name] = (HEADER.dtype.itemsize + len(data), len(rows))
            data += np.array(rows, table.dtype).tobytes()
            data += b"\0" * (-len(data) % 8)
        data += self._composites
        return found, data + b"\0" * (-(HEADER.dtype.itemsize + len(data)) % ALIGNMENT)

    def _add(self, table: str, values: Sequence[Any]) -> _Range:
        rows = self._rows[table]
        rows.extend(values)
        return len(rows) - len(values), len(values)

    def _model(self, model: Model) -> tuple[Any, ...]:
        operations = [
            (
                op.spec.code,
                self._add("numbers", op.inputs),
                self._add("numbers", op.outputs),
                self._add("names", [(self.text(name),) for name in op.origin]),
            )
            for op in model.operations
        ]
        return (
            self._add("operands", [self._operand(o) for o in model.operands]),
            self._add("operations", operations),
            self._add("numbers", model.inputs),
            self._add("numbers", model.outputs),
            int(model.relaxed),
        )

    def _operand(self, operand: Operand) -> tuple[Any, ...]:
        channels = operand.channels
        return (
            operand.type,
            _kind(operand),
            operand.scale,
            operand.zero_point,
            channels.dim if channels else 0,
            self._add("numbers", operand.dimensions),
            self._add("scales", channels.scales if channels else ()),
            *self._value(operand),
        )

    def _value(self, operand: Operand) -> tuple[int, int]:
        if isinstance(operand.value, Data):
            return self._pool.add(operand.value.bytes)
        if isinstance(operand.value, Model):
            return self._index[id(operand.value)], 0
        return 0, 0

    def _crossing(self, crossing: Crossing) -> tuple[Any, ...]:
        return (
            self.text(crossing.name),
            crossing.dtype,
            crossing.operand,
            self._add("sizes", crossing.shape),
            self._add("numbers", crossing.perm or ()),
        )


def _kind(operand: Operand) -> int:
    """The value kind of an operand."""
    if isinstance(operand.value, Data):
        return CONSTANT
    if isinstance(operand.value, Model):
        return REFERENCED_MODEL
    return COMPUTED if operand.value is None else OMITTED


def _in_order(model: Model) -> list[Model]:
    """The model and those that it refers to, each once and before those that it refers to."""
    done: dict[int, Model] = {}

    def visit(one: Model) -> None:
        if id(one) not in done:
            for operand in one.operands:
                if isinstance(operand.value, Model):
                    visit(operand.value)
            done[id(one)] = one

    visit(model)
    return list(done.values())[::-1]


_FLOAT_MAX = float(np.finfo(np.float32).max)


class TableReader:
    """Reads the tables of a container; raises ValueError for malformed ones.

    program  header and tables
    ranges   offset and count of each table
    """

    def __init__(self, program: bytes, ranges: Mapping[str, _Range]) -> None:
        self._rows = {t.name: _rows(program, t.name, t.dtype, ranges[t.name]) for t in TABLES[:-1]}
        first, count = ranges["text"]
        if first + count > len(program):
            raise ValueError("the table text lies outside of the context")
        self._text = program[first : first + count]
        self._unread = len(program)
        end = max(ranges[t.name][0] + ranges[t.name][1] * t.dtype.itemsize for t in TABLES)
        self._composites = program[end + -end % 8 :].rstrip(b"\0")

    def text(self, part: _Range) -> str:
        """Returns a text."""
        text = str(self._slice(self._text, part), "utf-8")
        if "\0" in text:
            raise ValueError("a name has a NUL")
        return text

    def lowered(self, weights: Array) -> Lowered:
        """Returns the lowered cluster, its constants as views of `weights`."""
        models = self._models(weights)
        ends = [
            tuple(self._crossing(row, models[0], indexes) for row in self._rows[side])
            for side, indexes in (("inputs", models[0].inputs), ("outputs", models[0].outputs))
        ]
        border = Border(ends[0], ends[1])
        check_border(border, models[0])
        composites = unpacked(self._composites, models[0], weights)
        return Lowered(replace(models[0], composites=composites), border)

    def _models(self, weights: Array) -> list[Model]:
        """Returns the models; later ones are made first, as others refer to them."""
        rows = self._rows["models"]
        if not rows:
            raise ValueError("it has no model")
        models: dict[int, Model] = {}
        depths: dict[int, int] = {}
        for index in reversed(range(len(rows))):
            operands, operations, inputs, outputs, relaxed = rows[index]
            if relaxed > 1:
                raise ValueError(f"relaxed is {relaxed}")
            found = self._part("operands", operands)
            inner = [row[7] for row in found if row[1] == REFERENCED_MODEL]
            if min(inner, default=index + 1) <= index:
                raise ValueError(f"model {index} refers to an earlier one or to itself")
            depths[index] = 1 + max((depths[i] for i in inner), default=-1)
            if depths[index] > MAX_DEPTH:
                raise ValueError(f"models are nested more than {MAX_DEPTH} deep")
            computed = tuple(map(self._operation, self._part("operations", operations)))
            ends = self._numbers(inputs), self._numbers(outputs)
            named = chain(*ends, *((*op.inputs, *op.outputs) for op in computed))
            if max(named, default=-1) >= len(found):  # also of models that nothing refers to
                raise ValueError(f"model {index} names operands that it has not")
            made = tuple(self._operand(row, models, weights) for row in found)
            models[index] = Model(made, computed, *ends, bool(relaxed))
        return [models[i] for i in range(len(rows))]

    def _part(self, table: str, part: _Range) -> list[Any]:
        return self._slice(self._rows[table], part)  # type: ignore[no-any-return]

    def _slice(self, values: Any, part: _Range) -> Any:  # noqa: ANN401 (a list or bytes)
        """Returns a range; all together have no more elements than the program has bytes."""
        first, count = part
        self._unread -= count
        if self._unread < 0:
            raise ValueError("ranges share elements of a table")
        if first + count > len(values):
            raise ValueError(f"a range of {count} from {first} lies outside of its table")
        return values[first : first + count]

    def _numbers(self, part: _Range) -> tuple[int, ...]:
        return tuple(self._part("numbers", part))

    def _operation(self, row: tuple[Any, ...]) -> Operation:
        code, inputs, outputs, origin = row
        names = tuple(self.text(text) for (text,) in self._part("names", origin))
        return Operation(BY_CODE[code], self._numbers(inputs), self._numbers(outputs), names)

    def _operand(
        self, row: tuple[Any, ...], models: Mapping[int, Model], weights: Array
    ) -> Operand:
        code, kind, scale, zero_point, dimension, dimensions, channel_scales, offset, size = row
        value: Data | Omitted | Model | None = None
        if kind == CONSTANT:
            if offset + size > weights.size:
                raise ValueError("a constant lies outside of the weights")
            value = Data(weights[offset : offset + size])
        elif kind == REFERENCED_MODEL:
            value = models[offset]
        elif kind == OMITTED:
            value = Omitted.NO_VALUE
        elif kind != COMPUTED:
            raise ValueError(f"an operand's value is of kind {kind}")
        scales = tuple(self._part("scales", channel_scales))
        if not all(map(_is_float, (scale, *scales))):
            raise ValueError("a scale is no float")
        channels = ChannelQuantization(dimension, scales) if scales else None
        return Operand(
            OperandCode(code), self._numbers(dimensions), scale, zero_point, channels, value
        )

    def _crossing(self, row: tuple[Any, ...], model: Model, indexes: Sequence[int]) -> Crossing:
        name, element_type, position, shape, permutation = row
        operand = model.operands[indexes[position]]
        return Crossing(
            self.text(name),
            DType(element_type),
            tuple(self._part("sizes", shape)),
            position,
            self._numbers(permutation) or None,
            operand.dimensions,
            operand.type.numpy,
        )


def _is_float(scale: float) -> bool:
    """Returns True for 0, and for numbers that are finite and other than 0 as float32."""
    return not scale or (abs(scale) <= _FLOAT_MAX and bool(np.float32(scale)))


def _rows(program: bytes, name: str, dtype: np.dtype[Any], place: _Range) -> list[Any]:
    """Returns the rows of one table."""
    offset, count = place
    if offset % 8 or offset + count * dtype.itemsize > len(program):
        raise ValueError(f"the table {name} lies outside of the context")
    return np.frombuffer(program, dtype, count, offset).tolist()  # type: ignore[no-any-return]


def check_border(border: Border, model: Model) -> None:
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
        tensors = {(c.name, c.dtype, c.shape) for c in crossings}
        distinct = len(tensors) if crossings is border.inputs else len(crossings)
        if len({c.name for c in crossings}) != distinct:
            raise ValueError("two tensors at the border have one name")
        for c in crossings:
            if not _fits(c, model.operands[indexes[c.operand]]):
                raise ValueError(f"{c.name} does not fit its operand")


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
