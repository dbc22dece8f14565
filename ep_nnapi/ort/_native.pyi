"""Types of the compiled module: native.h as Python sees it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import _cffi_backend

CData: TypeAlias = _cffi_backend._CDataBase

_F = TypeVar("_F", bound=Callable[..., int | CData | None])

class GraphFacts:
    name: CData
    path: CData
    inputs: int
    outputs: int
    nodes: int
    opsets: int
    parent: int

class NodeFacts:
    id: int
    name: CData
    op_type: CData
    domain: CData
    claimed_by: CData
    since: int
    inputs: int
    outputs: int
    implicit: int
    attributes: int

class ValueFacts:
    name: CData
    dtype: int
    has_shape: int
    rank: int
    dims: CData
    symbols: Sequence[CData]
    constant: int

class Tensor:
    dtype: int
    rank: int
    dims: CData
    data: CData
    bytes: int

class AttributeFacts:
    name: CData
    type: int
    bytes: int

class NewEvent:
    process: int
    thread: int
    name: CData
    start: int
    duration: int
    keys: CData
    values: CData
    count: int

class Call:
    context: CData
    status: CData
    inputs: Sequence[Tensor]

class FFI:
    NULL: CData
    def new(self, cdecl: str, init: object = ...) -> Any: ...  # noqa: ANN401
    def cast(self, cdecl: str, value: object) -> CData: ...
    def new_handle(self, x: object, /) -> CData: ...
    def from_handle(self, x: CData, /) -> Any: ...  # noqa: ANN401
    def string(self, cdata: CData) -> bytes: ...
    def unpack(self, cdata: CData, length: int) -> list[int]: ...
    def from_buffer(self, data: bytes) -> CData: ...
    def buffer(self, cdata: CData, size: int) -> memoryview: ...
    def def_extern(
        self, name: str = ..., error: int = ..., onerror: Callable[..., None] = ...
    ) -> Callable[[_F], _F]: ...

class Lib:
    def entry_points(self) -> int: ...
    def interrupt_later(self) -> None: ...
    def run_terminated(self) -> int: ...
    def create_status(self, message: bytes, /) -> CData: ...
    def status_message(self, status: CData, /) -> CData: ...
    def release_status(self, status: CData, /) -> None: ...
    def log_message(self, logger: int, severity: int, message: bytes, /) -> CData: ...
    def has_initialization_end(self) -> int: ...
    def read_config(
        self, options: CData, pairs: CData, keys: CData, values: CData, count: CData, /
    ) -> CData: ...
    def release_config(self, pairs: CData, /) -> None: ...
    def hardware_type(self, device: CData, /) -> int: ...
    def add_device(self, factory: CData, hardware: CData, device: CData, /) -> CData: ...
    def read_graph(self, graph: int, facts: GraphFacts, /) -> CData: ...
    def list_graph(
        self, graph: int, facts: GraphFacts, members: CData, domains: CData, versions: CData, /
    ) -> CData: ...
    def read_node(self, node: int, facts: NodeFacts, members: CData, capacity: int, /) -> CData: ...
    def count_inner(self, node: int, graphs: CData, /) -> CData: ...
    def list_inner(self, node: int, graphs: CData, attributes: CData, count: int, /) -> CData: ...
    def read_value(self, value: int, facts: ValueFacts, /) -> CData: ...
    def read_initializer(self, value: int, tensor: Tensor, /) -> CData: ...
    def read_attribute(
        self, attribute: int, facts: AttributeFacts, data: CData, capacity: int, /
    ) -> CData: ...
    def read_tensor_attribute(self, attribute: int, value: CData, tensor: Tensor, /) -> CData: ...
    def release_value(self, value: CData, /) -> None: ...
    def create_node(
        self,
        op_type: bytes,
        domain: bytes,
        name: bytes,
        inputs: Sequence[CData],
        input_count: int,
        outputs: Sequence[CData],
        output_count: int,
        attributes: CData,
        attribute_count: int,
        node: CData,
        /,
    ) -> CData: ...
    def add_cluster(self, support: CData, nodes: CData, count: int, /) -> CData: ...
    def make_output(self, call: Call, index: int, dims: CData, rank: int, /) -> CData: ...
    def add_event(self, events: int, event: NewEvent, /) -> CData: ...
    def new_factory(
        self, itself: CData, name: CData, vendor: CData, version: CData, /
    ) -> CData: ...
    def new_ep(self, itself: CData, name: CData, /) -> CData: ...
    def new_compute(self, itself: CData, inputs: int, outputs: int, /) -> CData: ...
    def new_profiler(self, itself: CData, /) -> CData: ...
    def free_profiler(self, profiler: CData, /) -> None: ...
    def free_ep(self, ep: CData, /) -> None: ...
    def free_compute(self, compute: CData, /) -> None: ...
    def compute_self(self, compute: CData, /) -> CData: ...

ffi: FFI
lib: Lib
