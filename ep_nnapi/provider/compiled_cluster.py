"""Execution of compiled clusters, with fallback when the device fails."""

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
"""Called between operations; an exception that it raises ends the run."""
Executor: TypeAlias = Callable[[Sequence[Array], Allocate, Stop], None]
_MAX_FAILURES = 8


class Failures:
    """Number of failures of a cluster's device, and the last few of them.

    Tracebacks are dropped: their frames would hold arrays over buffers that ONNX Runtime has freed,
    and memory would grow with every failing run.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last: deque[RuntimeFailure] = deque(maxlen=_MAX_FAILURES)

    def add(self, failure: RuntimeFailure) -> None:
        """Counts `failure` and stores a copy without traceback."""
        self.count += 1
        self._last.append(RuntimeFailure(failure.call, failure.code, failure.detail))

    def __iter__(self) -> Iterator[RuntimeFailure]:
        """Iterates over the last failures, the latest one last."""
        return iter(tuple(self._last))


@dataclass(frozen=True, slots=True)
class CompiledCluster:
    """One cluster, compiled for one device.

    cpu       its ONNX nodes for the CPU provider, if the option `fallback` is CPU or inputs may
              have other shapes than the model declares; else None
    failures  failures of its device so far
    options   options that it was compiled with
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
        """The NNAPI model of this cluster."""
        return (self.lowered.model,)

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runner:
        """Returns a runner for inputs and outputs with these names in this order."""
        border = self.lowered.border.bind(input_names, output_names)
        return Runner(self, border, tuple(input_names), tuple(output_names))


@dataclass(slots=True)
class Runner:
    """Runs a cluster; thread-safe."""

    cluster: CompiledCluster
    border: BoundBorder
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _fallback_executor: Executor | None = None
    _warned: bool = False
    _lock: ForkableLock = field(default_factory=ForkableLock)

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Computes the outputs into the arrays that `allocate` returns.

        If the device fails, this and all later runs use the option `fallback`, and a warning is
        logged. Raises RuntimeFailure if there is no fallback.
        A run with other shapes than the model declares uses the CPU provider; the first one logs a
        warning. Raises OtherSizes if the cluster has no CPU model.
        """
        if self._fallback_executor is not None:
            self._fallback_executor(inputs, allocate, stop)
            return
        buffers: dict[int, Array] = {}

        def allocate_once(index: int, shape: tuple[int, ...]) -> Array:
            if index not in buffers:
                buffers[index] = allocate(index, shape)
            return buffers[index]

        try:
            self.border.run(self.cluster.compilation, inputs, allocate_once, RunOptions(stop=stop))
        except RuntimeFailure as failure:
            self._fallback_for(failure)(inputs, allocate_once, stop)
        except OtherSizes as other:
            self._cpu_executor_for(other)(inputs, allocate_once, stop)

    def _cpu_executor_for(self, other: OtherSizes) -> Executor:
        """Returns the CPU provider's engine for this run; raises `other` without a CPU model."""
        if self.cluster.cpu is None:
            raise other
        with self._lock:
            if not self._warned:
                nodes = ", ".join(self.cluster.report.nodes)
                logger.warning("runs of the cluster of %s on the CPU provider: %s", nodes, other)
                self._warned = True
        return cpu_executor(self.cluster.cpu, self.inputs, self.outputs)

    def _fallback_for(self, failure: RuntimeFailure) -> Executor:
        with self._lock:
            self.cluster.failures.add(failure)
            if self._fallback_executor is None:
                executor = self._reference_executor()
                if self.cluster.cpu is not None and self.cluster.fallback is Fallback.CPU:
                    executor = cpu_executor(self.cluster.cpu, self.inputs, self.outputs)
                if executor is None:
                    raise failure
                report = self.cluster.report
                logger.warning(
                    "device %s failed in the cluster of %s (%s); fallback=%s from now on",
                    report.device,
                    ", ".join(report.nodes),
                    failure,
                    self.cluster.fallback,
                )
                self._fallback_executor = executor
        return self._fallback_executor

    def _reference_executor(self) -> Executor | None:
        """Returns an engine on the reference device; None if it failed itself or is not allowed."""
        elsewhere = self.cluster.fallback is not Fallback.REFERENCE
        if elsewhere or self.cluster.report.device == REFERENCE_DEVICE:
            return None
        runtime, reference = fallback_device()
        compilation = runtime.compile(self.cluster.lowered.model, reference, self.cluster.options)

        def run(inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
            self.border.run(compilation, inputs, allocate, RunOptions(stop=stop))

        return run


def cpu_executor(model: CpuModel, inputs: Sequence[str], outputs: Sequence[str]) -> Executor:
    """Returns an engine that runs a cluster's ONNX nodes on the CPU provider."""

    def run(arrays: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        feeds = dict(zip(inputs, arrays, strict=True))
        for i, result in enumerate(model.run(feeds, outputs)):
            np.copyto(allocate(i, result.shape), result)

    return run
