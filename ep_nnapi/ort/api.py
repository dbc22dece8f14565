"""ONNX Runtime's C API in Python's terms: statuses as exceptions, strings, configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_nnapi.errors import NnapiError
from ep_nnapi.graph.value import DType
from ep_nnapi.ort._native import ffi, lib

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData


class OrtError(NnapiError):
    """ONNX Runtime refused a call that the plugin made."""


# ONNX Runtime's element types are ONNX's, but for the three youngest.
# Source: ONNXTensorElementDataType.
_DTYPES = {
    **{code: DType(code) for code in range(24)},
    24: DType.UINT2,
    25: DType.INT2,
    26: DType.FLOAT8E8M0,
}


def dtype(code: int) -> DType:
    """The element type of an ONNXTensorElementDataType; UNDEFINED for one not known here."""
    return _DTYPES.get(code, DType.UNDEFINED)


def text(string: CData) -> str:
    """A C string; "" for NULL. What is not UTF-8 survives as surrogates."""
    return ffi.string(string).decode("utf-8", "surrogateescape") if string else ""


def check(status: CData) -> None:
    """Raises OrtError with the message of `status`, which it releases; NULL is success."""
    if status:
        message = text(lib.status_message(status))
        lib.release_status(status)
        raise OrtError(f"onnxruntime: {message}")


def status_of(error: BaseException) -> CData:
    """An OrtStatus that says `error`: its own sentence, or type and text for a foreign one."""
    message = str(error)
    if not isinstance(error, NnapiError):
        message = f"{type(error).__name__}: {message}"
    return lib.create_status(message.encode("utf-8", "replace"))


def config(options: CData) -> dict[str, str]:
    """All configuration entries of an OrtSessionOptions."""
    pairs = ffi.new("OrtKeyValuePairs **")
    keys, values = ffi.new("const char *const **"), ffi.new("const char *const **")
    count = ffi.new("size_t *")
    check(lib.read_config(options, pairs, keys, values, count))
    try:
        return {text(keys[0][i]): text(values[0][i]) for i in range(count[0])}
    finally:
        lib.release_config(pairs[0])
