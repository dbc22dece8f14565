"""Python callbacks of C code: their status, and the objects that C structs stand for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from ep_nnapi.nnapi.interrupts import escaped, hold
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import status_of

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData

_P = ParamSpec("_P")
OK, FAILED = 0, 1
ESCAPED = escaped(lib.interrupt_later)

# Python objects by their C struct: C holds only a handle, so this keeps them alive.
live_objects: dict[CData, tuple[CData, object]] = {}


def new_struct(make: Callable[..., CData], itself: object, *arguments: object) -> CData:
    """Returns a new C struct with a handle to `itself`, kept alive until it is released."""
    handle = ffi.new_handle(itself)
    struct = make(handle, *arguments)
    if not struct:
        raise MemoryError
    live_objects[struct] = (handle, itself)
    return struct


def release_of(
    free: Callable[[CData], None], close: Callable[[Any], None] | None = None
) -> Callable[[CData], None]:
    """Returns the function that drops the object of a C struct and frees the struct by `free`.

    close   called with the object before, unless Python shuts down

    It refers to no global name: Python, as it shuts down, sets those of a module to None before
    the last sessions are released.
    """
    objects, shuts_down = live_objects, sys.is_finalizing

    def release(struct: CData) -> None:
        try:
            if close is not None and not shuts_down():
                close(objects[struct][1])
        finally:
            del objects[struct]
            free(struct)

    return release


def with_status(function: Callable[_P, None]) -> Callable[_P, int]:
    """Decorator for callbacks: turns exceptions into an OrtStatus, stored in the last argument."""

    @wraps(function)
    def callback(*args: _P.args, **kwargs: _P.kwargs) -> int:
        try:
            function(*args, **kwargs)
        except BaseException as error:
            args[-1][0] = status_of(error)  # type: ignore[index]
            hold(error, lib.interrupt_later)
            _drop_tracebacks(error)
            return FAILED
        return OK

    return callback


def _drop_tracebacks(error: BaseException) -> None:
    """Removes the tracebacks of an exception and of those that led to it.

    A provider may keep the exception. Frames refer to their callers, among them the one that
    creates the session; through C, the session keeps the provider: it would never be released.
    """
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        found = chain.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        found.__traceback__ = None
        chain += found.__cause__, found.__context__
