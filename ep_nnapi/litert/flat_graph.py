"""A LiteRT model under construction, with the classes of LiteRT's own schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ep_nnapi.litert.flat_operator import (
    FlatTensor,
    OptionValue,
    Parameters,
    Signature,
    options_of,
    version,
)
from ep_nnapi.litert.flat_sizes import FlatSizes, fixed
from ep_nnapi.litert.package import SIGNATURE, flatbuffers, schema
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.sizes import Size, at_present
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.scope import Perm, permuted

_SCHEMA_VERSION = 3
_IDENTIFIER = b"TFL3"
_MOST_AXES = 8
"""Largest rank of a tensor. Source: LiteRT, LiteRtLayout."""
_SIZED = {
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD", "TILE", "SLICE", "STRIDED_SLICE"), 1),
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"), 1),
    "FILL": 0,
}
"""Operators whose inputs from this one on say what sizes the result has.

If one of them is not constant LiteRT allocates the result when it runs, and its compiled models
leave an output in that memory, with no error: a reshape gives it sizes.
"""
_MAX_BYTES = (1 << 31) - 1
"""Largest flatbuffer: its offsets are signed 32-bit numbers."""
INSIDE = 64
"""Constants of at most so many bytes are always in the flatbuffer."""
WEIGHT_ALIGNMENT = 64
_UNPLACED = 1
"""An offset that is to be set; LiteRT's own converter writes the same."""
_OFFSET_FIELD = 6
"""Entry of the offset in a buffer's table. Source: LiteRT's schema, Buffer."""
_TYPES = {
    np.dtype(np.float16): "FLOAT16",
    np.dtype(np.float32): "FLOAT32",
    np.dtype(np.float64): "FLOAT64",
    np.dtype(np.int32): "INT32",
    np.dtype(np.int64): "INT64",
    np.dtype(np.uint8): "UINT8",
    np.dtype(np.int8): "INT8",
    np.dtype(np.bool_): "BOOL",
}
"""Element types that this module writes, by their names in the schema."""


@dataclass(frozen=True, slots=True)
class _FlatOperator:
    """An operator; `code` is the index of its builtin operator and version."""

    name: str
    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, OptionValue]

    def packed(self, tables: dict[object, _Once]) -> object:
        """The operator as an object of the schema; `tables`: of options, by what they say."""
        ends = {"inputs": _ints(self.inputs), "outputs": _ints(self.outputs)}
        made = _table("OperatorT", opcodeIndex=self.code, **ends)
        kind = options_of(self.name, vars(schema().BuiltinOptions))
        if kind is not None:
            made.builtinOptionsType = getattr(schema().BuiltinOptions, kind)
            options = _table(f"{kind}T", **self.options)
            said = kind, repr(sorted(vars(options).items()))
            made.builtinOptions = tables.setdefault(said, _Once(options))
        return made


@dataclass(slots=True)
class _Once:
    """A table of the schema that is written once."""

    table: Any
    place: int | None = None

    def Pack(self, builder: object) -> int:  # noqa: N802 (the schema's name)
        """Where it is in the flatbuffer."""
        if self.place is None:
            self.place = self.table.Pack(builder)
        return int(self.place or 0)


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant outside of its flatbuffer.

    bytes   uint8 [n]; a view of the NNAPI operand's data where both store it alike
    place   where the flatbuffer has the constant's offset, 8 bytes
    """

    bytes: Array
    place: int


@dataclass(frozen=True, slots=True)
class Split:
    """A flatbuffer without the constants of more than `INSIDE` bytes."""

    data: bytearray
    weights: tuple[Weight, ...]

    def placed(self, offsets: Sequence[int]) -> bytearray:
        """The flatbuffer whose weights are at these offsets from its first byte, in their order.

        Raises ValueError for one that is not a multiple of 64, or inside the flatbuffer.
        """
        data = self.data.copy()
        for weight, offset in zip(self.weights, offsets, strict=True):
            if offset < len(data) or offset % WEIGHT_ALIGNMENT:
                raise ValueError(f"weights at {offset}, behind a flatbuffer of {len(data)} bytes")
            data[weight.place : weight.place + 8] = offset.to_bytes(8, "little")
        return data


def outside_buffers(model: bytes) -> Iterator[tuple[int, int]]:
    """Offsets from its first byte, and sizes, of the weights behind a flatbuffer."""
    found = schema().Model.GetRootAs(model, 0)
    for n in range(found.BuffersLength()):
        buffer = found.Buffers(n)
        if buffer.Offset() > _UNPLACED:
            yield buffer.Offset(), buffer.Size()


@dataclass(slots=True)
class _Shared:
    """What the graphs of one model share: versions of operators in use, and one another."""

    codes: dict[tuple[str, int], int] = field(default_factory=dict)
    graphs: list[FlatGraph] = field(default_factory=list)


@dataclass(slots=True)
class FlatGraph:
    """Tensors and operators; tensors are named by their index.

    inputs, outputs   tensors that enter and leave
    sizes             those of its tensors that are open
    Only `build` needs the extra.
    """

    tensors: list[FlatTensor] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    _names: list[str | None] = field(default_factory=list)
    _buffers: list[Callable[[], Array] | None] = field(default_factory=list)
    _operators: list[_FlatOperator] = field(default_factory=list)
    _constants: dict[tuple[object, ...], int] = field(default_factory=dict)
    sizes: FlatSizes = field(default_factory=FlatSizes)
    _shared: _Shared = field(default_factory=_Shared)

    def __post_init__(self) -> None:
        self._shared.graphs.append(self)

    def inner(self) -> tuple[FlatGraph, int]:
        """Add a graph that operators run; returns it and its number in the model."""
        made = FlatGraph(_shared=self._shared)
        return made, len(self._shared.graphs) - 1

    def tensor(self, tensor: FlatTensor, name: str | None = None) -> int:
        """Add a tensor that an operator computes, or an input."""
        return self._add(tensor, name, None)

    def vector(self, count: int) -> int:
        """Add a tensor of that many int32 numbers that an operator computes."""
        return self.tensor(FlatTensor(np.dtype(np.int32), (count,)))

    def constant(
        self, tensor: FlatTensor, key: tuple[object, ...], load: Callable[[], Array]
    ) -> int:
        """Add a constant, whose elements are read when the model is written.

        key   equal for equal constants, of which there is one tensor
        """
        every = (tensor, *key)
        if every not in self._constants:
            self._constants[every] = self._add(tensor, None, load)
        return self._constants[every]

    def array(self, array: Array) -> int:
        """Add a small constant."""
        fixed = np.ascontiguousarray(array).reshape(array.shape)
        return self.constant(
            FlatTensor(fixed.dtype, fixed.shape), (fixed.tobytes(),), lambda: fixed
        )

    def ints(self, values: Sequence[int], shape: Sequence[int] = (-1,)) -> int:
        """Add int32 numbers [n]: shapes, axes and the like; a constant if none is open.

        shape   another one; raises Inexpressible for sizes that no tensor has
        """
        if not any(isinstance(n, Size) for n in values):
            return self.array(np.array(values, np.int32).reshape(shape))
        made = self.sizes.vector(self, values)
        if shape != (-1,):
            made = self.reshaped(made, shape)
            self.sizes.known.add(made)
        return made

    def reshaped(
        self, value: int, shape: Sequence[int], *, parameters: Parameters | None = None
    ) -> int:
        """Add a change of shape; `parameters`: the result's quantization, if it is another."""
        given = self.tensors[value]
        made = self.tensor(FlatTensor(given.dtype, tuple(shape), parameters or given.parameters))
        self._reshape(value, made)
        return made

    def transposed(self, value: int, perm: Perm) -> int:
        """Add a transposition."""
        given = self.tensors[value]
        made = self.tensor(replace(given, shape=permuted(given.shape, perm)))
        self.operator("TRANSPOSE", [value, self.ints(perm)], [made])
        return made

    def _reshape(self, value: int, result: int) -> None:
        """Add the operator; a single size that is open follows from the others."""
        shape = self.tensors[result].shape
        sizes = [-1 if isinstance(n, Size) else n for n in shape]
        given = self.ints(sizes if sizes.count(-1) == 1 else shape)
        self._add_operator("RESHAPE", [value, given], [result], {"newShape": sizes})

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Mapping[str, OptionValue] = {},
    ) -> None:
        """Add an operator.

        name      of the builtin operator in the schema
        inputs    tensors, -1 for an optional one that is left out
        options   fields of its options
        """
        sizing = inputs[_SIZED.get(name, len(inputs)) :][:3]
        if all(self._buffers[i] is not None or i in self.sizes.known for i in sizing):
            self._add_operator(name, inputs, outputs, options)
            return
        for output in outputs:
            fixed(*self.tensors[output].shape)
        made = [self.tensor(self.tensors[i]) for i in outputs]
        self._add_operator(name, inputs, made, options)
        for value, output in zip(made, outputs, strict=True):
            self._reshape(value, output)

    def _add_operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Mapping[str, OptionValue],
    ) -> None:
        types = tuple(self.tensors[i] for i in (*inputs, *outputs) if i >= 0)
        numbered = version(Signature(name, types, len(inputs), options))
        codes = self._shared.codes
        code = codes.setdefault((name, numbered), len(codes))
        self._operators.append(_FlatOperator(name, code, tuple(inputs), tuple(outputs), options))
        for output in outputs:
            self.sizes.enter(output, self.tensors[output].shape)

    def is_end(self, tensor: int) -> bool:
        """True for what enters or leaves the graph already, and for constants."""
        return tensor in self.inputs + self.outputs or self._buffers[tensor] is not None

    def rename(self, tensor: int, name: str) -> None:
        """Give a tensor a name in the flatbuffer."""
        self._names[tensor] = name

    def build(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> memoryview:
        """Return the flatbuffer.

        inputs, outputs   tensors by the names of the signature
        """
        return self._built(inputs, outputs, _MAX_BYTES)[0]

    def split(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> Split:
        """Return the flatbuffer without its weights, which lie behind it."""
        data, arrays = self._built(inputs, outputs, INSIDE)
        buffers = schema().Model.GetRootAs(data, 0)
        tables = [buffers.Buffers(n)._tab for n in range(buffers.BuffersLength())]
        places = [t.Pos + t.Offset(_OFFSET_FIELD) for t in tables if t.Offset(_OFFSET_FIELD)]
        return Split(bytearray(data), tuple(map(Weight, arrays, places)))

    def _built(
        self, inputs: Mapping[str, int], outputs: Mapping[str, int], inside: int
    ) -> tuple[memoryview, list[Array]]:
        """The flatbuffer, and the constants of more than `inside` bytes, which it lacks."""
        made, outside = schema(), list[Array]()
        self.inputs, self.outputs = [*inputs.values()], [*outputs.values()]
        model = made.ModelT()
        model.version, model.description = _SCHEMA_VERSION, "written by ep-nnapi"
        model.operatorCodes = [_code(name, number) for name, number in self._shared.codes]
        model.buffers = [made.BufferT()]

        def store(array: Array) -> int:
            buffer, flat = made.BufferT(), np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            if flat.size > inside:
                buffer.offset, buffer.size = _UNPLACED, flat.size
                outside.append(flat)
            else:
                buffer.data = flat
            model.buffers.append(buffer)
            return len(model.buffers) - 1

        model.subgraphs = [graph._packed(store) for graph in self._shared.graphs]
        model.signatureDefs = [_signature(inputs, outputs)]
        weight = sum(len(each.data) for each in model.buffers if each.data is not None)
        require(weight < _MAX_BYTES, f"{weight} bytes of weights do not fit one flatbuffer")
        builder = _builder(weight + 4096 + 1024 * len(self.tensors))
        builder.Finish(model.Pack(builder), _IDENTIFIER)
        return memoryview(builder.Bytes)[builder.Head() :], outside

    def _packed(self, store: Callable[[Array], int]) -> object:
        """The graph as an object of the schema; `store` returns the buffer of a constant."""
        options = dict[object, _Once]()
        tensors = zip(self.tensors, self._names, self._buffers, strict=True)
        return _table(
            "SubGraphT",
            name="main" if self is self._shared.graphs[0] else "inner",
            operators=[each.packed(options) for each in self._operators],
            inputs=self.inputs,
            outputs=self.outputs,
            tensors=[
                _tensor(t, name, 0 if load is None else store(load())) for t, name, load in tensors
            ],
        )

    def _add(self, tensor: FlatTensor, name: str | None, load: Callable[[], Array] | None) -> int:
        require(tensor.dtype in _TYPES, f"LiteRT has no kernels for {tensor.dtype}")
        rank = len(tensor.shape)
        require(rank <= _MOST_AXES, f"LiteRT has no tensors of rank {rank}")
        self.tensors.append(tensor)
        self._names.append(name)
        self._buffers.append(load)
        return len(self.tensors) - 1


def _builder(size: int) -> Any:  # noqa: ANN401 (of a package without types)
    """A builder that writes short vectors of the same numbers once."""
    base: Any = flatbuffers().Builder
    written: dict[tuple[str, bytes], int] = {}

    class Builder(base):  # type: ignore[misc]
        def CreateNumpyVector(self, x: Array) -> int:  # noqa: N802 (the package's name)
            if x.nbytes > INSIDE:
                return self._large(x)
            key = x.dtype.str, x.tobytes()
            if key not in written:
                written[key] = super().CreateNumpyVector(x)
            return written[key]

        def _large(self, x: Array) -> int:
            """Do the same as the package without its two temporary copies."""
            self.StartVector(x.itemsize, x.size, x.dtype.alignment)
            self.head -= x.nbytes
            np.frombuffer(self.Bytes, x.dtype, x.size, self.head)[:] = x
            self.vectorNumElems = x.size
            return int(self.EndVector())

    return Builder(size)


def _ints(values: Sequence[int]) -> Array:
    return np.array(values, np.int32)


def _table(kind: str, **fields: object) -> Any:  # noqa: ANN401 (of a package without types)
    """A table of the schema with these fields."""
    made = getattr(schema(), kind)()
    for name, value in fields.items():
        if not hasattr(made, name):
            raise ValueError(f"{kind} has no field {name}")
        setattr(made, name, value)
    return made


def _code(name: str, number: int) -> object:
    code = getattr(schema().BuiltinOperator, name)
    # readers of before 2020 know the old field only, which holds codes up to 127
    old = min(code, 127)
    return _table("OperatorCodeT", builtinCode=code, deprecatedBuiltinCode=old, version=number)


def _tensor(tensor: FlatTensor, name: str | None, buffer: int) -> object:
    made = _table("TensorT", name=name, buffer=buffer, hasRank=True)
    made.shape = _ints([at_present(size) for size in tensor.shape])
    if any(isinstance(size, Size) for size in tensor.shape):
        made.shapeSignature = _ints([-1 if isinstance(n, Size) else n for n in tensor.shape])
    made.type = getattr(schema().TensorType, _TYPES[tensor.dtype])
    given = tensor.parameters
    if given is not None:
        made.quantization = _table(
            "QuantizationParametersT",
            scale=np.array(given.scales, np.float32),
            zeroPoint=np.full(len(given.scales), given.zero_point, np.int64),
            quantizedDimension=given.axis,
        )
    return made


def _signature(inputs: Mapping[str, int], outputs: Mapping[str, int]) -> object:
    ends = {"inputs": _map(inputs), "outputs": _map(outputs)}
    return _table("SignatureDefT", signatureKey=SIGNATURE, subgraphIndex=0, **ends)


def _map(tensors: Mapping[str, int]) -> list[object]:
    return [_table("TensorMapT", name=name, tensorIndex=i) for name, i in tensors.items()]
