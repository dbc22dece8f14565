"""Interrupts that reach Python code inside a callback, through which no exception can pass.

Ctrl-C raises KeyboardInterrupt, and a signal handler may raise SystemExit, in whatever Python code
the main thread runs at that moment. The callback fails then, and the exception is raised again in
the main thread as soon as Python runs there: interrupts.c has that part. That is before or in the
handler of the caller's error; where nobody handles that error, it is in sys.excepthook, so that a
SystemExit ends the process with its code all the same.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType

_held: list[BaseException] = []
_restore: list[Callable[[], None]] = []


def hold(error: BaseException, later: Callable[[], None]) -> None:
    """Keeps an interrupt of the main thread, and has C raise it `later`; does nothing for others.

    Its frames are not kept: they may hold arrays over buffers of the caller.
    """
    if isinstance(error, Exception) or threading.current_thread() is not threading.main_thread():
        return
    error.__context__ = error.__cause__ = None
    _held.append(error.with_traceback(None))
    if len(_held) == 1:
        _replace_excepthook()
    later()


def _replace_excepthook() -> None:
    """Has Python run, and so raise what is held, before it reports an error that nobody handled.

    Its own hook is C, and no pending call is made before the process has ended with that error.
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
    """Raises the interrupt that is held, the first of several."""
    if _held:
        error = _held[0]
        _held.clear()
        _restore.pop()()
        raise error


def escaped(later: Callable[[], None]) -> Callable[..., None]:
    """The handler for what a callback raises before or after its own guard, as `hold`."""

    def handle(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            sys.excepthook(kind, error, traceback)
        hold(error, later)

    return handle
