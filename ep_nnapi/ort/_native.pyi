"""Types of the compiled module: native.h as Python sees it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import _cffi_backend

CData: TypeAlias = _cffi_backend._CDataBase

_F = TypeVar("_F", bound=Callable[..., int | CData | None])

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

class Call:
    context: CData
    status: CData
    inputs: Sequence[Tensor]

class DirectRun:
    session: CData
    input_names: CData
    output_names: CData
    runner: CData
    model: CData
    given: CData
    inputs: CData
    outputs: CData
    given_count: int
    input_count: int
    output_count: int
    long_ns: int

class FFI:
    NULL: CData
    def gc(self, owned: Any, release: Callable[..., None], /) -> Any: ...  # noqa: ANN401
    def new(self, cdecl: str, init: object = ...) -> Any: ...  # noqa: ANN401
    def cast(self, cdecl: str, value: object) -> CData: ...
    def new_handle(self, x: object, /) -> CData: ...
    def from_handle(self, x: CData, /) -> Any: ...  # noqa: ANN401
    def string(self, cdata: CData) -> bytes: ...
    def unpack(self, cdata: CData, length: int) -> list[int]: ...
    def from_buffer(self, data: bytes) -> CData: ...
    def addressof(self, struct: CData, field: str, /) -> CData: ...
    def buffer(self, cdata: CData, size: int) -> memoryview: ...
    def def_extern(
        self, name: str = ..., error: CData = ..., onerror: Callable[..., None] = ...
    ) -> Callable[[_F], _F]: ...

class Lib:
    SIZE_SYMBOL: int
    SIZE_NUMBER: int
    SIZE_ADD: int
    SIZE_MULTIPLY: int
    SIZE_DIVIDE: int
    SIZE_ZERO: int
    SIZE_NONZERO: int
    SIZE_NOT_NEGATIVE: int
    SIZE_STORE: int
    MOST_SYMBOLS: int
    MOST_SIZES: int
    MOST_OPERANDS: int
    MOST_DIRECT_TENSORS: int
    MOST_DIRECT_RUNS: int
    def entry_points(self) -> int: ...
    def interrupt_later(self) -> None: ...
    def name_run_options(self, names: CData, count: int, /) -> None: ...
    def run_terminated(self) -> int: ...
    def create_status(self, message: bytes, /) -> CData: ...
    def read_node(self, node: int, facts: NodeFacts, members: CData, capacity: int, /) -> CData: ...
    def count_inner(self, node: int, graphs: CData, /) -> CData: ...
    def list_inner(self, node: int, graphs: CData, attributes: CData, count: int, /) -> CData: ...
    def read_value(self, value: int, facts: ValueFacts, /) -> CData: ...
    def read_attribute(
        self, attribute: int, facts: AttributeFacts, data: CData, capacity: int, /
    ) -> CData: ...
    def add_cluster(
        self, support: CData, nodes: CData, count: int, takes_constants: int, /
    ) -> CData: ...
    def ort_api(self) -> CData: ...
    def ort_ep_api(self) -> CData: ...
    def ort_version(self) -> int: ...
    def read_tensor(self, value: CData, tensor: Tensor, /) -> CData: ...
    def running_version(self) -> CData: ...
    def close_inner_session(self, session: CData, /) -> None: ...
    def run_inner_session(
        self, session: CData, inputs: CData, outputs: CData, options: CData, results: CData, /
    ) -> CData: ...
    def set_direct_run(self, compute: CData, index: int, run: CData, /) -> int: ...
    def last_direct_run(self, compute: CData, index: int, /) -> int: ...
    def hold_direct_runs(self, hold: int, /) -> None: ...
    def count_direct_runs(self) -> int: ...
    def forget_direct_runs(self) -> None: ...
    def make_output(self, call: Call, index: int, dims: CData, rank: int, /) -> CData: ...
    def time_compute(self, ends: CData, /) -> int: ...
    def new_factory(
        self, itself: CData, name: CData, vendor: CData, version: CData, /
    ) -> CData: ...
    def new_ep(self, itself: CData, name: CData, /) -> CData: ...
    def new_compute(self, itself: CData, inputs: int, outputs: int, /) -> CData: ...
    def new_profiler(self, itself: CData, /) -> CData: ...
    def free_profiler(self, profiler: CData, /) -> None: ...
    def free_ep(self, ep: CData, /) -> None: ...
    def free_compute(self, compute: CData, /) -> None: ...

ffi: FFI
lib: Lib
