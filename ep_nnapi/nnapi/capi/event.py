"""What asynchronous executions are waited for with. Source: NDK ANeuralNetworksEvent_*."""

from __future__ import annotations

import threading

from ep_nnapi.nnapi.capi.refusal import Refused
from ep_nnapi.nnapi.codes import ResultCode


class Event:
    """Set once, with how an execution ended; any number of threads may wait."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._failure: Refused | None = None

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
