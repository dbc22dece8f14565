"""Reinitialization of shared state in the child process after a fork.

The child has one thread. A lock that another thread of the parent held would stay locked in the
child forever, and computations of those threads never finish there.
"""

from __future__ import annotations

import ctypes
import os
from threading import Lock
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Object shared between threads that must be reinitialized after a fork."""

    def after_fork(self) -> None:
        """Reinitialize; called in the child process before any other code runs there."""


_shared: WeakSet[Forked] = WeakSet()
_kept: WeakSet[object] = WeakSet()


def renew_after_fork(thing: Forked) -> None:
    """Register `thing`: every forked child calls `thing.after_fork()`. Held by a weak reference."""
    _shared.add(thing)


def keep_in_children(thing: object) -> None:
    """Have forked processes never release `thing`, whose release waits for threads of its own."""
    _kept.add(thing)


def _renew() -> None:
    for kept in tuple(_kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # also at the end of the process
    for thing in tuple(_shared):
        thing.after_fork()


os.register_at_fork(after_in_child=_renew)


class ForkableLock:
    """Lock that is always unlocked in a forked child, even if a parent thread held it."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        renew_after_fork(self)

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire as `threading.Lock.acquire` does."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Release the lock; no error if it is unlocked because a fork has replaced it."""
        if self._lock.locked():
            self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def after_fork(self) -> None:
        """Replace the lock by an unlocked one."""
        self._lock = Lock()
