"""Helpers for ONNX Runtime's C API: statuses as exceptions, strings, configuration entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ep_nnapi.errors import printable
from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.ort._native import ffi, lib

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData


class OrtError(NnapiError):
    """A call from the plugin to ONNX Runtime's C API failed."""


# ONNX Runtime numbers element types as ONNX does, except the three newest ones.
# Source: ONNXTensorElementDataType.
_DTYPES = {
    **{code: DType(code) for code in range(24)},
    24: DType.UINT2,
    25: DType.INT2,
    26: DType.FLOAT8E8M0,
}


_INFO, _WARNING = 1, 2  # Source: OrtLoggingLevel.


def dtype(code: int) -> DType:
    """Returns the element type of an ONNXTensorElementDataType; UNDEFINED if it is unknown."""
    return _DTYPES.get(code, DType.UNDEFINED)


def text(string: CData) -> str:
    """Returns a C string; "" for NULL. Bytes that are not UTF-8 become surrogate escapes."""
    return ffi.string(string).decode("utf-8", "surrogateescape") if string else ""


def check(status: CData) -> None:
    """Releases `status` and raises OrtError with its message; NULL means success."""
    if status:
        message = text(lib.status_message(status))
        lib.release_status(status)
        raise OrtError(f"onnxruntime: {message}")


def status_of(error: BaseException) -> CData:
    """Returns an OrtStatus for `error`: its message, after the type unless it is an NnapiError.

    Names in it may be those of an untrusted file, and the host may print it to a terminal.
    """
    message = str(error)
    if not isinstance(error, NnapiError):
        message = f"{type(error).__name__}: {message}"
    return lib.create_status(printable(message).encode())


def log(logger: int, message: str, *, warning: bool = False) -> None:
    """Logs a line through an OrtLogger, at INFO or WARNING."""
    severity = _WARNING if warning else _INFO
    check(lib.log_message(logger, severity, printable(message).encode()))


def config_entries(options: CData) -> dict[str, str]:
    """Returns all configuration entries of an OrtSessionOptions."""
    return _entries(lambda pairs: lib.read_config(options, pairs))


def environment_entries() -> dict[str, str]:
    """Returns all configuration entries of ONNX Runtime's environment, OrtEnv."""
    return _entries(lib.read_environment)


def _entries(read: Callable[[CData], CData]) -> dict[str, str]:
    """Returns the pairs that the C function `read` stores, and releases them."""
    pairs = ffi.new("OrtKeyValuePairs **")
    keys, values = ffi.new("const char *const **"), ffi.new("const char *const **")
    count = ffi.new("size_t *")
    check(read(pairs))
    try:
        lib.list_pairs(pairs[0], keys, values, count)
        return {text(keys[0][i]): text(values[0][i]) for i in range(count[0])}
    finally:
        lib.release_pairs(pairs[0])


@contextmanager
def key_value_pairs(entries: Mapping[str, str]) -> Iterator[CData]:
    """Yields an OrtKeyValuePairs with these entries."""
    keys = [ffi.new("char[]", name.encode()) for name in entries]
    values = [ffi.new("char[]", v.encode("utf-8", "surrogateescape")) for v in entries.values()]
    pairs = lib.new_pairs(keys, values, len(keys))
    try:
        yield pairs
    finally:
        lib.release_pairs(pairs)
