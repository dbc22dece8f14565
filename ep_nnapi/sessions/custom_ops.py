"""Registration of a custom operator library in every session created within a context.

Checking, running and preparing create sessions at many depths, also for parts of models, and each
may have nodes of the library. A context variable avoids passing it through all calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import onnxruntime

from ep_nnapi.nnapi.errors import OptionError

_library: ContextVar[str | None] = ContextVar("custom_ops_library", default=None)
_UNKNOWN = re.compile(
    r"Fatal error: (?P<domain>[^\s:]+):(?P<name>\w+)\(.*not a registered function/op"
)
_KNOWN = {"ai.onnx", "com.microsoft"}
_OWN = _KNOWN | {
    "",
    "ai.onnx.ml",
    "ai.onnx.training",
    "com.microsoft.nchwc",
    "com.ms.internal.nhwc",
}


@contextmanager
def custom_ops(library: str | None) -> Iterator[None]:
    """Registers the library in all sessions of this thread within the context; None for none."""
    token = _library.set(library)
    try:
        yield
    finally:
        _library.reset(token)


def custom_ops_library() -> str | None:
    """Returns the library that the context registers; None for none."""
    return _library.get()


def is_custom(domain: str) -> bool:
    """True for domains whose operators are neither ONNX's nor ONNX Runtime's own."""
    return domain not in _OWN and not domain.startswith("ai.onnx.preview")


def register_custom_ops(options: onnxruntime.SessionOptions) -> None:
    """Registers the context's library, if any; raises OptionError if it cannot be loaded."""
    library = custom_ops_library()
    if library is None:
        return
    try:
        options.register_custom_ops_library(library)
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        said = str(error).rpartition(": FAIL : ")[2]
        raise OptionError(f"custom_ops_library cannot be used: {said}") from None


def advice(error: str) -> str:
    """Advice for an ONNX Runtime error about an unknown operator domain; "" for other errors."""
    found = _UNKNOWN.search(error)
    if found is None or found["domain"] in _KNOWN:
        return ""
    return (
        f"; operator {found['name']} is of domain {found['domain']}, which is not ONNX Runtime's "
        "own: give the shared library that has it as custom_ops_library (--custom-ops-library FILE)"
    )
