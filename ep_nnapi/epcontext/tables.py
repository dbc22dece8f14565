"""Tables of a container: the alternatives of a cluster, written and read.

What is read is validated as untrusted data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ep_nnapi.epcontext.alternatives import (
    Alternative,
    LaterAlternative,
    Linked,
    check,
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
    MAX_DEPTH,
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
from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, OperandCode
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import BY_CODE
from ep_nnapi.nnapi.validate import check_shape, check_value


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
        self._rows = {t.name: _rows(program, t.name, t.dtype, ranges[t.name]) for t in TABLES[:-2]}
        self._text, self._packed = (_bytes(program, t.name, ranges[t.name]) for t in TABLES[-2:])
        self._before = program[ranges[TABLES[1].name][0] : sum(ranges["text"])]
        self._unread = len(program)

    def text(self, part: _Range) -> str:
        """Returns a text."""
        text = str(self._slice(self._text, part), "utf-8")
        if "\0" in text:
            raise ValueError("a name has a NUL")
        return text

    def first(self, choices: int, weights: Array) -> Alternative:
        """Returns the first alternative, its constants as views of `weights`."""
        rows = self._rows["alternatives"]
        if not 1 <= choices <= len(rows):
            raise ValueError(f"{choices} of {len(rows)} alternatives compute it")
        made: dict[int, Alternative] = {}
        for index in (*reversed(range(choices, len(rows))), 0):
            first, count = rows[index][6]
            if count and (first < max(choices, index + 1) or first + count > len(rows)):
                raise ValueError(f"the parts of alternative {index} are none")
            parts = range(first, first + count)
            made[index] = self._alternative(rows[index], tuple(made[i] for i in parts), weights)
            if any(part.parts for part in made[index].parts):
                raise ValueError("a partition is part of another")
            borders = [part.border for part in made[index].parts]
            self._unread -= sum(len(b.inputs) + len(b.outputs) for b in borders)
            if self._unread < 0:
                raise ValueError("partitions share their parts")
            check(made[index])
        return made[0]

    def later(
        self, choices: int, read: Callable[[bytes, bytes], Alternative]
    ) -> tuple[LaterAlternative, ...]:
        """Returns the other alternatives; `read` returns what was packed in bytes after others."""
        return tuple(self._later(n, self._rows["alternatives"][n], read) for n in range(1, choices))

    def _later(
        self, index: int, row: tuple[Any, ...], read: Callable[[bytes, bytes], Alternative]
    ) -> LaterAlternative:
        kind, needed, name, *ranges, offset, size = row
        if needed > HIGHEST_LEVEL or any(map(any, ranges)) or not size:
            raise ValueError(f"alternative {index} is not packed")
        data = self._slice(self._packed, (offset, size))

        def opened() -> Alternative:
            found = read(data, self._before)
            if (found.kind, found.needed) != (kind, needed):
                raise ModelError(f"alternative {index} is another one; prepare the model again")
            return found

        return LaterAlternative(self.text(name), AlternativeKind(kind), needed, size, opened)

    def _alternative(
        self, row: tuple[Any, ...], parts: tuple[Alternative, ...], weights: Array
    ) -> Alternative:
        kind, level, name, models, inputs, outputs, _, composites, offset, size = row
        kind = AlternativeKind(kind)
        is_nnapi, linked = kind is AlternativeKind.NNAPI, offset or size
        if (
            is_nnapi is not bool(models[1])
            or is_nnapi is not bool(level)
            or level > HIGHEST_LEVEL
            or (composites[1] and not is_nnapi)
            or bool(parts) is not (kind is AlternativeKind.PARTITION)
            or bool(size) is not (kind in (AlternativeKind.LITERT, AlternativeKind.ONNX))
            or (linked and not size)
        ):
            raise ValueError(f"an alternative has what {kind.name} has not, or lacks what it has")
        model = self._models(models[0], models[1], weights)[0] if is_nnapi else None
        ends = [
            tuple(self._crossing(row, model, indexes) for row in self._part("crossings", side))
            for side, indexes in (
                (inputs, model.inputs if model else ()),
                (outputs, model.outputs if model else ()),
            )
        ]
        text = self.text(composites)
        if model:
            model = replace(model, composites=unpacked(text, model, weights))
        data = self._slice(self._packed, (offset, size)) if size else None
        known = None if data is None else Linked((), _same_bytes(data))
        border = Border(ends[0], ends[1])
        return Alternative(self.text(name), kind, border, level, model, known, data, parts)

    def _models(self, first: int, count: int, weights: Array) -> list[Model]:
        """Returns the models; later ones are made first, as others refer to them."""
        rows = self._rows["models"]
        if first + count > len(rows):
            raise ValueError(f"a range of {count} from {first} lies outside of its table")
        models: dict[int, Model] = {}
        depths: dict[int, int] = {}
        for index in reversed(range(first, first + count)):
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
        return [models[i] for i in range(first, first + count)]

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
        spec = BY_CODE.get(code) or OperationSpec(f"operation {code}", code, (), (), ())
        return Operation(spec, self._numbers(inputs), self._numbers(outputs), names)

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
        dims = self._numbers(dimensions)
        operand = Operand(OperandCode(code), dims, scale, zero_point, channels, value)
        check_shape(operand)
        check_value(operand)
        return operand

    def _crossing(
        self, row: tuple[Any, ...], model: Model | None, indexes: Sequence[int]
    ) -> Crossing:
        name, element_type, position, shape, permutation = row
        sizes, dtype = tuple(self._part("sizes", shape)), DType(element_type)
        axes = self._numbers(permutation) or None
        if model is None and axes is None and dtype.readable:
            return plain_crossing(self.text(name), dtype, sizes, position)
        operand = (model or _NO_MODEL).operands[indexes[position]]
        return Crossing(
            self.text(name),
            dtype,
            sizes,
            position,
            axes,
            operand.dimensions,
            operand.type.numpy,
        )


def _same_bytes(data: bytes) -> Callable[[Sequence[int]], bytes]:
    return lambda _offsets: data


_NO_MODEL = Model((), (), (), ())


def _is_float(scale: float) -> bool:
    """Returns True for 0, and for numbers that are finite and other than 0 as float32."""
    return not scale or (abs(scale) <= _FLOAT_MAX and bool(np.float32(scale)))


def _bytes(program: bytes, name: str, place: _Range) -> bytes:
    """Returns a table of bytes."""
    offset, count = place
    if offset + count > len(program):
        raise ValueError(f"the table {name} lies outside of the context")
    return program[offset : offset + count]


def _rows(program: bytes, name: str, dtype: np.dtype[Any], place: _Range) -> list[Any]:
    """Returns the rows of one table."""
    offset, count = place
    if offset % 8 or offset + count * dtype.itemsize > len(program):
        raise ValueError(f"the table {name} lies outside of the context")
    return np.frombuffer(program, dtype, count, offset).tolist()  # type: ignore[no-any-return]
