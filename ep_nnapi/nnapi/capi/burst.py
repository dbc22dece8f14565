# ruff: noqa: N802 (functions have the NDK's names)
"""Bursts: executions of one compilation in quick succession. Source: NDK ANeuralNetworksBurst_*."""

from __future__ import annotations

from ep_nnapi.nnapi.capi.compilation import CompilationBuilder, require_ready
from ep_nnapi.nnapi.capi.execution import Execution
from ep_nnapi.nnapi.capi.refusal import Handles, bad_data, bad_state
from ep_nnapi.nnapi.forks import ForkableLock


class Burst:
    """A burst: executions of one compilation in quick succession, one at a time."""

    def __init__(self, compilation: CompilationBuilder) -> None:
        self.compilation = compilation
        self._running = ForkableLock()

    def compute(self, execution: Execution) -> None:
        """Computes; raises Refused(BAD_DATA) for another compilation, BAD_STATE while it runs."""
        if execution.compilation is not self.compilation:
            raise bad_data("burst and execution are of different compilations")
        if not self._running.acquire(blocking=False):
            raise bad_state("the burst is running")
        try:
            execution.compute()
        finally:
            self._running.release()


BURSTS: Handles[Burst] = Handles("Burst")


def Burst_create(compilation: CompilationBuilder) -> Burst:
    """Creates a burst for executions of a finished compilation."""
    require_ready(compilation)
    return Burst(compilation)


def Execution_burstCompute(execution: Execution, burst: Burst) -> None:
    """Computes synchronously as part of a burst."""
    burst.compute(execution)
