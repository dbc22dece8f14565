"""Run control: deadline and cancellation; with several runs, BLAS threads, forks, process exit."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 (see register_handlers)
import os
import time
from collections.abc import Callable
from functools import cached_property
from threading import Condition, Lock, get_ident

from threadpoolctl import LibController, ThreadpoolController

from ep_nnapi.nnapi.codes import COMPUTE, ResultCode, failure
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.runtime import RunOptions, TimedOperation

_LONGEST_EXIT = 60.0
"""Seconds that the end of the process waits for runs."""

_LONGEST_PAUSE = 5.0
"""Seconds that runs wait then: those of other threads until they are gone, but not for ever, as an
exit handler may wait for one of them."""


class ConcurrentRuns:
    """Context that every run enters; BLAS is single-threaded while several runs are in it.

    BLAS splits a matrix product over all cores. If several runs do so, their threads compete, and
    the runs take longer than one after the other. So BLAS is limited to one thread from the time a
    second run enters until the last one leaves; then its number of threads is restored. The setting
    is per process, so it also affects the caller's own matrix products.

    While a thread forks or ends the process, all runs of others wait before their next operation.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: list[int] = []  # thread ids; list operations are atomic, so no lock
        self._threads_before: list[int] = []  # threads of each BLAS to restore; empty: no limit
        self._fork_ended = Condition()
        self._forking: int | None = None  # id of the thread that forks or waits to fork
        self._ending = False  # the process, instead of a fork
        self.without_blas = _WithoutBlas(self)

    @cached_property
    def _blas_libraries(self) -> ThreadpoolController:
        """The BLAS libraries of this process; found on first use, because the search is slow."""
        return ThreadpoolController().select(user_api="blas")

    def enter(self) -> None:
        """Register a run of this thread; waits while another thread forks the process."""
        self._running.append(get_ident())
        self.wait_for_fork()

    def __enter__(self) -> None:
        self.enter()
        if len(self._running) > 1 and not self._threads_before:
            self._limit_blas_threads()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Remove a run of this thread."""
        self._leave(get_ident())
        if self._threads_before and not self._running:
            self._restore_blas_threads()

    def wait_for_fork(self) -> None:
        """Wait while another thread forks the process; called between operations of a run."""
        thread = get_ident()
        if self._forking is None or self._forking == thread:
            return
        with self._fork_ended:
            self._pause(thread, _LONGEST_PAUSE if self._ending else None)

    def _pause(self, thread: int, seconds: float | None) -> None:
        """Leave the runs of this thread until no other one forks, or the time is over."""
        entered = self._running.count(thread)
        for _ in range(entered):
            self._leave(thread)
        self._fork_ended.wait_for(lambda: self._forking is None, seconds)
        self._running += [thread] * entered

    def _leave(self, thread: int) -> None:
        if thread in self._running:  # not in the list if the run itself forked
            self._running.remove(thread)
        if self._forking is not None:
            with self._fork_ended:
                self._fork_ended.notify_all()

    def register_handlers(self) -> None:
        """Register handlers: forks and exits between operations only; a child starts without runs.

        OpenBLAS stops its threads before a fork and deadlocks if another thread is in a matrix
        product. Its fork handler runs after those of Python, so these stop all runs first. What was
        registered earlier runs later: so the lock of `concurrent.futures` is not held meanwhile,
        which a run that forks itself would wait for.
        """
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork_in_parent,
            after_in_child=self._after_fork_in_child,
        )
        atexit.register(self.before_exit)

    def _before_fork(self) -> None:
        self._hold()
        self._lock.acquire()  # no fork while the number of BLAS threads changes

    def before_exit(self) -> None:
        """Wait, not for ever, for runs of other threads, which pause then.

        Python ends threads that come back from ONNX Runtime later, whose C++ code then aborts.
        """
        self._ending = True
        self._hold(_LONGEST_EXIT)

    def _hold(self, seconds: float | None = None) -> None:
        """Wait until no other thread is in an operation; from then on this thread alone runs."""
        thread = get_ident()
        with self._fork_ended:
            self._pause(thread, seconds)  # one at a time, and a run may be what forks
            self._forking = thread
            self._fork_ended.wait_for(lambda: {thread}.issuperset(self._running), seconds)

    def _after_fork_in_parent(self) -> None:
        if self._lock.locked():  # not locked if an interrupt ended the wait
            self._lock.release()
        with self._fork_ended:
            self._forking = None
            self._fork_ended.notify_all()

    def _after_fork_in_child(self) -> None:
        self._lock, self._fork_ended, self._forking = Lock(), Condition(), None
        self._ending = False
        self._running.clear()
        if self._threads_before:
            self._restore_blas_threads()

    def _limit_blas_threads(self) -> None:
        with self._lock:
            if self._threads_before or len(self._running) < 2:
                return
            pools = self._blas_libraries.lib_controllers
            self._threads_before = [pool.num_threads for pool in pools]
            for pool in pools:
                set_blas_threads(pool, 1)

    def _restore_blas_threads(self) -> None:
        with self._lock:
            if self._running:
                return
            for pool, threads in zip(
                self._blas_libraries.lib_controllers, self._threads_before, strict=False
            ):
                set_blas_threads(pool, threads)
            self._threads_before = []


class _WithoutBlas:
    """Context of work in another library, which has its own threads and locks.

    A lock that a thread holds during a fork stays locked in the child, so forks wait for the end.
    """

    def __init__(self, runs: ConcurrentRuns) -> None:
        self._runs = runs

    def __enter__(self) -> None:
        self._runs.enter()

    def __exit__(self, *_: object) -> None:
        self._runs.leave()


def set_blas_threads(pool: LibController, threads: int) -> None:
    """Set the number of threads of a BLAS library such that any thread can change it again.

    Since threadpoolctl 3.7 only the thread that set the number can change it while it is alive. But
    the run that leaves last, and restores the number, is rarely the one that limited it.
    """
    pool.set_num_threads(threads)
    if hasattr(pool, "clear_controlling_thread"):
        pool.clear_controlling_thread()


CONCURRENT_RUNS = ConcurrentRuns()
"""The instance of this process."""
CONCURRENT_RUNS.register_handlers()


DEFAULT_LOOP_TIMEOUT_NS = 2_000_000_000
MAXIMUM_LOOP_TIMEOUT_NS = 15_000_000_000
"""Source: NDK ANeuralNetworks_getDefaultLoopTimeout, ANeuralNetworks_getMaximumLoopTimeout."""


@frozen
class Run:
    """One execution.

    deadline          in time.monotonic_ns time; None: no deadline
    loop_timeout_ns   time limit of one WHILE
    stop              called between operations; an exception ends the run
    on_operation      called after each operation
    """

    deadline: int | None = None
    loop_timeout_ns: int = DEFAULT_LOOP_TIMEOUT_NS
    stop: Callable[[], None] | None = None
    on_operation: Callable[[TimedOperation], None] | None = None

    @staticmethod
    def start(options: RunOptions) -> Run:
        """Start a run now."""
        loop = options.loop_timeout_ns
        return Run(
            None if options.timeout_ns is None else time.monotonic_ns() + options.timeout_ns,
            DEFAULT_LOOP_TIMEOUT_NS if loop is None else min(loop, MAXIMUM_LOOP_TIMEOUT_NS),
            options.stop,
            options.on_operation,
        )

    def check(self) -> None:
        """Checkpoint between operations: let other threads fork, check deadline and `stop`.

        Raises RuntimeFailure if the deadline has passed, and anything that `stop` raises.
        """
        CONCURRENT_RUNS.wait_for_fork()
        if self.stop is not None:
            self.stop()
        if self.deadline is not None and time.monotonic_ns() > self.deadline:
            raise missed_deadline("the run's deadline is over")


def missed_deadline(detail: str) -> RuntimeFailure:
    """The (transient) failure of a run that exceeded its deadline."""
    return failure(COMPUTE, ResultCode.MISSED_DEADLINE_TRANSIENT, detail)
