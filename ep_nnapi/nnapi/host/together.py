"""Runs at the same time, and the cores that numpy's BLAS uses for them."""

from __future__ import annotations

import os
from functools import cached_property
from threading import Condition, Lock, get_ident
from types import TracebackType

from threadpoolctl import LibController, ThreadpoolController


class RunsTogether:
    """A context that every run enters: while several are in it, each computes on its own thread.

    BLAS spreads a matrix product over every core. When several runs do so, their threads wait for
    each other, and all of them together take longer than one after the other. So BLAS is held to
    one thread from the moment a second run enters until the last one has left; then it has again
    what it had. The setting is the process's: products of the caller's own are held meanwhile.

    While a thread forks the process no run computes: they wait before their next operation.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: list[int] = []  # threads; lists grow and shrink without a lock
        self._before: list[int] = []  # threads of each BLAS, while it is held
        self._gate = Condition()
        self._forking: int | None = None  # the thread that forks, or waits until it can

    @cached_property
    def _pools(self) -> ThreadpoolController:
        """The BLAS libraries of this process, looked for when first needed: it takes a while."""
        return ThreadpoolController().select(user_api="blas")

    def __enter__(self) -> None:
        self._running.append(get_ident())
        self.let_fork()
        if len(self._running) > 1 and not self._before:
            self._hold()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(get_ident())
        if self._before and not self._running:
            self._release()

    def let_fork(self) -> None:
        """Between two operations of a run: waits while another thread forks the process."""
        me = get_ident()
        if self._forking is None or self._forking == me:
            return
        entered = self._running.count(me)
        for _ in range(entered):
            self._leave(me)
        with self._gate:
            while self._forking is not None:
                self._gate.wait()
            self._running += [me] * entered

    def _leave(self, thread: int) -> None:
        if thread in self._running:  # a fork within the run has emptied the list
            self._running.remove(thread)
        if self._forking is not None:
            with self._gate:
                self._gate.notify_all()

    def survive_forks(self) -> None:
        """Lets the process fork between operations only, and a forked one begin without runs.

        OpenBLAS stops its threads before a fork, and neither it nor the fork ever ends when another
        thread has them multiply. Its handler runs after those of Python, so these keep every run
        off BLAS first.
        """
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork,
            after_in_child=self._in_child,
        )

    def _before_fork(self) -> None:
        me = get_ident()
        with self._gate:
            while self._forking is not None:  # one fork after the other
                self._gate.wait()
            self._forking = me
            while any(thread != me for thread in self._running):
                self._gate.wait()
        self._lock.acquire()  # no fork amid a change of BLAS's threads

    def _after_fork(self) -> None:
        if self._lock.locked():  # not where an interrupt has ended the wait
            self._lock.release()
        with self._gate:
            self._forking = None
            self._gate.notify_all()

    def _in_child(self) -> None:
        self._lock, self._gate, self._forking = Lock(), Condition(), None
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
