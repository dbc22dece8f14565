# ruff: noqa: N815 (structures have the NDK's names)
"""Types of the compiled module: callbacks and the structures of the C API."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from _cffi_backend import _CDataBase

_F = TypeVar("_F", bound=Callable[..., int | None])

CData: TypeAlias = _CDataBase

class OperandType:
    type: int
    dimensionCount: int
    dimensions: CData
    scale: float
    zeroPoint: int

class ChannelParams:
    channelDim: int
    scaleCount: int
    scales: CData

class FFI:
    NULL: CData
    def buffer(self, cdata: CData, size: int = ...) -> memoryview: ...
    def cast(self, cdecl: str, source: object) -> CData: ...
    def def_extern(
        self, *, name: str, error: int | None = ..., onerror: Callable[..., None] = ...
    ) -> Callable[[_F], _F]: ...
    def new(self, cdecl: str, init: object = ...) -> CData: ...
    def string(self, cdata: CData, maxlen: int = ...) -> bytes: ...
    def unpack(self, cdata: CData, length: int) -> list[int]: ...

class Lib:
    def table(self) -> int: ...
    def read_own_memory(self, address: int, into: CData, size: int) -> int: ...
    def interrupt_later(self) -> None: ...
    def watch_exit(self) -> int: ...

ffi: FFI
lib: Lib
