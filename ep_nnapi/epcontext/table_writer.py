"""Writing of a container's tables: the NNAPI models and the border of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ep_nnapi.epcontext.composites import packed
from ep_nnapi.epcontext.layout import (
    ALIGNMENT,
    COMPUTED,
    CONSTANT,
    HEADER,
    OMITTED,
    REFERENCED_MODEL,
    TABLES,
)
from ep_nnapi.lowering.border import Crossing
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.model import Data, Model, Operand

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
