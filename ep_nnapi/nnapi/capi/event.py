"""What asynchronous executions are waited for with. Source: NDK ANeuralNetworksEvent_*."""

from __future__ import annotations

import threading

from ep_nnapi.nnapi.capi.refusal import Refused
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.forks import renew_after_fork


class Event:
    """Set once, with how an execution ended; any number of threads may wait.

    In a forked process an execution that was running does not go on: its event says DEAD_OBJECT.
    """

    def __init__(self) -> None:
        self._done = threading.Event()
        self._failure: Refused | None = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Ends the event: the thread that computes is the parent process's."""
        over, self._done = self._done.is_set(), threading.Event()
        if not over:
            self._failure = Refused(ResultCode.DEAD_OBJECT, "the parent process computes it")
        self._done.set()

    def finish(self, failure: Refused | None) -> None:
        """Wakes those that wait; `failure` is what each of them is told."""
        self._failure = failure
        self._done.set()

    def settle(self) -> ResultCode:
        """Returns how the execution ended, once it has."""
        self._done.wait()
        return self._failure.code if self._failure else ResultCode.NO_ERROR

    def wait(self) -> None:
        """Returns when the execution has ended; raises Refused as it failed."""
        self._done.wait()
        if self._failure is not None:
            raise Refused(self._failure.code, str(self._failure))
