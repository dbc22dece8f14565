"""Clusters of NNAPI calls written by hand, as operators would give them, for tests of lowering.

    g = Calls()
    x = g.input(1, 3, 8, 8)
    y = g.relu(g.conv(x, 4))
    g.lower(y)

Shapes are ONNX's. Numbers of constants are drawn from the seed 0, so that runs can be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.lowering.arguments import NHWC, Given, View, nhwc
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.lowering.model_builder import Lowered, lower
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, RunOptions
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.options.target import Target
from tests.runtimes import runtime

RUNTIME = runtime()
Shape = Sequence[int]


@dataclass
class Calls:
    """Collects calls; each gets a value v0, v1 ... as output and is its own origin."""

    calls: list[Call] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    _serial: count = field(default_factory=count)
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def input(self, *shape: int) -> Value:
        self.inputs.append(Value(f"x{len(self.inputs)}", DType.FLOAT, shape))
        return self.inputs[-1]

    def weights(self, *shape: int) -> Value:
        array = self._rng.uniform(-1, 1, shape).astype(np.float32)
        return Value(f"w{next(self._serial)}", DType.FLOAT, shape, constant=Constant.of(array))

    def call(
        self, row: OperationSpec, sizes: Shape, *given: Given, image: bool = False, **named: Given
    ):
        """Any operation with one output; `image`: the row is written for an NHWC output."""
        out = Value(f"v{next(self._serial)}", DType.FLOAT, tuple(sizes))
        made = apply(row, *given, out=nhwc(out) if image else out, **named)
        self.calls.append(replace(made, origin=(f"{row.name} {out.name}",)))
        return out

    # what has a layout of its own

    def conv(self, x: Value, channels: int) -> Value:
        """3x3, padded to the same size."""
        n, c, h, w = x.shape
        filters = View(self.weights(channels, c, 3, 3), NHWC)
        window = {"padding": PaddingCode.SAME, "stride_width": 1, "stride_height": 1}
        named = {"filter": filters, "bias": self.weights(channels), **window}
        return self.call(spec.CONV_2D, (n, channels, h, w), nhwc(x), image=True, **named)

    def pool(self, x: Value) -> Value:
        """The largest of each 2x2 block."""
        n, c, h, w = x.shape
        window = {"stride_width": 2, "stride_height": 2, "filter_width": 2, "filter_height": 2}
        named = {"padding": PaddingCode.VALID, **window}
        sizes = (n, c, h // 2, w // 2)
        return self.call(spec.MAX_POOL_2D, sizes, nhwc(x), image=True, **named)

    def dense(self, x: Value, units: int) -> Value:
        named = {"weights": self.weights(units, x.shape[1]), "bias": self.weights(units)}
        return self.call(spec.FULLY_CONNECTED, (x.shape[0], units), x, **named)

    # what may follow either layout

    def relu(self, x: Value) -> Value:
        return self.call(spec.RELU, x.shape, x)

    def tanh(self, x: Value) -> Value:
        return self.call(spec.TANH, x.shape, x)

    def add(self, x: Value, y: Value) -> Value:
        return self.call(spec.ADD, np.broadcast_shapes(x.shape, y.shape), x, y)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        sizes = list(values[0].shape)
        sizes[axis] = sum(v.shape[axis] for v in values)
        return self.call(spec.CONCATENATION, sizes, inputs=values, axis=axis)

    def mean(self, x: Value, axes: Shape, *, keep: bool) -> Value:
        kept = [1 if i in axes else d for i, d in enumerate(x.shape)]
        sizes = kept if keep else [d for i, d in enumerate(x.shape) if i not in axes]
        return self.call(spec.MEAN, sizes, x, axes=ints(axes), keep_dims=int(keep))

    def softmax(self, x: Value, axis: int) -> Value:
        return self.call(spec.SOFTMAX, x.shape, x, beta=1.0, axis=axis)

    def pad(self, x: Value, paddings: Sequence[tuple[int, int]]) -> Value:
        rows = Constant.of(np.array(paddings, np.int32))
        sizes = [d + a + b for d, (a, b) in zip(x.shape, paddings, strict=True)]
        return self.call(spec.PAD, sizes, x, paddings=rows)

    def reshape(self, x: Value, *shape: int) -> Value:
        return self.call(spec.RESHAPE, shape, x, shape=ints(shape))

    def transpose(self, x: Value, *perm: int) -> Value:
        return self.call(spec.TRANSPOSE, [x.shape[p] for p in perm], x, perm=ints(perm))

    # the whole

    def lower(self, *outputs: Value, level: int = 8) -> Lowered:
        return lower(self.calls, self.inputs, outputs, Target(level))

    def feeds(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        return {v.name: rng.uniform(-2, 2, v.shape).astype(np.float32) for v in self.inputs}


def ints(numbers: Sequence[int]) -> Constant:
    return Constant.of(np.array(numbers, np.int32))


def run(
    lowered: Lowered, feeds: Mapping[str, np.ndarray], on: str = REFERENCE_DEVICE
) -> dict[str, np.ndarray]:
    """Outputs of a device, through the border."""
    device = next(d for d in RUNTIME.devices() if d.name == on)
    compilation = RUNTIME.compile(lowered.model, device)
    names = [c.name for c in lowered.border.outputs]
    bound = lowered.border.bind(list(feeds), names)
    results: dict[str, np.ndarray] = {}

    def allocate(index: int, shape: tuple[int, ...]) -> np.ndarray:
        results[names[index]] = np.empty(shape, bound.outputs[index].dtype.numpy)
        return results[names[index]]

    bound.run(compilation, list(feeds.values()), allocate, RunOptions())
    return results


def operations(lowered: Lowered) -> list[str]:
    return [op.spec.name for op in lowered.model.operations]


def permutes(lowered: Lowered) -> list[str]:
    """Permuted values: ">x" and "x>" at the border, the sources of TRANSPOSE inside."""
    entering = [f">{c.name}" for c in lowered.border.inputs if c.perm is not None]
    leaving = [f"{c.name}>" for c in lowered.border.outputs if c.perm is not None]
    inside = [op.origin[0] for op in lowered.model.operations if op.spec is spec.TRANSPOSE]
    return entering + inside + leaving
