"""A device that computes as Android's own CPU implementation of one feature level does.

It clamps infinities to the finite range where that does, fails at run time what Android validates
and has no kernel for, and reports what would never end, write past its output or leave it open.
Source: Android 8.1 (level 1) to 13, common/operations, and its systems under emulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from unittest.mock import patch

import numpy as np

from ep_nnapi.nnapi.codes import DeviceCode, OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.concurrent_runs import Run
from ep_nnapi.nnapi.host.execution_plan import ExecutionPlan, ScheduledStep
from ep_nnapi.nnapi.host.prepared_graph import PreparedGraph, Preparing
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.profile.form import OperationUse, uses
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.nnapi.spec import OPERATIONS
from ep_nnapi.options.table import HOST
from ep_nnapi.provider import devices as runtimes
from tests.nnapi.kernel_rules import violations

ANDROID = "android"
RECURRENT, RELUS = ("LSTM", "RNN", "SVDF"), ("RELU", "RELU1", "RELU6")
_LIMIT = np.finfo(np.float32).max
CLAMPING = {
    spec.name: (-_LIMIT, _LIMIT)
    for spec in OPERATIONS
    if not spec.name.endswith(RECURRENT)
    and (spec.name in RELUS or "activation" in {p.name for form in spec.input_params for p in form})
} | {"REDUCE_MAX": (-_LIMIT, None), "REDUCE_MIN": (None, _LIMIT)}
"""The range of results by operation: a fused activation NONE is the range of finite numbers, and
the greatest of several begins with the lowest finite number."""
_BUFFERS = {1: (1024, 1024), 2: (2048, 2048), 3: (4832, 2048)}
"""Sums that a depthwise kernel holds, of floats and of 8-bit products; fewer than one pixel's never
end. Level 4 has plain loops."""
F32, Q8 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_QUANT8_ASYMM


@dataclass(frozen=True)
class AndroidDevice:
    """Android's own CPU device of a feature level, as one of the host runtime.

    executed   names of the operations of each run that ended
    ended      why a run did not end well: one sentence each
    """

    level: int
    name: str = ANDROID
    type: DeviceCode = DeviceCode.CPU
    version: str = "1"
    executed: list[tuple[str, ...]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    @property
    def feature_level(self) -> int:
        return self.level

    def supported(self, model: Model) -> tuple[bool, ...]:
        return ReferenceDevice().supported(model)

    def prepare(self, model: Model, options: CompileOptions) -> AndroidModel:
        assert not model.relaxed or options.precise, "the CPU implementation is not relaxed"
        empty = () if model.inputs else ("a model without inputs is BAD_DATA",)
        wrong = (
            fault
            for use in uses(model)
            if use.spec.name in _FAULTS
            for fault in _FAULTS[use.spec.name](use, self.level)
        )
        graph = ClampingPreparation(self.level).graph(model)
        return AndroidModel(self, model, [*empty, *violations(model), *wrong], graph)


@dataclass(frozen=True)
class AndroidModel:
    """A prepared model; one with faults fails at run time, where Android fails or does not end."""

    device: AndroidDevice
    model: Model
    faults: Sequence[str]
    graph: PreparedGraph

    def execute(
        self,
        inputs: Sequence[np.ndarray | None],
        outputs: Sequence[np.ndarray | None],
        options: RunOptions,
    ) -> list[np.ndarray]:
        if self.faults:
            self.device.ended.append(self.faults[0])
            call = "ANeuralNetworksExecution_compute"
            raise RuntimeFailure(call, "ANEURALNETWORKS_OP_FAILED", self.faults[0])
        results = self.graph.execute(inputs, outputs, options)
        self.device.executed.append(tuple(o.spec.name for o in self.model.operations))
        return results


def _products(use: OperationUse, level: int) -> Iterator[str]:
    rows, depth = use.inputs[0], use.inputs[1].dimensions[1]
    if level == 1 and rows.type is F32 and depth > 1 and prod(rows.dimensions) == depth**2:
        yield f"FULLY_CONNECTED computes the first of {depth} rows of {depth} alone"


def _sums(use: OperationUse, level: int) -> Iterator[str]:
    if level < 3 and use.inputs[0].type is Q8 and use.inputs[2].array.item():
        yield "ADD of 8-bit numbers leaves out its activation"


def _means(use: OperationUse, level: int) -> Iterator[str]:
    x, axes, keep = use.inputs
    if level == 2 and x.type is Q8:
        yield "MEAN of 8-bit numbers is wrong"
    if level == 2 and axes.array.size == len(x.dimensions) and not keep.array.item():
        yield "MEAN has no kernel that removes all axes"


def _paddings(use: OperationUse, level: int) -> Iterator[str]:
    if level == 2 and len(use.inputs[0].dimensions) != 4:
        yield "PAD has no kernel of other ranks than 4"


def _depthwise(use: OperationUse, level: int) -> Iterator[str]:
    if level not in _BUFFERS:
        return
    image, taps, result = use.inputs[0], use.inputs[1], use.outputs[0]
    channels = taps.dimensions[3]
    if taps.type is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        return
    if channels > _BUFFERS[level][image.type is Q8]:
        yield f"DEPTHWISE_CONV_2D of {channels} channels never ends"
    small, one = (sorted(o.dimensions[1:])[:2] for o in (image, result))
    by_3x3 = image.type is Q8 and taps.dimensions[1:3] == (3, 3) and channels >= 16
    if by_3x3 and (small, one) == ([2, 2], [1, 1]):
        yield "DEPTHWISE_CONV_2D of 3 x 3 on 2 x 2 writes past its output"


_FAULTS = {
    "ADD": _sums,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _products,
    "MEAN": _means,
    "PAD": _paddings,
}
"""What the kernels of a level do wrong, or never end, by operation."""


class ClampingPreparation(Preparing):
    """Prepares models, and those within them, as `ClampingGraph`s."""

    def graph(self, model: Model) -> PreparedGraph:
        return self._graphs.setdefault(id(model), ClampingGraph(model, self))


class ClampingGraph(PreparedGraph):
    """A prepared model whose kernels of float32 clamp as Android's do."""

    def _computed(
        self,
        step: ScheduledStep,
        values: Mapping[int, np.ndarray | None],
        outs: Sequence[np.ndarray | None],
    ) -> list[np.ndarray]:
        found = super()._computed(step, values, outs)
        return [_clamped(step, each) for each in found]

    def _run_step(
        self, step: ScheduledStep, values: list[np.ndarray | None], plan: ExecutionPlan, run: Run
    ) -> None:
        super()._run_step(step, values, plan, run)
        for index in step.outputs:
            values[index] = _clamped(step, values[index])


def _clamped(step: ScheduledStep, array: np.ndarray) -> np.ndarray:
    """The array, clamped in place if its operation clamps; NaN stays."""
    limits = CLAMPING.get(step.op.operation.spec.name)
    if limits is not None and array.dtype == np.float32:
        np.clip(array, *limits, out=array)
    return array


@contextmanager
def installed(level: int) -> Iterator[AndroidDevice]:
    """The host runtime with such a device before nnapi-reference, for sessions made meanwhile."""
    device = AndroidDevice(level)
    runtime = HostRuntime([device, ReferenceDevice()])
    with patch.dict(runtimes.RUNTIMES, {HOST: lambda: runtime}):
        yield device
