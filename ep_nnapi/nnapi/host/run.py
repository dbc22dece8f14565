"""State of one execution: deadline, loop timeout and cancellation."""

from __future__ import annotations

import time
from collections.abc import Callable

from ep_nnapi.nnapi.codes import COMPUTE, ResultCode, failure
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.runtime import RunOptions, TimedOperation

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
