"""Networks of expressions on one input, and what the device host-cpu makes of them."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F32, I32
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.operation import Kernels
from ep_nnapi.ort_devices.to_onnx import convert
from tests.ort_devices.networks import Network, feed

SHAPE = (2, 3, 8)
FUSED = Kernels(fused=True)


class Expression(Network):
    """A network on one input `x` of `SHAPE`."""

    def __init__(self, shape: tuple[int, ...] = SHAPE) -> None:
        super().__init__()
        self.x = self.add(Operand(F32, shape))

    def shape(self, index: int) -> tuple[int, ...]:
        return self.operands[index].dimensions

    def two(self, row: spec.OperationSpec, a: int, b: int | float, activation: int = 0) -> int:
        right = b if isinstance(b, int) else self.add_constant(b)
        shape = np.broadcast_shapes(self.shape(a), self.shape(right))
        return self.operation(row, [a, right, self.scalar(activation)], Operand(F32, shape))

    def add_constant(self, number: float) -> int:
        return self.tensor(np.array([number]), F32)

    def one(self, row: spec.OperationSpec, a: int) -> int:
        return self.operation(row, [a], Operand(F32, self.shape(a)))

    def mean(self, a: int, axes: Sequence[int], *, keep: bool = True) -> int:
        rank = len(self.shape(a))
        gone = {axis % rank for axis in axes}
        shape = [
            1 if i in gone else s for i, s in enumerate(self.shape(a)) if keep or i not in gone
        ]
        given = [a, self.tensor(np.array(axes), I32), self.scalar(int(keep))]
        return self.operation(spec.MEAN, given, Operand(F32, tuple(shape)))

    def numbers(self, *shape: int) -> int:
        return self.tensor(self.random.uniform(-1, 1, shape), F32)

    def ends(self, *outputs: int) -> Model:
        return self.model([self.x], list(outputs))


def operators(model: Model, kernels: Kernels = FUSED) -> Counter[str]:
    return Counter(node.op_type for node in convert(model, kernels).proto.graph.node)


def differences(model: Model, scale: float = 1) -> list[float]:
    """Greatest differences of the outputs from the reference's."""
    inputs = [array if scale == 1 else scale * array for array in feed(model)]
    found = []
    for device in (CpuDevice(threads=1), ReferenceDevice()):
        runtime = HostRuntime((device,))
        found.append(runtime.compile(model, runtime.devices()[0]).run(inputs))
    return [float(np.abs(a - b.astype(float)).max()) for a, b in zip(*found, strict=True)]
