"""A compiled cluster as ONNX Runtime runs it, with what happens when its device fails."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from ep_nnapi.border import Allocate, BoundBorder
from ep_nnapi.lowering import Lowered
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Compilation, RunOptions
from ep_nnapi.rejection import RuntimeFailure
from ep_nnapi.report import ClusterReport
from ep_nnapi.runtimes import fallback_compiler
from ep_nnapi.value import Array

logger = logging.getLogger(__name__)
_RUN = RunOptions()


@dataclass(frozen=True, slots=True)
class CompiledCluster:
    """One cluster, compiled for one device."""

    node_ids: tuple[int, ...]
    report: ClusterReport
    lowered: Lowered
    compilation: Compilation
    fallback: str

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runner:
        """What computes the cluster from tensors in this order."""
        return Runner(self, self.lowered.border.bind(input_names, output_names))


@dataclass(slots=True)
class Runner:
    """Runs a cluster; any number of threads at once."""

    cluster: CompiledCluster
    border: BoundBorder
    _stand_in: Compilation | None = None
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, inputs: Sequence[Array], allocate: Allocate) -> None:
        """Computes the outputs into what `allocate` gives.

        When the device fails, the cluster runs on the reference device instead, now and from now
        on, and a warning says so; with fallback=none, and for the reference device itself, raises
        RuntimeFailure.
        """
        if self._stand_in is not None:
            self.border.run(self._stand_in, inputs, allocate, _RUN)
            return
        buffers: dict[int, Array] = {}

        def once(index: int, shape: tuple[int, ...]) -> Array:
            if index not in buffers:
                buffers[index] = allocate(index, shape)
            return buffers[index]

        try:
            self.border.run(self.cluster.compilation, inputs, once, _RUN)
        except RuntimeFailure as failure:
            self.border.run(self._replacement(failure), inputs, once, _RUN)

    def _replacement(self, failure: RuntimeFailure) -> Compilation:
        device = self.cluster.report.device
        if self.cluster.fallback == "none" or device == REFERENCE_DEVICE:
            raise failure
        with self._lock:
            if self._stand_in is None:
                logger.warning(
                    "device %s failed in the cluster of %s (%s); it runs on %s from now on",
                    device,
                    ", ".join(self.cluster.report.nodes),
                    failure,
                    REFERENCE_DEVICE,
                )
                runtime, reference = fallback_compiler()
                self._stand_in = runtime.compile(self.cluster.lowered.model, reference)
        return self._stand_in
