"""Small NNAPI models for the devices on ONNX Runtime, built operation by operation."""

from collections.abc import Sequence

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode, OperandCode, PaddingCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.runtime import HostDevice
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Operand, Operation
from ep_nnapi.nnapi.runtime import Compilation
from ep_nnapi.nnapi.spec import F32, I32, Q8, Q8C, Q8S
from tests.nnapi.build import operand


class Index(int):
    """The place of an operand in its network."""


class Network:
    """A model under construction; its methods return operand indexes.

    Operands without a value are its inputs. Where an operand is wanted, an array, a model, or a
    number that is no `Index` is a constant.
    """

    def __init__(self, *inputs: Operand) -> None:
        self.operands: list[Operand] = []
        self.operations: list[Operation] = []
        self.random = np.random.default_rng(1)
        self.inputs: list[Index] = []
        for each in inputs:
            self.add(each)

    def add(self, given: object) -> Index:
        index = self._operand(operand(given))
        if self.operands[index].value is None:
            self.inputs.append(index)
        return index

    def tensor(self, array: np.ndarray, code: OperandCode, **quantization: object) -> Index:
        value = Data.of(np.asarray(array).astype(code.numpy))
        return self.add(Operand(code, np.shape(array), **quantization, value=value))

    def apply(
        self,
        row: spec.OperationSpec,
        inputs: Sequence[object],
        *outputs: Operand,
        origin: tuple[str, ...] = (),
    ) -> list[Index]:
        """Adds an operation; returns its outputs."""
        ins = [given if isinstance(given, Index) else self.add(given) for given in inputs]
        results = [self._operand(output) for output in outputs]
        ends = (tuple(map(int, indexes)) for indexes in (ins, results))
        self.operations.append(Operation(row, *ends, origin))
        return results

    def operation(
        self, row: spec.OperationSpec, inputs: Sequence[object], output: Operand, *origin: str
    ) -> Index:
        """Adds an operation of one output, and returns that."""
        return self.apply(row, inputs, output, origin=origin)[0]

    def conv(
        self,
        x: int,
        channels: int,
        out: Operand,
        *,
        activation: FuseCode = FuseCode.NONE,
        nchw: bool = False,
        per_channel: bool = False,
        magnitude: int = 127,
    ) -> int:
        """A 3x3 convolution with SAME padding and seeded weights, of the input's type."""
        source = self.operands[x]
        depth = source.dimensions[1 if nchw else 3]
        weights = self.random.integers(-magnitude, magnitude + 1, (channels, 3, 3, depth))
        if source.type is F32:
            w = self.tensor(weights / 127, F32)
            b = self.tensor(self.random.uniform(-1, 1, channels), F32)
        else:
            w = self._coded(weights, source, channels, per_channel)
            scale = 0.0 if per_channel else source.scale * self.operands[w].scale
            b = self.tensor(self.random.integers(-500, 500, channels), I32, scale=scale)
        scalars = int(PaddingCode.SAME), 1, 1, int(activation), nchw
        return self.operation(spec.CONV_2D, [x, w, b, *scalars], out)

    def _operand(self, made: Operand) -> Index:
        self.operands.append(made)
        return Index(len(self.operands) - 1)

    def _coded(self, weights: np.ndarray, source: Operand, channels: int, per_channel: bool) -> int:
        if per_channel:
            scales = tuple(float(s) for s in self.random.uniform(0.005, 0.02, channels))
            return self.tensor(weights, Q8C, channels=ChannelQuantization(0, scales))
        moved = 128 if source.type is Q8 else 0
        return self.tensor(weights + moved, source.type, scale=0.01, zero_point=moved)

    def model(self, *outputs: int) -> Model:
        """The model with these outputs."""
        ends = (tuple(map(int, indexes)) for indexes in (self.inputs, outputs))
        return Model(tuple(self.operands), tuple(self.operations), *ends)


def chain(code: OperandCode = F32, *, nchw: bool = False, **conv: object) -> Model:
    """Two convolutions, the sum of both results, and a third convolution."""
    shape = (1, 4, 8, 6) if nchw else (1, 8, 6, 4)
    scale, zero = quantization(code)
    net = Network()
    x = net.add(Operand(code, shape, scale, zero))
    wide = Operand(code, shape, 6 * scale, zero)
    a = net.conv(x, 4, wide, activation=FuseCode.RELU, nchw=nchw, **conv)
    b = net.conv(a, 4, wide, activation=FuseCode.RELU6, nchw=nchw, **conv)
    total = net.operation(spec.ADD, [a, b, 0], wide)
    return net.model(net.conv(total, 4, wide, nchw=nchw, **conv))


def quantization(code: OperandCode) -> tuple[float, int]:
    """A scale and the zero point in the middle; none of what is not quantized."""
    return {Q8: (0.05, 128), Q8S: (0.05, 0)}.get(code, (0.0, 0))


def compiled(model: Model, device: HostDevice) -> Compilation:
    runtime = HostRuntime((device,))
    return runtime.compile(model, runtime.devices()[0])


def computed(
    model: Model, device: HostDevice, given: Sequence[np.ndarray] | None = None
) -> list[np.ndarray]:
    """What a device computes of the inputs, or of seeded numbers."""
    return compiled(model, device).run(feed(model) if given is None else given)


def feed(model: Model, seed: int = 2) -> list[np.ndarray]:
    """Seeded numbers for the inputs."""
    random = np.random.default_rng(seed)
    found = []
    for index in model.inputs:
        operand = model.operands[index]
        dtype = operand.type.numpy
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            numbers = random.integers(info.min, int(info.max) + 1, operand.dimensions)
        else:
            numbers = random.uniform(-1, 1, operand.dimensions)
        found.append(numbers.astype(dtype))
    return found
