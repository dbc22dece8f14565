"""Small NNAPI models for the devices on ONNX Runtime, built operation by operation."""

from dataclasses import replace

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode, OperandCode, PaddingCode
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Operand, Operation
from ep_nnapi.nnapi.spec import F32, I32, Q8, Q8C, Q8S


class Network:
    """A model under construction; its methods return operand indexes."""

    def __init__(self, seed: int = 1) -> None:
        self.operands: list[Operand] = []
        self.operations: list[Operation] = []
        self.random = np.random.default_rng(seed)

    def add(self, operand: Operand, array: np.ndarray | None = None) -> int:
        value = None if array is None else Data.of(array)
        self.operands.append(operand if value is None else replace(operand, value=value))
        return len(self.operands) - 1

    def tensor(self, array: np.ndarray, code: OperandCode, **quantization: object) -> int:
        operand = Operand(code, array.shape, **quantization)
        return self.add(operand, array.astype(code.numpy))

    def scalar(self, value: bool | int | float) -> int:
        codes = {bool: OperandCode.BOOL, int: OperandCode.INT32, float: OperandCode.FLOAT32}
        code = codes[type(value)]
        return self.add(Operand(code), np.array(value, code.numpy))

    def operation(self, row: spec.OperationSpec, inputs: list[int], *outputs: Operand) -> int:
        """Adds an operation; returns the index of its first output."""
        first = len(self.operands)
        self.operands += outputs
        results = tuple(range(first, first + len(outputs)))
        self.operations.append(Operation(row, tuple(inputs), results))
        return first

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
        scalars = [PaddingCode.SAME, 1, 1, activation]
        arguments = [x, w, b, *(self.scalar(int(s)) for s in scalars), self.scalar(nchw)]
        return self.operation(spec.CONV_2D, arguments, out)

    def _coded(self, weights: np.ndarray, source: Operand, channels: int, per_channel: bool) -> int:
        if per_channel:
            scales = tuple(float(s) for s in self.random.uniform(0.005, 0.02, channels))
            return self.tensor(weights, Q8C, channels=ChannelQuantization(0, scales))
        moved = 128 if source.type is Q8 else 0
        return self.tensor(weights + moved, source.type, scale=0.01, zero_point=moved)

    def model(self, inputs: list[int], outputs: list[int], **options: bool) -> Model:
        return Model(
            tuple(self.operands), tuple(self.operations), tuple(inputs), tuple(outputs), **options
        )


def chain(code: OperandCode = F32, *, nchw: bool = False, **conv: object) -> Model:
    """Two convolutions, the sum of both results, and a third convolution."""
    shape = (1, 4, 8, 6) if nchw else (1, 8, 6, 4)
    zero = {Q8: 128, Q8S: 0}.get(code, 0)
    quantization = {} if code is F32 else {"scale": 0.05, "zero_point": zero}
    net = Network()
    x = net.add(Operand(code, shape, **quantization))
    wide = Operand(code, shape, scale=0.0 if code is F32 else 0.3, zero_point=zero)
    a = net.conv(x, 4, wide, activation=FuseCode.RELU, nchw=nchw, **conv)
    b = net.conv(a, 4, wide, activation=FuseCode.RELU6, nchw=nchw, **conv)
    total = net.operation(spec.ADD, [a, b, net.scalar(0)], wide)
    y = net.conv(total, 4, wide, nchw=nchw, **conv)
    return net.model([x], [y])


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
