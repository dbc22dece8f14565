"""Reader of an OrtGraph's nodes and values, for the duration of one callback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import MAX_NUMPY_RANK, Constant, Dim, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, check, dtype, text
from ep_nnapi.ort.attributes import AttributeReader
from ep_nnapi.ort.tensors import view

if TYPE_CHECKING:
    from ep_nnapi.ort._native import NodeFacts, Tensor, ValueFacts


class Reader:
    """Reads nodes and values, creating one Value for each name; not thread-safe.

    Constants are loaded on demand, as read-only views of ONNX Runtime's memory that are valid until
    the callback returns; after `close`, loading raises OrtError. An initializer that is also a
    graph input can be overridden by the session's caller, so it is not a constant.
    """

    def __init__(self) -> None:
        self.handles: dict[int, int] = {}  # handles of the nodes read so far, by node id
        self._open = True
        self._values: dict[int, Value | None] = {0: None}
        self._by_name: dict[str, Value | None] = {"": None}
        self._loaded: dict[str, Array] = {}  # constants by name
        self._node: NodeFacts = ffi.new("NodeFacts *")
        self._value: ValueFacts = ffi.new("ValueFacts *")
        self._attributes = AttributeReader()
        self._resize(64)

    def _resize(self, capacity: int) -> None:
        self._capacity = capacity
        self._members = ffi.new("uintptr_t[]", capacity)

    def close(self) -> None:
        """Disallows loading of constants from now on."""
        self._open = False
        self._loaded.clear()

    def node(self, handle: int) -> GraphNode:
        """Returns the node behind a handle; an unnamed one is named after its first output."""
        facts = self._node
        check(lib.read_node(handle, facts, self._members, self._capacity))
        first_implicit = facts.inputs + facts.outputs
        first_attribute = first_implicit + facts.implicit
        count = first_attribute + facts.attributes
        if count > self._capacity:
            self._resize(count)
            check(lib.read_node(handle, facts, self._members, self._capacity))
        members = ffi.unpack(self._members, count)
        self.handles[facts.id] = handle
        outputs = self.values(members[facts.inputs : first_implicit])
        return GraphNode(
            id=facts.id,
            name=text(facts.name) or first_name(outputs),
            op_type=text(facts.op_type),
            domain=text(facts.domain),
            since=facts.since,
            inputs=self.values(members[: facts.inputs]),
            outputs=outputs,
            attributes=self._attributes.read_all(members[first_attribute:]),
            implicit=tuple(
                [v.name for v in self.present_values(members[first_implicit:first_attribute])]
            ),
            claimed_by=text(facts.claimed_by),
            members=(facts.id,),
        )

    def values(self, handles: Sequence[int]) -> tuple[Value | None, ...]:
        """Returns the values behind handles; None for an omitted optional one."""
        known = self._values
        return tuple([known[h] if h in known else self._read_value(h) for h in handles])

    def present_values(self, handles: Sequence[int]) -> tuple[Value, ...]:
        """Returns the values behind handles, without omitted ones."""
        return tuple([value for value in self.values(handles) if value is not None])

    def _read_value(self, handle: int) -> Value | None:
        facts = self._value
        check(lib.read_value(handle, facts))
        name = text(facts.name)
        if name not in self._by_name:
            self._by_name[name] = self._make_value(name, handle)
        self._values[handle] = self._by_name[name]
        return self._values[handle]

    def _make_value(self, name: str, handle: int) -> Value:
        facts = self._value
        kind = dtype(facts.dtype)
        if not facts.has_shape:
            return Value(name, kind)
        if facts.rank > MAX_NUMPY_RANK:
            return Value(name, kind, (None,) * facts.rank)
        dims = ffi.unpack(facts.dims, facts.rank)
        if facts.constant:
            constant = Constant(tuple(dims), kind, lambda: self._load(name, handle))
            return Value(name, kind, tuple(dims), constant=constant)
        return Value(name, kind, self._symbolic_shape(dims))

    def _symbolic_shape(self, dims: list[int]) -> tuple[Dim, ...]:
        if not dims or min(dims) >= 0:
            return tuple(dims)
        symbols = self._value.symbols
        return tuple([d if d >= 0 else text(symbols[i]) or None for i, d in enumerate(dims)])

    def _load(self, name: str, handle: int) -> Array:
        if not self._open:
            raise OrtError(f"constant {name} is read after ONNX Runtime's callback has returned")
        if name not in self._loaded:
            tensor: Tensor = ffi.new("Tensor *")
            check(lib.read_initializer(handle, tensor))
            self._loaded[name] = view(tensor)
        return self._loaded[name]


def first_name(outputs: Sequence[Value | None]) -> str:
    """Returns the name of the first output that is not omitted; "" if there is none."""
    return next((value.name for value in outputs if value is not None), "")
