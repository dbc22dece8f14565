"""Events that signal the end of asynchronous executions. Source: NDK ANeuralNetworksEvent_*."""

from __future__ import annotations

import threading

from ep_nnapi.nnapi.capi.refusal import Refused
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.forks import renew_after_fork


class Event:
    """An event: set once, to the outcome of an execution; any number of threads may wait.

    The computing thread does not survive a fork: in the child, the event ends with DEAD_OBJECT.
    """

    def __init__(self) -> None:
        self._done = threading.Event()
        self._failure: Refused | None = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Ends the event in a forked process, which lacks the computing thread."""
        over, self._done = self._done.is_set(), threading.Event()
        if not over:
            self._failure = Refused(ResultCode.DEAD_OBJECT, "the parent process computes it")
        self._done.set()

    def finish(self, failure: Refused | None) -> None:
        """Wakes the waiting threads; each gets `failure`, or None for success."""
        self._failure = failure
        self._done.set()

    def wait_for_result_code(self) -> ResultCode:
        """Waits for the execution to end; returns its result code."""
        self._done.wait()
        return self._failure.code if self._failure else ResultCode.NO_ERROR

    def wait(self) -> None:
        """Waits for the execution to end; raises Refused if it failed."""
        self._done.wait()
        if self._failure is not None:
            raise Refused(self._failure.code, str(self._failure))
