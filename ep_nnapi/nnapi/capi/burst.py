"""Bursts: executions of one compilation in quick succession. Source: NDK ANeuralNetworksBurst_*."""

from __future__ import annotations

from ep_nnapi.nnapi.capi.compilation import CompilationBuilder
from ep_nnapi.nnapi.capi.refusal import Handles
from ep_nnapi.nnapi.forks import ForkableLock


class Burst:
    """A burst: executions of one compilation in quick succession, one at a time.

    running   held by the execution that computes
    """

    def __init__(self, compilation: CompilationBuilder) -> None:
        self.compilation = compilation
        self.running = ForkableLock()

    @staticmethod
    def create(compilation: CompilationBuilder) -> Burst:
        """Creates a burst for executions of a finished compilation."""
        compilation.require_ready()
        return Burst(compilation)


BURSTS: Handles[Burst] = Handles("Burst", Burst)
