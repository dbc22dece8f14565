"""A device on the host runtime that declines, fails or miscalculates what it is told to."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import prod
from unittest.mock import patch

import numpy as np

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.host.runtime import HostDevice, PreparedModel
from ep_nnapi.nnapi.model import Model, Omitted, Operand
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.options.table import HOST
from ep_nnapi.options.target import Target
from ep_nnapi.provider import devices as runtimes
from ep_nnapi.provider.compiler import Compiler

FAULTY = "faulty"


@dataclass(frozen=True)
class FaultyDevice:
    """Computes as nnapi-reference, but for its faults.

    declines      names of operations it says no to when asked
    nodes         names of ONNX nodes: it says no to operations that begin with one of them
    every         says no to each so many-th operation of every model; 0: never
    fails_on      names of operations that it promises and then cannot compile
    refuses_above bytes of constants and other operands above which it has no memory for a model
    fails_at      numbers of the executions (from 0, over all models) that fail; -1: all
    code          the result code of a model that is too large
    wrong         what is added to every output
    defect        turns the results of every execution into what is returned in their place
    opens         it takes operations on tensors of open dimensions
    """

    declines: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    every: int = 0
    fails_on: frozenset[str] = frozenset()
    refuses_above: int | None = None
    fails_at: frozenset[int] = frozenset()
    wrong: float = 0.0
    code: str = "RESOURCE_EXHAUSTED_PERSISTENT"
    defect: Callable[[list[np.ndarray]], list[np.ndarray]] | None = None
    opens: bool = False
    name: str = FAULTY
    type: DeviceCode = DeviceCode.ACCELERATOR
    version: str = "1"
    feature_level: int = 8
    calls: Iterator[int] = field(default_factory=count)
    compiled: list[Model] = field(default_factory=list)

    def supported(self, model: Model) -> tuple[bool, ...]:
        return tuple(
            (self.opens or all(given(model.operands[i]) for i in op.inputs))
            and op.spec.name not in self.declines
            and self.nodes.isdisjoint(op.origin[:1])
            and not (self.every and i % self.every == 0)
            for i, op in enumerate(model.operations, start=1)
        )

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        broken = {op.spec.name for op in model.operations} & self.fails_on
        if broken:
            call = "ANeuralNetworksCompilation_finish"
            raise RuntimeFailure(call, "ANEURALNETWORKS_OP_FAILED", f"no {min(broken)} today")
        if self.refuses_above is not None and bytes_of(model) > self.refuses_above:
            call = "ANeuralNetworksCompilation_finish"
            raise RuntimeFailure(call, f"ANEURALNETWORKS_{self.code}", "the model is too large")
        self.compiled.append(model)
        return FaultyModel(self, ReferenceDevice().prepare(model, options))


def given(operand: Operand) -> bool:
    """True if its sizes are numbers, or it is omitted."""
    return operand.known or isinstance(operand.value, Omitted)


def bytes_of(model: Model) -> int:
    """The bytes of all tensors of a model: constants, inputs, outputs and those between."""
    return sum(
        int(operand.type.numpy.itemsize) * prod(operand.dimensions)
        for operand in model.operands
        if operand.dimensions and operand.type.tensor
    )


@dataclass(frozen=True)
class FaultyModel:
    device: FaultyDevice
    prepared: PreparedModel

    def execute(
        self,
        inputs: Sequence[np.ndarray | None],
        outputs: Sequence[np.ndarray | None],
        options: RunOptions,
    ) -> list[np.ndarray]:
        number = next(self.device.calls)
        if number in self.device.fails_at or -1 in self.device.fails_at:
            call = "ANeuralNetworksExecution_compute"
            raise RuntimeFailure(call, "ANEURALNETWORKS_OP_FAILED", "out of luck")
        results = self.prepared.execute(inputs, outputs, options)
        if self.device.wrong:
            for result in results:
                np.add(result, np.asarray(self.device.wrong, result.dtype), out=result)
        return results if self.device.defect is None else self.device.defect(results)


def compiler_of(device: HostDevice | None = None, level: int = 8) -> Compiler:
    """A compiler for the device, or for nnapi-reference."""
    runtime = HostRuntime([device or ReferenceDevice()])
    return Compiler(Target(level), runtime, runtime.devices()[0])


@contextmanager
def installed(device: FaultyDevice) -> Iterator[FaultyDevice]:
    """The host runtime with `device` before nnapi-reference, for sessions made meanwhile."""
    runtime = HostRuntime([device, ReferenceDevice()])
    with patch.dict(runtimes.RUNTIMES, {HOST: lambda: runtime}):
        yield device
