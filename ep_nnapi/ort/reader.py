"""Reader of an OrtGraph: graphs, nodes, values and attributes, for the duration of one callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.graph.graph import NO_ATTRIBUTES, Attribute, Graph, GraphNode
from ep_nnapi.graph.value import MAX_NUMPY_RANK, Constant, DType, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, api, check, dtype, stored, text
from ep_nnapi.ort.shared import lasting

if TYPE_CHECKING:
    from ep_nnapi.ort._native import AttributeFacts, CData, NodeFacts, Tensor, ValueFacts


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Returns the shape of `tensor`."""
    return tuple(ffi.unpack(tensor.dims, tensor.rank)) if tensor.rank else ()


def view(tensor: Tensor) -> Array:
    """Returns a read-only view of `tensor`, or a copy of 8 bits for each number of 4.

    Raises Reject(DTYPE) for a type that numpy lacks.
    """
    kind, shape = dtype(tensor.dtype), shape_of(tensor)
    data = ffi.buffer(tensor.data, tensor.bytes) if tensor.bytes else b""
    if kind.widened is kind:
        array = np.ndarray(shape, kind.numpy, data)
    else:
        array = _unpacked(np.frombuffer(data, np.uint8), kind)[: prod(shape)].reshape(shape)
    array.flags.writeable = False
    return array


def _unpacked(pairs: Array, kind: DType) -> Array:
    """Returns the numbers of 4 bits, of which the lower half of a byte comes first."""
    numbers = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1)
    return numbers if kind is DType.UINT4 else (numbers ^ 8).view(np.int8) - np.int8(8)


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
    tensor, attribute = ffi.new("Tensor *"), ffi.cast("OrtOpAttr *", handle)
    value = stored("OrtValue *", api().OpAttr_GetTensorAttributeAsOrtValue, attribute)
    try:
        check(lib.read_tensor(value, tensor))
        return _copied(tensor)
    finally:
        api().ReleaseValue(value)


def _copied(tensor: Tensor) -> Constant:
    kind, shape = dtype(tensor.dtype), shape_of(tensor)
    data = bytes(ffi.buffer(tensor.data, tensor.bytes)) if tensor.bytes else b""
    return Constant(shape, kind, lambda: np.ndarray(shape, kind.numpy, data))


class Reader:
    """Reads nodes and values, creating one Value for each name; not thread-safe.

    Constants are loaded on demand, as read-only views of ONNX Runtime's memory that are valid until
    the callback returns, large ones for as long as they live; after `close`, loading raises
    OrtError. An initializer that is also a graph input can be overridden by the session's caller,
    so it is not a constant.
    """

    def __init__(self) -> None:
        self.handles: dict[int, int] = {}  # handles of the nodes read so far, by node id
        self.model_path = ""  # of the graph that is read
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
        self._values.clear()  # whose constants refer to this object
        self._by_name.clear()

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
            read = kind.widened
            large = read.readable and prod(dims) * read.numpy.itemsize >= _LARGE
            load = partial(self._load, name, handle, lasts=large)
            constant = Constant(tuple(dims), kind, cache(load) if large else load, owned=large)
            return Value(name, kind, tuple(dims), constant=constant)
        if dims and min(dims) < 0:
            symbols, sizes = facts.symbols, enumerate(dims)
            open_dims = tuple([d if d >= 0 else text(symbols[i]) or None for i, d in sizes])
            return Value(name, kind, open_dims)
        return Value(name, kind, tuple(dims))

    def _load(self, name: str, handle: int, *, lasts: bool) -> Array:
        if not self._open:
            raise OrtError(f"constant {name} is read after ONNX Runtime's callback has returned")
        if name not in self._loaded:
            tensor, info = ffi.new("Tensor *"), ffi.cast("OrtValueInfo *", handle)
            try:
                value = stored("const OrtValue *", api().ValueInfo_GetInitializerValue, info)
            except OrtError as error:  # an outer graph's, or the file of external data is too short
                self._loaded[name] = self._external(name, info, str(error))
                return self._loaded[name]
            check(lib.read_tensor(value, tensor))
            self._loaded[name] = _lasting_view(value, tensor) if lasts else view(tensor)
        return self._loaded[name]

    def _external(self, name: str, info: CData, why: str) -> Array:
        """Maps a constant's external data, which ONNX Runtime finds in the value's own graph alone.

        Raises ModelError(why) if it is not in a file, or that is too short.
        """
        value, facts = self._by_name[name], None
        with suppress(OrtError):
            facts = stored(_EXTERNAL, api().ValueInfo_GetExternalInitializerInfo, info)
        if value is None or not facts or value.dtype.widened is not value.dtype:
            raise ModelError(f"constant {name} cannot be read: {why}")
        path = Path(self.model_path).parent / text(api().ExternalInitializerInfo_GetFilePath(facts))
        start = api().ExternalInitializerInfo_GetFileOffset(facts)
        api().ReleaseExternalInitializerInfo(facts)
        try:
            return np.memmap(path, value.dtype.numpy, "r", start, value.shape)
        except (OSError, ValueError):
            raise ModelError(f"constant {name} cannot be read: {why}") from None


_EXTERNAL = "OrtExternalInitializerInfo *"
_LARGE = 1 << 20
"""Bytes of constants from which on their memory is kept instead of copied."""


def _lasting_view(value: CData, tensor: Tensor) -> Array:
    """Returns a view of `tensor`, that of `value`, which may be read for as long as it lives."""
    kind = dtype(tensor.dtype)
    data = lasting(value, tensor) if kind.readable else None
    if data is None:
        return view(tensor).copy()
    array = np.ndarray(shape_of(tensor), kind.numpy, ffi.buffer(data, tensor.bytes))
    array.flags.writeable = False
    return array


def first_name(outputs: Sequence[Value | None]) -> str:
    """Returns the name of the first output that is not omitted; "" if there is none."""
    return next((value.name for value in outputs if value is not None), "")


@frozen
class _Members:
    """Members of an OrtGraph, as handles; `parent` is the node whose subgraph it is, or 0."""

    name: str
    path: str
    parent: int
    inputs: list[int]
    outputs: list[int]
    nodes: list[int]
    opsets: Mapping[str, int]


def read_graph(handle: int, reader: Reader) -> Graph:
    """Returns the OrtGraph behind `handle`; nodes are in topological order.

    `reader` reads the values and, until it is closed, the constants. Graph inputs include
    overridable initializers. The key is "" for the model's main graph, else the parent node and its
    attribute: "If_3.then_branch". The graph of the parent node is not part of the key, as ONNX
    Runtime does not expose it.
    """
    members = _members(handle)
    reader.model_path = members.path
    return Graph(
        key=_key(members),
        nodes=tuple(map(reader.node, members.nodes)),
        inputs=reader.present_values(members.inputs),
        outputs=reader.present_values(members.outputs),
        opsets=members.opsets,
        path=members.path,
    )


def is_inlined_later(handle: int) -> bool:
    """Returns True if the graph is the body of a function that ONNX Runtime will inline later.

    GetCapability is called again after inlining, and clusters taken before would be lost. Among
    ONNX's operators with a body, only SequenceMap is a function; the others have kernels.
    """
    parent = _members(handle).parent
    if not parent:
        return False
    parent_node = Reader().node(parent)
    return (parent_node.domain, parent_node.op_type) == ("", "SequenceMap")


def count_subgraphs(handle: int) -> int:
    """Returns the number of subgraphs in a graph, of all depths, that are not inlined later."""
    inner = [graph for node in _members(handle).nodes for graph, _ in _inner_graphs(node)]
    return sum(1 + count_subgraphs(graph) for graph in inner if not is_inlined_later(graph))


def first_unclaimed_node(handle: int) -> int:
    """Returns the first node that is not assigned to a provider; 0 if there is none."""
    nodes = _members(handle).nodes
    return next((node for node in nodes if not Reader().node(node).claimed_by), 0)


def count_nodes(handle: int) -> int:
    """Returns the number of nodes of a graph."""
    return int(stored("size_t", api().Graph_GetNumNodes, ffi.cast("OrtGraph *", handle)))


def _members(handle: int) -> _Members:
    ort, graph = api(), ffi.cast("OrtGraph *", handle)
    opsets = stored("size_t", ort.Graph_GetNumOperatorSets, graph)
    domains = ffi.new("const char *[]", opsets + 1)
    versions = ffi.new("int64_t[]", opsets + 1)
    check(ort.Graph_GetOperatorSets(graph, domains, versions, opsets))
    return _Members(
        name=text(stored("const char *", ort.Graph_GetName, graph)),
        path=text(stored("const char *", ort.Graph_GetModelPath, graph)),
        parent=_number(stored("const OrtNode *", ort.Graph_GetParentNode, graph)),
        inputs=_listed(graph, ort.Graph_GetNumInputs, ort.Graph_GetInputs, "OrtValueInfo"),
        outputs=_listed(graph, ort.Graph_GetNumOutputs, ort.Graph_GetOutputs, "OrtValueInfo"),
        nodes=_listed(graph, ort.Graph_GetNumNodes, ort.Graph_GetNodes, "OrtNode"),
        opsets={text(domains[i]): versions[i] for i in range(opsets)},
    )


def _number(handle: CData) -> int:
    return int(ffi.cast("uintptr_t", handle))


def _listed(
    owner: CData,
    count: Callable[[CData, CData], CData],
    list_into: Callable[[CData, CData, int], CData],
    kind: str,
) -> list[int]:
    """Returns the members of a graph, as handles."""
    number = stored("size_t", count, owner)
    handles = ffi.new("uintptr_t[]", number + 1)
    check(list_into(owner, ffi.cast(f"const {kind} **", handles), number))
    return ffi.unpack(handles, number)


def _key(members: _Members) -> str:
    if not members.parent:
        return ""
    parent_name = Reader().node(members.parent).name
    own = _signature(members)
    for inner, attribute in _inner_graphs(members.parent):
        if _signature(_members(inner)) == own:
            return f"{parent_name}.{attribute}"
    return parent_name


def _signature(members: _Members) -> tuple[str, int, tuple[str, ...]]:
    """Returns data to identify a subgraph among those of its node.

    Handles cannot identify it, as they differ from callback to callback.
    """
    outputs = Reader().present_values(members.outputs)
    return members.name, len(members.nodes), tuple(value.name for value in outputs)


def _inner_graphs(node: int) -> Iterator[tuple[int, str]]:
    ort, owner = api(), ffi.cast("OrtNode *", node)
    count = stored("size_t", ort.Node_GetNumSubgraphs, owner)
    graphs = ffi.new("const OrtGraph *[]", count + 1)
    attributes = ffi.new("const char *[]", count + 1)
    check(ort.Node_GetSubgraphs(owner, graphs, count, attributes))
    for i in range(count):
        yield _number(graphs[i]), text(attributes[i])
