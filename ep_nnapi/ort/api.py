"""ONNX Runtime's C API for Python: names, statuses as exceptions, strings, session entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.errors import NnapiError, printable
from ep_nnapi.ort._native import ffi, lib

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData


EP_NAME = "NnapiPluginExecutionProvider"
VENDOR = "ep-nnapi"
_VIRTUAL = ".virtual"  # Source: OrtApi::RegisterExecutionProviderLibrary.
ALLOW_VIRTUAL = "allow_virtual_devices"  # Source: kOrtEnvAllowVirtualDevices.
_OPTION_PREFIX = f"ep.{EP_NAME.lower()}."


def semantic_version() -> str:
    """Returns the package's version as x.y.z for ONNX Runtime; 0.0.0 if it is not installed."""
    try:
        release = re.match(r"\d+\.\d+\.\d+", version("ep-nnapi"))
    except PackageNotFoundError:
        release = None
    return release.group() if release else "0.0.0"


def provider_options(entries: Mapping[str, str]) -> dict[str, str]:
    """Returns this provider's options from a session's configuration entries, without prefix.

    >>> provider_options({"ep.nnapipluginexecutionprovider.flags": "1", "session.load": "x"})
    {'flags': '1'}
    """
    start = len(_OPTION_PREFIX)
    return {k[start:]: v for k, v in entries.items() if k.startswith(_OPTION_PREFIX)}


def is_virtual(registered_name: str) -> bool:
    """Returns True if a library that is registered under this name offers virtual devices.

    >>> is_virtual("nnapi.virtual"), is_virtual("nnapi")
    (True, False)
    """
    return registered_name.endswith(_VIRTUAL)


def without_prefix(name: str) -> str:
    """Returns a provider option's name without this provider's prefix, if it has it.

    >>> without_prefix("ep.nnapipluginexecutionprovider.priority"), without_prefix("priority")
    ('priority', 'priority')
    """
    return name.removeprefix(_OPTION_PREFIX)


def with_prefix(name: str) -> str:
    """Returns the configuration entry of a provider option.

    >>> with_prefix("priority")
    'ep.nnapipluginexecutionprovider.priority'
    """
    return f"{_OPTION_PREFIX}{name}"


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


def stored(kind: str, read: Callable[..., CData], *given: object) -> Any:  # noqa: ANN401
    """Returns what a function of ONNX Runtime's stores in its last argument, which is of `kind`."""
    place = ffi.new(f"{kind} *")
    check(read(*given, place))
    return place[0]


def strings(texts: Iterable[str], errors: str = "surrogateescape") -> tuple[CData, list[CData]]:
    """Returns an array of C strings, and what must live as long as it."""
    owned = [ffi.new("char[]", text.encode("utf-8", errors)) for text in texts]
    return ffi.new("const char *[]", owned), owned


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
    keys, values = ffi.new("const char *const **"), ffi.new("const char *const **")
    count, pairs = ffi.new("size_t *"), stored("OrtKeyValuePairs *", read)
    try:
        api().GetKeyValuePairs(pairs, keys, values, count)
        return {text(keys[0][i]): text(values[0][i]) for i in range(count[0])}
    finally:
        api().ReleaseKeyValuePairs(pairs)


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
