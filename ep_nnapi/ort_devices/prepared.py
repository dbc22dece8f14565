"""Executions of a converted model in an ONNX Runtime session."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as Unfinished
from dataclasses import dataclass
from threading import Thread

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.forks import renew_after_fork
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.run_arguments import wrong_output
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.sessions import device_session
from ep_nnapi.sessions.device_session import DeviceSession, Termination

_POLL = 0.005
"""Seconds between checks of a supervised run's limits."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class PreparedSession:
    """A session that computes a model; thread-safe, executions may be concurrent."""

    session: DeviceSession
    _seconds: float = math.inf  # of the last run; the first may be long

    def __post_init__(self) -> None:
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Keep the session in a forked child, also while Python goes down.

        It can run there, but not be destroyed: ONNX Runtime would wait forever for its threads,
        which the child does not have.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.session))

    def execute(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
        options: RunOptions,
    ) -> list[Array]:
        """Run the model, as `device.PreparedModel.execute`."""
        feeds = [array for array in inputs if array is not None]
        if len(feeds) < len(inputs):
            missing = next(n for n, array in enumerate(inputs) if array is None)
            raise ShapeError(f"input {missing} is missing, its value is required")
        start = time.perf_counter()
        long = self.long and options.stop is not None
        if long or options.timeout_ns is not None:
            results = self._supervised(feeds, outputs, Run.start(options))
        else:
            if options.stop is not None:
                options.stop()
            results = self._compute(feeds, outputs, None)
        self._seconds = time.perf_counter() - start
        if not outputs:
            return results
        return [_delivered(r, out) for r, out in zip(results, outputs, strict=True)]

    @property
    def long(self) -> bool:
        """True if the last run took so long that the next one is supervised, or there was none."""
        return self._seconds > device_session.LONG_RUN

    def direct_session(self) -> DeviceSession | None:
        """Return the session if its runs need no supervision, as `DirectCompilation`."""
        return None if self.long else self.session

    def _compute(
        self,
        feeds: Sequence[Array],
        outputs: Sequence[Array | None],
        options: Termination | None,
    ) -> list[Array]:
        with CONCURRENT_RUNS.without_blas:
            return self.session.run(feeds, outputs, options)

    def _supervised(
        self, feeds: Sequence[Array], outputs: Sequence[Array | None], run: Run
    ) -> list[Array]:
        """Run in another thread, and end the run when its limits are exceeded."""
        run.check()
        flag, done = self.session.run_options(), Future[list[Array]]()

        def compute() -> None:
            try:
                done.set_result(self._compute(feeds, outputs, flag))
            except Exception as error:  # reraised in the thread that waits
                done.set_exception(error)

        Thread(target=compute, daemon=True).start()
        try:
            while True:
                try:
                    return done.result(_POLL)
                except Unfinished:
                    run.check()
        except BaseException:
            flag.terminate = True
            wait([done])  # the session reads the caller's memory until then
            raise


def _delivered(result: Array, out: Array | None) -> Array:
    """The result, in the caller's array if one is given.

    Raises RuntimeFailure for an array of another shape.
    """
    if out is None or result is out:
        return result
    if out.shape != result.shape:
        raise wrong_output(out.shape, result.shape)
    np.copyto(out, result)
    return out
