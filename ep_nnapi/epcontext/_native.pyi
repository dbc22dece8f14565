"""Types of the compiled module: native/container.h as Python sees it."""

from typing import Any, TypeAlias

import _cffi_backend

CData: TypeAlias = _cffi_backend._CDataBase

class FFI:
    def buffer(self, cdata: CData, size: int) -> memoryview: ...
    def from_buffer(self, data: bytes) -> CData: ...
    def new(self, cdecl: str) -> Any: ...  # noqa: ANN401
    def string(self, cdata: CData) -> bytes: ...

class Lib:
    def ctx_read(self, data: CData, size: int, out: CData, error: CData, /) -> bool: ...
    def ctx_unpack(
        self, container: CData, alternative: int, data: CData, out: CData, error: CData, /
    ) -> bool: ...
    def free(self, memory: CData, /) -> None: ...

ffi: FFI
lib: Lib
