"""Runs at the same time, and the cores that numpy's BLAS uses for them."""

from __future__ import annotations

import os
from functools import cached_property
from threading import Lock
from types import TracebackType

from threadpoolctl import LibController, ThreadpoolController


class RunsTogether:
    """A context that every run enters: while several are in it, each computes on its own thread.

    BLAS spreads a matrix product over every core. When several runs do so, their threads wait for
    each other, and all of them together take longer than one after the other. So BLAS is held to
    one thread from the moment a second run enters until the last one has left; then it has again
    what it had. The setting is the process's: products of the caller's own are held meanwhile.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: list[None] = []  # lists grow and shrink without a lock, once for each run
        self._before: list[int] = []  # threads of each BLAS, while it is held

    @cached_property
    def _pools(self) -> ThreadpoolController:
        """The BLAS libraries of this process, looked for when first needed: it takes a while."""
        return ThreadpoolController().select(user_api="blas")

    def __enter__(self) -> None:
        self._running.append(None)
        if len(self._running) > 1 and not self._before:
            self._hold()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.pop()
        if self._before and not self._running:
            self._release()

    def survive_forks(self) -> None:
        """Lets no process fork amid a change, and forked ones be without other threads' runs."""
        unlock = self._lock.release
        os.register_at_fork(before=self._lock.acquire, after_in_parent=unlock)
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock.release()
        self._running.clear()
        if self._before:
            self._release()

    def _hold(self) -> None:
        with self._lock:
            if self._before or len(self._running) < 2:
                return
            pools = self._pools.lib_controllers
            self._before = [pool.num_threads for pool in pools]
            for pool in pools:
                set_threads(pool, 1)

    def _release(self) -> None:
        with self._lock:
            if self._running:
                return
            for pool, threads in zip(self._pools.lib_controllers, self._before, strict=False):
                set_threads(pool, threads)
            self._before = []


def set_threads(pool: LibController, threads: int) -> None:
    """Sets a BLAS's threads, which any other thread may set again.

    From threadpoolctl 3.7 on the thread that sets them is the only one that can, as long as it
    lives; but the run that leaves last is seldom the one that came second.
    """
    pool.set_num_threads(threads)
    if hasattr(pool, "clear_controlling_thread"):
        pool.clear_controlling_thread()


TOGETHER = RunsTogether()
"""Of this process."""
TOGETHER.survive_forks()
