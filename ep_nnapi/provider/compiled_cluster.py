"""A compiled cluster as ONNX Runtime runs it, with what happens when its device fails."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ep_nnapi.errors import RuntimeFailure
from ep_nnapi.graph.value import Array
from ep_nnapi.lowering.border import Allocate, BoundBorder, OtherSizes
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Compilation, CompileOptions, RunOptions
from ep_nnapi.options import Fallback
from ep_nnapi.provider.cpu_fallback import CpuModel
from ep_nnapi.provider.devices import fallback_device
from ep_nnapi.report import ClusterReport

logger = logging.getLogger(__name__)
Stop: TypeAlias = Callable[[], None]
"""Called between operations; what it raises ends the run."""
Engine: TypeAlias = Callable[[Sequence[Array], Allocate, Stop], None]
_KEPT_FAILURES = 8


class Failures:
    """The number of times that a cluster's device failed, and what the last of them said.

    Their tracebacks are not kept: the frames would hold arrays over buffers that ONNX Runtime has
    freed, and memory that grows with every failing run.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: deque[RuntimeFailure] = deque(maxlen=_KEPT_FAILURES)

    def add(self, failure: RuntimeFailure) -> None:
        """Counts `failure` and keeps a copy of its words."""
        self.count += 1
        self._last.append(RuntimeFailure(failure.call, failure.code, failure.detail))

    def __iter__(self) -> Iterator[RuntimeFailure]:
        """The last failures, the latest one last."""
        return iter(tuple(self._last))


@dataclass(frozen=True, slots=True)
class CompiledCluster:
    """One cluster, compiled for one device.

    cpu       its ONNX nodes for the CPU provider, where the options ask for that fallback or
              tensors may come in other sizes than the model declares
    failures  of its device so far
    options   it was compiled with
    """

    node_ids: tuple[int, ...]
    report: ClusterReport
    lowered: Lowered
    compilation: Compilation
    fallback: Fallback
    cpu: CpuModel | None = None
    failures: Failures = field(default_factory=Failures, compare=False)
    options: CompileOptions = field(default_factory=CompileOptions, compare=False)

    @property
    def models(self) -> tuple[Model, ...]:
        """Its one NNAPI model."""
        return (self.lowered.model,)

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runner:
        """What computes the cluster from tensors in this order."""
        border = self.lowered.border.bind(input_names, output_names)
        return Runner(self, border, tuple(input_names), tuple(output_names))


@dataclass(slots=True)
class Runner:
    """Runs a cluster; any number of threads at once."""

    cluster: CompiledCluster
    border: BoundBorder
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _stand_in: Engine | None = None
    _warned: bool = False
    _lock: ForkableLock = field(default_factory=ForkableLock)

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Computes the outputs into what `allocate` gives.

        When the device fails, the cluster runs as the option `fallback` says, now and from now on,
        and a warning says so. Raises RuntimeFailure where there is nothing to fall back on.
        A run with other sizes than the model declares is the CPU provider's; the first one warns.
        """
        if self._stand_in is not None:
            self._stand_in(inputs, allocate, stop)
            return
        buffers: dict[int, Array] = {}

        def once(index: int, shape: tuple[int, ...]) -> Array:
            if index not in buffers:
                buffers[index] = allocate(index, shape)
            return buffers[index]

        try:
            self.border.run(self.cluster.compilation, inputs, once, RunOptions(stop=stop))
        except RuntimeFailure as failure:
            self._replacement(failure)(inputs, once, stop)
        except OtherSizes as other:
            self._for_other_sizes(other)(inputs, once, stop)

    def _for_other_sizes(self, other: OtherSizes) -> Engine:
        """The cluster on the CPU provider, for this run; raises `other` where it is not kept."""
        if self.cluster.cpu is None:
            raise other
        with self._lock:
            if not self._warned:
                nodes = ", ".join(self.cluster.report.nodes)
                logger.warning("runs of the cluster of %s on the CPU provider: %s", nodes, other)
                self._warned = True
        return on_cpu(self.cluster.cpu, self.inputs, self.outputs)

    def _replacement(self, failure: RuntimeFailure) -> Engine:
        with self._lock:
            self.cluster.failures.add(failure)
            if self._stand_in is None:
                engine = self._on_reference()
                if self.cluster.cpu is not None and self.cluster.fallback is Fallback.CPU:
                    engine = on_cpu(self.cluster.cpu, self.inputs, self.outputs)
                if engine is None:
                    raise failure
                report = self.cluster.report
                logger.warning(
                    "device %s failed in the cluster of %s (%s); fallback=%s from now on",
                    report.device,
                    ", ".join(report.nodes),
                    failure,
                    self.cluster.fallback,
                )
                self._stand_in = engine
        return self._stand_in

    def _on_reference(self) -> Engine | None:
        """The same model on the reference device; None when that one failed or may not stand in."""
        elsewhere = self.cluster.fallback is not Fallback.REFERENCE
        if elsewhere or self.cluster.report.device == REFERENCE_DEVICE:
            return None
        runtime, reference = fallback_device()
        compilation = runtime.compile(self.cluster.lowered.model, reference, self.cluster.options)

        def run(inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
            self.border.run(compilation, inputs, allocate, RunOptions(stop=stop))

        return run


def on_cpu(model: CpuModel, inputs: Sequence[str], outputs: Sequence[str]) -> Engine:
    """What computes a cluster from its ONNX nodes, with tensors in this order."""

    def run(arrays: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        feeds = dict(zip(inputs, arrays, strict=True))
        for i, result in enumerate(model.run(feeds, outputs)):
            np.copyto(allocate(i, result.shape), result)

    return run
