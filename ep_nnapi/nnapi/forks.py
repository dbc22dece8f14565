"""What a forked process makes anew.

It has one thread. Locks that other threads of its parent held would stay locked in it for ever, and
what those threads were computing never ends.
"""

from __future__ import annotations

import os
from threading import Lock
from types import TracebackType
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Something that threads share."""

    def after_fork(self) -> None:
        """Called in the forked process, before anything else runs in it."""
        ...


_shared: WeakSet[Forked] = WeakSet()


def renew_after_fork(thing: Forked) -> None:
    """Has `thing.after_fork()` called in every forked process, as long as `thing` lives."""
    _shared.add(thing)


def _renew() -> None:
    for thing in tuple(_shared):
        thing.after_fork()


os.register_at_fork(after_in_child=_renew)


class ForkableLock:
    """A lock that is free in a forked process, whichever thread of the parent held it."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        renew_after_fork(self)

    def acquire(self, blocking: bool = True) -> bool:
        """As `threading.Lock.acquire`."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """As `threading.Lock.release`, but harmless for a lock that a fork has made anew."""
        if self._lock.locked():
            self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def after_fork(self) -> None:
        """Begins as a lock that nobody holds."""
        self._lock = Lock()
