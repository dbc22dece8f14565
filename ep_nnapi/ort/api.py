"""Helpers for ONNX Runtime's C API: statuses as exceptions, strings, configuration entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import NnapiError, printable
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.names import EP_NAME

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


def api() -> Any:  # noqa: ANN401
    """Returns the OrtApi of the ONNX Runtime that has loaded the plugin; NULL before."""
    return lib.ort_api()


def ep_api() -> Any:  # noqa: ANN401
    """Returns its OrtEpApi."""
    return lib.ort_ep_api()


def dtype(code: int) -> DType:
    """Returns the element type of an ONNXTensorElementDataType; UNDEFINED if it is unknown."""
    return _DTYPES.get(code, DType.UNDEFINED)


def text(string: CData) -> str:
    """Returns a C string; "" for NULL. Bytes that are not UTF-8 become surrogate escapes."""
    return ffi.string(string).decode("utf-8", "surrogateescape") if string else ""


def check(status: CData) -> None:
    """Releases `status` and raises OrtError with its message; NULL means success."""
    if status:
        message = text(api().GetErrorMessage(status))
        api().ReleaseStatus(status)
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
    log_to, line = ffi.cast("OrtLogger *", logger), printable(message).encode()
    check(api().Logger_LogMessage(log_to, severity, line, b"ep_nnapi", 0, EP_NAME.encode()))


def config_entries(options: CData) -> dict[str, str]:
    """Returns all configuration entries of an OrtSessionOptions."""
    return _entries(lambda pairs: api().GetSessionOptionsConfigEntries(options, pairs))


def environment_entries() -> dict[str, str]:
    """Returns all configuration entries of ONNX Runtime's environment, OrtEnv."""
    return _entries(ep_api().GetEnvConfigEntries)


def _entries(read: Callable[[CData], CData]) -> dict[str, str]:
    """Returns the pairs that the C function `read` stores, and releases them."""
    pairs = ffi.new("OrtKeyValuePairs **")
    keys, values = ffi.new("const char *const **"), ffi.new("const char *const **")
    count = ffi.new("size_t *")
    check(read(pairs))
    try:
        api().GetKeyValuePairs(pairs[0], keys, values, count)
        return {text(keys[0][i]): text(values[0][i]) for i in range(count[0])}
    finally:
        api().ReleaseKeyValuePairs(pairs[0])


@contextmanager
def key_value_pairs(entries: Mapping[str, str]) -> Iterator[CData]:
    """Yields an OrtKeyValuePairs with these entries."""
    pairs = ffi.new("OrtKeyValuePairs **")
    api().CreateKeyValuePairs(pairs)
    for name, value in entries.items():
        api().AddKeyValuePair(pairs[0], name.encode(), value.encode("utf-8", "surrogateescape"))
    try:
        yield pairs[0]
    finally:
        api().ReleaseKeyValuePairs(pairs[0])
