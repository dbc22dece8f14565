# ruff: noqa: N802 (functions have the NDK's names)
"""Events that signal the end of asynchronous executions. Source: NDK ANeuralNetworksEvent_*."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.capi.refusal import Handles, Refused, bad_data, op_failed, unexpected_null
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.forks import renew_after_fork

if TYPE_CHECKING:
    from ep_nnapi.nnapi.capi._native import CData


class Event:
    """An event: set once, to the outcome of an execution; any number of threads may wait.

    The computing thread does not survive a fork: in the child, the event ends with DEAD_OBJECT.

    waiters_compute   the first thread that waits computes, if no other has begun to: it need not
                      be woken when another one is done, which takes longer than a small model
    """

    def __init__(self, compute: Callable[[], None], *, waiters_compute: bool = False) -> None:
        self._compute = compute
        self._waiters_compute = waiters_compute
        self._begun = threading.Lock()  # never released
        self._done = threading.Event()
        self._failure: Refused | None = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Ends the event in a forked process, which lacks the computing thread."""
        over, self._done = self._done.is_set(), threading.Event()
        if not over:
            self._failure = Refused(ResultCode.DEAD_OBJECT, "the parent process computes it")
        self._done.set()

    def run(self) -> None:
        """Computes and wakes the waiting threads, unless another thread has begun to."""
        if not self._begun.acquire(blocking=False):
            return
        self._failure = op_failed("the computation was interrupted")
        try:
            self._compute()
            self._failure = None
        except Refused as refused:
            self._failure = refused
        finally:
            self._done.set()

    def wait_for_result_code(self) -> ResultCode:
        """Waits for the execution to end; returns its result code."""
        failure = self._outcome()
        return failure.code if failure else ResultCode.NO_ERROR

    def wait(self) -> None:
        """Waits for the execution to end; returns its result code."""
        failure = self._outcome()
        if failure is not None:
            raise Refused(failure.code, str(failure))

    @staticmethod
    def free(event: int) -> None:
        """Waits for the execution to end, then releases the handle."""
        found = EVENTS.remove(event)
        if found is not None:
            found.wait_for_result_code()

    @staticmethod
    def createFromSyncFenceFd(fd: int) -> Event:
        """Always BAD_DATA: this system has no Android sync fences."""
        raise bad_data(f"descriptor {fd} is no sync fence")

    def getSyncFenceFd(self, out: CData) -> None:
        """Always BAD_DATA, as the NDK specifies for events without a sync fence."""
        out[0] = -1
        raise bad_data("the event is not backed by a sync fence")

    def _outcome(self) -> Refused | None:
        if self._waiters_compute and not self._done.is_set():
            self.run()
        self._done.wait()
        return self._failure


EVENTS: Handles[Event] = Handles("Event", Event)


def dependency(handle: int) -> Event:
    """Returns one event of a list; reading the list stops at the first invalid handle."""
    if handle == 0:
        raise unexpected_null("a dependency")
    return EVENTS[handle]
