"""Types of the compiled module: declarations of native/ as Python sees them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import _cffi_backend

CData: TypeAlias = _cffi_backend._CDataBase

class Error:
    text: CData

class Tensor:
    name: CData
    type: int
    rank: int
    dims: Sequence[int]

class FFI:
    NULL: CData
    def cast(self, cdecl: str, source: object) -> CData: ...
    def buffer(self, cdata: CData, size: int) -> memoryview: ...
    def from_buffer(self, source: object) -> CData: ...
    def gc(self, cdata: CData, destructor: Callable[[CData], object]) -> CData: ...
    def new(self, cdecl: str, init: object = ...) -> Any: ...  # noqa: ANN401
    def string(self, cdata: CData) -> bytes: ...

class Lib:
    CTX_LITERT_FLOAT32: int
    CTX_LITERT_INT32: int
    CTX_LITERT_UINT8: int
    CTX_LITERT_INT64: int
    CTX_LITERT_BOOL: int
    CTX_LITERT_INT16: int
    CTX_LITERT_INT8: int
    CTX_LITERT_FLOAT16: int
    CTX_LITERT_FLOAT64: int
    def ctx_read(self, data: CData, size: int, out: CData, error: CData, /) -> bool: ...
    def ctx_unpack(
        self, container: CData, alternative: int, data: CData, out: CData, error: CData, /
    ) -> bool: ...
    def free(self, memory: CData, /) -> None: ...
    def ctx_note_of(
        self,
        folder: CData,
        about: bytes,
        size: int,
        kind: bytes,
        tried: bytes,
        by: bytes,
        by_size: int,
        /,
    ) -> CData: ...
    def ctx_note_is_free(self, note: CData, whole: bool, error: CData, /) -> bool: ...
    def ctx_note_begin(self, note: CData, text: bytes, /) -> None: ...
    def ctx_note_end(self, note: CData, /) -> None: ...
    def ctx_note_leave(self, note: CData, /) -> None: ...
    def ctx_note_write(self, note: CData, suffix: bytes, text: bytes, /) -> None: ...
    def runner(self) -> int: ...
    def ctx_litert_open(self, path: bytes, out: CData, error: CData) -> bool: ...
    def ctx_litert_accelerators(self, library: CData, mask: CData, error: CData) -> bool: ...
    def ctx_litert_compile(
        self, library: CData, flatbuffer: CData, options: CData, out: CData, error: CData
    ) -> bool: ...
    def ctx_litert_free(self, model: CData) -> None: ...
    def ctx_litert_tensors(
        self, model: CData, inputs: CData, outputs: CData
    ) -> Sequence[Tensor]: ...
    def ctx_litert_run(self, model: CData, inputs: CData, outputs: CData, error: CData) -> bool: ...
    def ctx_litert_run_sized(
        self, model: CData, sizes: CData, inputs: CData, outputs: CData, error: CData
    ) -> bool: ...

ffi: FFI
lib: Lib
