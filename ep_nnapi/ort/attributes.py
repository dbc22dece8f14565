"""Reader of node attributes as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.graph.graph import NO_ATTRIBUTES, Attribute
from ep_nnapi.graph.value import Constant
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, check, dtype, text
from ep_nnapi.ort.tensors import shape_of

if TYPE_CHECKING:
    from ep_nnapi.ort._native import AttributeFacts, Tensor

# Source: OrtOpAttrType.
_UNREAD = 0
_INT, _INTS, _FLOAT, _FLOATS, _STRING, _STRINGS, _GRAPH, _TENSOR = range(1, 9)

_UNSET: Mapping[int, Attribute] = {_INT: 0, _FLOAT: 0.0, _STRING: ""}
"""The value of an attribute without one, by type: ONNX Runtime's C API refuses to read it, and its
kernels read protobuf's default."""


class AttributeReader:
    """Reads attributes through one reusable buffer; not thread-safe."""

    def __init__(self) -> None:
        self._facts: AttributeFacts = ffi.new("AttributeFacts *")
        self._resize(256)

    def _resize(self, capacity: int) -> None:
        self._capacity = capacity
        self._data = ffi.new("char[]", capacity)
        self._ints = ffi.cast("int64_t *", self._data)
        self._floats = ffi.cast("float *", self._data)

    def read_all(self, handles: Sequence[int]) -> Mapping[str, Attribute]:
        """Returns attributes by name.

        Omits subgraphs, which ONNX Runtime passes as separate graphs, and types and sparse
        tensors, which its C API cannot read.
        """
        if not handles:
            return NO_ATTRIBUTES
        return dict(pair for handle in handles if (pair := self._read(handle)) is not None)

    def _read(self, handle: int) -> tuple[str, Attribute] | None:
        facts = self._facts
        try:
            check(lib.read_attribute(handle, facts, self._data, self._capacity))
        except OrtError:
            if facts.type not in _UNSET:
                raise
            return text(facts.name), _UNSET[facts.type]
        if facts.bytes > self._capacity:
            self._resize(facts.bytes)
            check(lib.read_attribute(handle, facts, self._data, self._capacity))
        if facts.type in (_UNREAD, _GRAPH):
            return None
        return text(facts.name), self._value(handle, facts.type, facts.bytes)

    def _value(self, handle: int, kind: int, size: int) -> Attribute:
        if kind == _TENSOR:
            return _tensor(handle)
        if kind in (_INT, _INTS):
            ints = tuple(ffi.unpack(self._ints, size // 8))
            return ints if kind == _INTS else ints[0]
        if kind in (_FLOAT, _FLOATS):
            floats = tuple(ffi.unpack(self._floats, size // 4))
            return floats if kind == _FLOATS else floats[0]
        data = bytes(ffi.buffer(self._data, size)).decode("utf-8", "surrogateescape")
        return data.rstrip("\0") if kind == _STRING else tuple(data.split("\0")[:-1])


def _tensor(handle: int) -> Constant:
    value = ffi.new("OrtValue **")
    tensor: Tensor = ffi.new("Tensor *")
    status = lib.read_tensor_attribute(handle, value, tensor)
    try:
        check(status)
        return _copied(tensor)
    finally:
        if value[0]:
            lib.release_value(value[0])


def _copied(tensor: Tensor) -> Constant:
    kind, shape = dtype(tensor.dtype), shape_of(tensor)
    data = bytes(ffi.buffer(tensor.data, tensor.bytes)) if tensor.bytes else b""
    return Constant(shape, kind, lambda: np.ndarray(shape, kind.numpy, data))
