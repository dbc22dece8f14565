"""Reads nodes and values of an OrtGraph during the callback that brought it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import READABLE_RANK, Array, Constant, Dim, Value
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, check, dtype, text
from ep_nnapi.ort.attributes import AttributeReader
from ep_nnapi.ort.tensors import view

if TYPE_CHECKING:
    from ep_nnapi.ort._native import NodeFacts, Tensor, ValueFacts


class Reader:
    """Makes each value once, however many nodes share it; not for several threads at once.

    Constants are loaded when asked for, as read-only views over ONNX Runtime's memory that are
    valid until the callback returns; after `close` loading raises OrtError. An initializer that is
    also a graph input can be overridden by the session's caller, so it is not constant.
    """

    def __init__(self) -> None:
        self.handles: dict[int, int] = {}  # of the nodes read, by their id
        self._open = True
        self._values: dict[int, Value | None] = {0: None}
        self._by_name: dict[str, Value | None] = {"": None}
        self._node: NodeFacts = ffi.new("NodeFacts *")
        self._value: ValueFacts = ffi.new("ValueFacts *")
        self._attributes = AttributeReader()
        self._resize(64)

    def _resize(self, capacity: int) -> None:
        self._capacity = capacity
        self._members = ffi.new("uintptr_t[]", capacity)

    def close(self) -> None:
        """Ends the life of the constants."""
        self._open = False

    def node(self, handle: int) -> GraphNode:
        """One node."""
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
            implicit=tuple(v.name for v in self.present(members[first_implicit:first_attribute])),
            claimed_by=text(facts.claimed_by),
            members=(facts.id,),
        )

    def values(self, handles: Sequence[int]) -> tuple[Value | None, ...]:
        """The values behind handles; None for an omitted optional one."""
        known = self._values
        return tuple([known[h] if h in known else self._read_value(h) for h in handles])

    def present(self, handles: Sequence[int]) -> tuple[Value, ...]:
        """The values that are not omitted."""
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
        if facts.rank > READABLE_RANK:
            return Value(name, kind, (None,) * facts.rank)
        dims = ffi.unpack(facts.dims, facts.rank)
        if facts.constant:
            constant = Constant(tuple(dims), kind, lambda: self._load(name, handle))
            return Value(name, kind, tuple(dims), constant=constant)
        return Value(name, kind, self._named(dims))

    def _named(self, dims: list[int]) -> tuple[Dim, ...]:
        if not dims or min(dims) >= 0:
            return tuple(dims)
        symbols = self._value.symbols
        return tuple([d if d >= 0 else text(symbols[i]) or None for i, d in enumerate(dims)])

    def _load(self, name: str, handle: int) -> Array:
        if not self._open:
            raise OrtError(f"constant {name} is read after ONNX Runtime's callback has returned")
        tensor: Tensor = ffi.new("Tensor *")
        check(lib.read_initializer(handle, tensor))
        return view(tensor)


def first_name(outputs: Sequence[Value | None]) -> str:
    """The name of the first output that is there."""
    return next((value.name for value in outputs if value is not None), "")
