"""Shared libraries of custom operators, registered in every session made while one is in force.

Sessions are made deep inside of checking, running and preparing, for parts of models too; each of
them may have nodes of the library, so this is not passed from hand to hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import onnxruntime

from ep_nnapi.errors import OptionError

_library: ContextVar[str | None] = ContextVar("custom_ops_library", default=None)
_UNKNOWN = re.compile(
    r"Fatal error: (?P<domain>[^\s:]+):(?P<name>\w+)\(.*not a registered function/op"
)
_KNOWN = {"ai.onnx", "com.microsoft"}


@contextmanager
def custom_ops(library: str | None) -> Iterator[None]:
    """Registers the library in all sessions that this thread makes within; None: no library."""
    token = _library.set(library)
    try:
        yield
    finally:
        _library.reset(token)


def register_custom_ops(options: onnxruntime.SessionOptions) -> None:
    """Registers what is in force; raises OptionError for a file that is no such library."""
    library = _library.get()
    if library is None:
        return
    try:
        options.register_custom_ops_library(library)
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        said = str(error).rpartition(": FAIL : ")[2]
        raise OptionError(f"custom_ops_library cannot be used: {said}") from None


def advice(error: str) -> str:
    """What to do where ONNX Runtime says that it does not know an operator's domain."""
    found = _UNKNOWN.search(error)
    if found is None or found["domain"] in _KNOWN:
        return ""
    return (
        f"; operator {found['name']} is of domain {found['domain']}, which is not ONNX Runtime's "
        "own: give the shared library that has it as custom_ops_library (--custom-ops-library FILE)"
    )
