"""Executions of a converted model in an ONNX Runtime session."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as Unfinished
from dataclasses import dataclass, field
from threading import Thread

import numpy as np
import onnxruntime

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.forks import renew_after_fork
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.result import COMPUTE, failure
from ep_nnapi.nnapi.run_arguments import wrong_output
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.shapes import ShapeError

_LONG = 0.1
"""Seconds of a run from which on the next ones are supervised, as those with a time limit are."""
_POLL = 0.005
"""Seconds between checks of a supervised run's limits."""


_inherited: list[onnxruntime.InferenceSession] = []
"""Sessions of the parent process, in a forked child.

They can run there, but not be destroyed: ONNX Runtime would wait forever for their threads, which
the child does not have.
"""


@dataclass(slots=True, eq=False, weakref_slot=True)
class PreparedSession:
    """A session that computes a model; thread-safe, executions may be concurrent.

    weights   memory that the session reads its constants from
    loops     the model has loops: a run is ended after the loop timeout
    """

    session: onnxruntime.InferenceSession
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    loops: bool
    weights: Mapping[str, Array] = field(default_factory=dict)
    _seconds: float = math.inf  # of the last run; the first may be long

    def __post_init__(self) -> None:
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Keep the session in a forked child for as long as the child lives."""
        _inherited.append(self.session)

    def execute(
        self,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
        options: RunOptions,
    ) -> list[Array]:
        """Run the model, as `device.PreparedModel.execute`."""
        feeds = dict(zip(self.inputs, inputs, strict=True))
        for n, array in enumerate(inputs):
            if array is None:
                raise ShapeError(f"input {n} is missing, its value is required")
        limited = options.timeout_ns is not None or self.loops
        run = Run.start(options)
        run.check()
        start = time.perf_counter()
        if limited or (self._seconds > _LONG and options.stop is not None):
            results = self._supervised(feeds, run)
        else:
            with CONCURRENT_RUNS.without_blas:
                results = self.session.run(self.outputs, feeds)
        self._seconds = time.perf_counter() - start
        if not outputs:
            return results
        return [_delivered(r, out) for r, out in zip(results, outputs, strict=True)]

    def _supervised(self, feeds: Mapping[str, Array | None], run: Run) -> list[Array]:
        """Run in another thread, and end the run when its limits are exceeded."""
        loop_end = time.monotonic_ns() + run.loop_timeout_ns if self.loops else None
        flag, done = onnxruntime.RunOptions(), Future[list[Array]]()

        def compute() -> None:
            try:
                with CONCURRENT_RUNS.without_blas:
                    done.set_result(self.session.run(self.outputs, feeds, flag))
            except Exception as error:  # reraised in the thread that waits
                done.set_exception(error)

        Thread(target=compute, daemon=True).start()
        try:
            while True:
                try:
                    return done.result(_POLL)
                except Unfinished:
                    run.check()
                    _check_loops(loop_end)
        except BaseException:
            flag.terminate = True
            wait([done])  # the session reads the caller's memory until then
            raise


def _check_loops(end: int | None) -> None:
    """Raises RuntimeFailure if the loops' time is over."""
    if end is not None and time.monotonic_ns() > end:
        detail = "the loops' time limit is over"
        raise failure(COMPUTE, ResultCode.MISSED_DEADLINE_TRANSIENT, detail)


def _delivered(result: Array, out: Array | None) -> Array:
    """The result, in the caller's array if one is given.

    Raises RuntimeFailure for an array of another shape.
    """
    if out is None:
        return result
    if out.shape != result.shape:
        raise wrong_output(out.shape, result.shape)
    np.copyto(out, result)
    return out
