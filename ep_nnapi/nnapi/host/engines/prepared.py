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
_LARGE = 1 << 16
"""Bytes of outputs from which on they are bound instead of copied."""
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
        start = time.perf_counter()
        long = self._seconds > _LONG and options.stop is not None
        if long or self.loops or options.timeout_ns is not None:
            results = self._supervised(feeds, outputs, Run.start(options))
        else:
            if options.stop is not None:
                options.stop()
            results = self._compute(feeds, outputs, None)
        self._seconds = time.perf_counter() - start
        if not outputs:
            return results
        return [_delivered(r, out) for r, out in zip(results, outputs, strict=True)]

    def _compute(
        self,
        feeds: Mapping[str, Array | None],
        outputs: Sequence[Array | None],
        flag: onnxruntime.RunOptions | None,
    ) -> list[Array]:
        """Run the session; large outputs of known shapes are written where the caller wants them.

        Small ones are copied, which takes less time than binding them.
        """
        given = [out for out in outputs if out is not None]
        large = sum([out.nbytes for out in given]) >= _LARGE and self._can_bind(feeds, outputs)
        with CONCURRENT_RUNS.without_blas:
            if large:
                self.session.run_with_iobinding(self._bound(feeds, given), flag)
                return given
            results: list[Array] = self.session.run(self.outputs, feeds, flag)
            return results

    def _bound(
        self, feeds: Mapping[str, Array | None], outputs: Sequence[Array]
    ) -> onnxruntime.IOBinding:
        binding = self.session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name, out in zip(self.outputs, outputs, strict=True):
            place = (out.dtype.type, out.shape, out.ctypes.data)
            binding.bind_output(name, "cpu", 0, *place)
        return binding

    def _can_bind(self, feeds: Mapping[str, Array | None], outputs: Sequence[Array | None]) -> bool:
        """True if all outputs are given, of the session's own shapes, and none is an input too."""
        shapes = [tuple(each.shape) for each in self.session.get_outputs()]
        return all(
            out is not None
            and out.shape == shape
            and out.flags.c_contiguous
            and not any(np.may_share_memory(out, array) for array in feeds.values())
            for out, shape in zip(outputs, shapes, strict=True)
        )

    def _supervised(
        self, feeds: Mapping[str, Array | None], outputs: Sequence[Array | None], run: Run
    ) -> list[Array]:
        """Run in another thread, and end the run when its limits are exceeded."""
        run.check()
        loop_end = time.monotonic_ns() + run.loop_timeout_ns if self.loops else None
        flag, done = onnxruntime.RunOptions(), Future[list[Array]]()

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
    if out is None or result is out:
        return result
    if out.shape != result.shape:
        raise wrong_output(out.shape, result.shape)
    np.copyto(out, result)
    return out
