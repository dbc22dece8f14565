"""Tables of a container: the alternatives of a cluster, written and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ep_nnapi.epcontext.alternatives import (
    Alternative,
    LaterAlternative,
    Linked,
    plain_crossing,
)
from ep_nnapi.epcontext.composites import packed, unpacked
from ep_nnapi.epcontext.layout import (
    ALIGNMENT,
    COMPUTED,
    CONSTANT,
    FORMAT_VERSION,
    HEADER,
    MAGIC,
    OMITTED,
    REFERENCED_MODEL,
    TABLES,
    AlternativeKind,
    Table,
    deflated,
    with_checksum,
)
from ep_nnapi.epcontext.pool import ConstantPool
from ep_nnapi.epcontext.pool import Range as _Range
from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import BY_CODE


class TableWriter:
    """The tables of one cluster; `pool` gets its constants.

    The first alternative and its parts are rows; each other one is a container of its own, packed.
    """

    def __init__(self, alternatives: Sequence[Alternative], pool: ConstantPool) -> None:
        self._pool = pool
        self._rows: dict[str, Any] = {  # lists of rows, and bytes
            table.name: bytearray() if table.dtype == np.uint8 else [] for table in TABLES
        }
        first, *later = alternatives
        for each in (first, *first.parts):
            *row, composites = self._alternative(each)
            parts = (len(alternatives), len(each.parts)) if each.parts else (0, 0)
            self._add("alternatives", [(*row, parts, composites, *self._link(each))])
        self._later = [
            (a.kind, a.needed, self._text(a.name), TableWriter([a], pool)) for a in later
        ]

    def program(self, file: str, fields: Mapping[str, object]) -> bytes:
        """Returns header and tables.

        fields   of the header: where the weights are in their file, what is known of the model
        """
        return with_checksum(self._program(file, fields))

    def _program(self, file: str, fields: Mapping[str, object]) -> bytes:
        """Returns header and tables without a checksum."""
        rows = {name: values.copy() for name, values in self._rows.items()}
        header = np.zeros((), HEADER.dtype)
        header["magic"] = np.frombuffer(MAGIC, np.uint8)
        header["version"] = FORMAT_VERSION
        header["weights_file"] = len(rows["text"]), len(file.encode())
        rows["text"].extend(file.encode())
        header["choices"] = 1 + len(self._later)
        for field, value in fields.items():
            header[field] = value
        first, *between, last = TABLES
        encoded = {table.name: _encoded(table, rows[table.name]) for table in between}
        if self._later:
            before = b"".join(encoded.values())
            end = len(before) - len(encoded["text"]) + len(rows["text"])
            self._pack(rows, before[:end], file, {**fields, "weights_sha256": 0})
        encoded |= {table.name: _encoded(table, rows[table.name]) for table in (first, last)}
        data = bytearray()
        for table in TABLES:
            header[table.name] = (HEADER.dtype.itemsize + len(data), len(rows[table.name]))
            data += encoded[table.name]
        data += b"\0" * (-(HEADER.dtype.itemsize + len(data)) % ALIGNMENT)
        header["program_size"] = HEADER.dtype.itemsize + len(data)
        return header.tobytes() + bytes(data)

    def _pack(
        self, rows: Mapping[str, Any], before: bytes, file: str, fields: Mapping[str, object]
    ) -> None:
        """Adds the later alternatives, deflated as following the tables `before` that of packed."""
        for number, (kind, needed, name, writer) in enumerate(self._later, 1):
            own = deflated(writer._program(file, fields), before)
            row = (kind, needed, name, *[(0, 0)] * 5, len(rows["packed"]), len(own))
            rows["alternatives"].insert(number, row)
            rows["packed"].extend(own)

    def _alternative(self, given: Alternative) -> tuple[Any, ...]:
        """Adds its models and crossings; returns its row, of which parts and place are missing."""
        first, composites = len(self._rows["models"]), b""
        models = _in_order(given.model) if given.model else []
        self._index = {id(model): first + i for i, model in enumerate(models)}
        self._rows["models"] += [self._model(model) for model in models]
        if given.model:
            composites = packed(given.model.composites, self._pool.add)
        border = given.border
        return (
            given.kind,
            given.feature_level,
            self._text(given.name),
            (first, len(models)),
            self._add("crossings", [self._crossing(c) for c in border.inputs]),
            self._add("crossings", [self._crossing(c) for c in border.outputs]),
            self._add("text", composites),
        )

    def _link(self, given: Alternative) -> _Range:
        """Adds the bytes of LiteRT or of ONNX; returns where they are."""
        if given.linked is None:
            return 0, 0
        offsets = [self._pool.add(constant)[0] for constant in given.linked.constants]
        return self._add("packed", given.linked.link(offsets))

    def _text(self, value: str) -> _Range:
        return self._add("text", value.encode())

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
                self._add("names", [(self._text(name),) for name in op.origin]),
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
        kind, *place = self._value(operand)
        return (
            operand.type,
            kind,
            operand.scale,
            operand.zero_point,
            channels.dim if channels else 0,
            self._add("numbers", operand.dimensions),
            self._add("scales", channels.scales if channels else ()),
            *place,
        )

    def _value(self, operand: Operand) -> tuple[int, int, int]:
        """The value kind of an operand, and where the value is."""
        if isinstance(operand.value, Data):
            return CONSTANT, *self._pool.add(operand.value.bytes)
        if isinstance(operand.value, Model):
            return REFERENCED_MODEL, self._index[id(operand.value)], 0
        return COMPUTED if operand.value is None else OMITTED, 0, 0

    def _crossing(self, crossing: Crossing) -> tuple[Any, ...]:
        return (
            self._text(crossing.name),
            crossing.dtype,
            crossing.operand,
            self._add("sizes", crossing.shape),
            self._add("numbers", crossing.perm or ()),
        )


def _encoded(table: Table, rows: Sequence[Any]) -> bytes:
    """The bytes of a table, up to where the next one begins."""
    data = bytes(rows) if isinstance(rows, bytearray) else np.array(rows, table.dtype).tobytes()
    return data + bytes(-len(data) % 8)


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


class TableReader:
    """Reads the tables of a container, which C has found sound.

    program  header and tables
    ranges   offset and count of each table
    """

    def __init__(self, program: bytes, ranges: Mapping[str, _Range]) -> None:
        self._rows: dict[str, Any] = {  # lists of rows, and bytes
            t.name: program[first : first + count]
            if t.dtype == np.uint8
            else np.frombuffer(program, t.dtype, count, first).tolist()
            for t in TABLES
            for first, count in (ranges[t.name],)
        }

    def text(self, part: _Range) -> str:
        """Returns a text."""
        return str(self._part("text", part), "utf-8")

    def first(self, weights: Array, index: int = 0) -> Alternative:
        """Returns the first alternative, or its part `index`; constants are views of `weights`."""
        row = self._rows["alternatives"][index]
        kind, level, name, models, inputs, outputs, parts, composites, offset, size = row
        model = self._model(models, weights) if models[1] else None
        sides = (inputs, model.inputs if model else ()), (outputs, model.outputs if model else ())
        entering, leaving = (
            tuple(self._crossing(row, model, indexes) for row in self._part("crossings", side))
            for side, indexes in sides
        )
        if model:
            model = replace(model, composites=unpacked(self.text(composites), model, weights))
        data = self._part("packed", (offset, size)) if size else None
        known = None if data is None else Linked((), lambda _offsets: data)
        inner = tuple(self.first(weights, i) for i in range(parts[0], sum(parts)))
        return Alternative(
            self.text(name),
            AlternativeKind(kind),
            Border(entering, leaving),
            level,
            model,
            known,
            data,
            inner,
        )

    def later(
        self, choices: int, read: Callable[[int], Alternative]
    ) -> tuple[LaterAlternative, ...]:
        """Returns the other alternatives; `read` returns one by its index."""
        return tuple(
            LaterAlternative(
                self.text(row[2]), AlternativeKind(row[0]), row[1], row[-1], partial(read, index)
            )
            for index, row in enumerate(self._rows["alternatives"][1:choices], 1)
        )

    def _model(self, part: _Range, weights: Array) -> Model:
        """Returns the first of the models; later ones are made first, as others refer to them."""
        models: dict[int, Model] = {}
        for index in reversed(range(part[0], sum(part))):
            operands, operations, inputs, outputs, relaxed = self._rows["models"][index]
            models[index] = Model(
                tuple(
                    self._operand(row, models, weights) for row in self._part("operands", operands)
                ),
                tuple(map(self._operation, self._part("operations", operations))),
                self._numbers(inputs),
                self._numbers(outputs),
                bool(relaxed),
            )
        return models[part[0]]

    def _part(self, table: str, part: _Range) -> Any:  # noqa: ANN401 (a list or bytes)
        return self._rows[table][part[0] : sum(part)]

    def _numbers(self, part: _Range) -> tuple[int, ...]:
        return tuple(self._part("numbers", part))

    def _operation(self, row: tuple[Any, ...]) -> Operation:
        code, inputs, outputs, origin = row
        names = tuple(self.text(text) for (text,) in self._part("names", origin))
        spec = BY_CODE.get(code) or OperationSpec(f"operation {code}", code, (), (), ())
        return Operation(spec, self._numbers(inputs), self._numbers(outputs), names)

    def _operand(
        self, row: tuple[Any, ...], models: Mapping[int, Model], weights: Array
    ) -> Operand:
        code, kind, scale, zero_point, dimension, dimensions, channel_scales, offset, size = row
        value: Data | Omitted | Model | None = None
        if kind == CONSTANT:
            value = Data(weights[offset : offset + size])
        elif kind == REFERENCED_MODEL:
            value = models[offset]
        elif kind == OMITTED:
            value = Omitted.NO_VALUE
        scales = tuple(self._part("scales", channel_scales))
        channels = ChannelQuantization(dimension, scales) if scales else None
        dims = self._numbers(dimensions)
        return Operand(OperandCode(code), dims, scale, zero_point, channels, value)

    def _crossing(
        self, row: tuple[Any, ...], model: Model | None, indexes: Sequence[int]
    ) -> Crossing:
        name, element_type, position, shape, permutation = row
        sizes, dtype = tuple(self._part("sizes", shape)), DType(element_type)
        if model is None:
            return plain_crossing(self.text(name), dtype, sizes, position)
        operand, axes = model.operands[indexes[position]], self._numbers(permutation) or None
        inside = operand.dimensions, operand.type.numpy
        return Crossing(self.text(name), dtype, sizes, position, axes, *inside)
