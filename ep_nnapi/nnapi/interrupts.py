"""Deferral of KeyboardInterrupt and SystemExit raised inside C callbacks.

Ctrl-C raises KeyboardInterrupt, and a signal handler may raise SystemExit, in whatever Python code
the main thread runs at that moment. No exception can propagate through a C callback: the callback
fails, and the exception is raised again in the main thread as soon as Python code runs there
(see interrupts.c). That is before or in the handler of the caller's error. If that error is not
handled, it is in sys.excepthook, so that SystemExit still ends the process with its exit code.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType

_held: list[BaseException] = []
_restore: list[Callable[[], None]] = []


def hold(error: BaseException, later: Callable[[], None]) -> None:
    """Store an interrupt of the main thread and call `later`, which schedules `raise_held` in C.

    Does nothing for other threads or ordinary exceptions. The traceback is dropped: its frames may
    reference arrays over the caller's buffers.
    """
    if isinstance(error, Exception) or threading.current_thread() is not threading.main_thread():
        return
    error.__context__ = error.__cause__ = None
    _held.append(error.with_traceback(None))
    if len(_held) == 1:
        _replace_excepthook()
    later()


def _replace_excepthook() -> None:
    """Install a Python sys.excepthook, so that the stored interrupt is raised in it.

    The default hook is C code: the process would end before CPython makes the pending call.
    """
    before = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        before(kind, error, traceback)

    def restore() -> None:
        if sys.excepthook is hook:
            sys.excepthook = before

    sys.excepthook = hook
    _restore.append(restore)


def raise_held() -> None:
    """Raise the stored interrupt (the first, if there are several) and clear the store."""
    if _held:
        error = _held[0]
        _held.clear()
        _restore.pop()()
        raise error


def escaped(later: Callable[[], None]) -> Callable[..., None]:
    """Return a handler for exceptions raised in a callback outside its own try block.

    It reports ordinary exceptions and passes interrupts to `hold`.
    """

    def handle(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            sys.excepthook(kind, error, traceback)
        hold(error, later)

    return handle
