"""Groups of one quantized operator each, of 8 bits, as quantizers write them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tests.end_to_end.quantized import TYPES, Qdq, Scale

X: Scale = (0.05, 120)
Y: Scale = (0.06, 117)
SIGNED = 128  # what a zero point is less by for signed numbers


def scaled(kind: str, scale: Scale) -> Scale:
    return scale if kind == "u8" else (scale[0], scale[1] - SIGNED)


def unary(op_type: str, out: Scale = Y, shape: tuple[int, ...] = (1, 4, 6, 6), **attributes):
    """A group of one operator on one tensor."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        x = g.input(shape, scaled(kind, X))
        return g.model(g.group(op_type, [x], scaled(kind, out), **attributes))

    return build


def numbers(op_type: str, *constants: np.ndarray, out: Scale = Y, **attributes):
    """A group of one operator on a tensor and constants that are not quantized."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        x = g.input((1, 4, 6, 6), scaled(kind, X))
        given = [x, *(g.constant(c) for c in constants)]
        return g.model(g.group(op_type, given, scaled(kind, out), **attributes))

    return build


def several(op_type: str, count: int, out: Scale = (0.11, 110), **attributes):
    """A group of one operator on tensors of different scales."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        xs = [
            g.input((1, 4, 6, 6), scaled(kind, (0.03 + 0.02 * i, 100 + 9 * i)))
            for i in range(count)
        ]
        return g.model(g.group(op_type, xs, scaled(kind, out), **attributes))

    return build


@dataclass(frozen=True)
class Weights:
    """Quantization of a filter and its bias; by default INT8 per channel from 0, and INT32.

    bias   its scale, of what it should be
    zeros  whether zero points are given
    """

    kind: str = "s8"
    zero: int = 0
    channels: bool = True
    bias: float = 1.0
    zeros: bool = True


def convolution(
    op_type: str = "Conv",
    shape: tuple[int, ...] = (6, 4, 3, 3),
    activation=None,
    weights: Weights = Weights(),
    **attributes,
):
    """A group with quantized weights and an INT32 bias."""

    def build(kind: str) -> onnx.ModelProto:
        rng, g = np.random.default_rng(7), Qdq(kind)
        x = g.input((1, 4, 6, 6), scaled(kind, X))
        axis = 1 if op_type == "ConvTranspose" else 0
        groups = int(attributes.get("group", 1)) if axis else 1
        units = shape[axis]
        steps = rng.uniform(0.005, 0.02, units).astype(np.float32)
        steps = steps if weights.channels else steps[0]
        least = 0 if weights.kind == "u8" else -127
        stored = rng.integers(least, 128, shape).astype(TYPES[weights.kind])
        zero = weights.zero if weights.zeros else None
        w = g.weights(stored, steps, zero, axis=axis)
        added = rng.integers(-900, 900, units * groups).astype(np.int32)
        step = np.tile(steps, groups) if weights.channels else steps
        b = g.weights(added, step * np.float32(X[0] * weights.bias), 0 if weights.zeros else None)
        out = scaled(kind, (0.2, 128))
        return g.model(g.group(op_type, [x, w, b], out, activation=activation, **attributes))

    return build


def normalization(op_type: str, *, shifted: bool):
    """A group of which scale and, if `shifted`, bias [6] are quantized too: 8 bits and INT32."""

    def build(kind: str) -> onnx.ModelProto:
        rng, g = np.random.default_rng(7), Qdq(kind)
        x = g.input((1, 4, 6, 6), scaled(kind, X))
        numbers = scaled(kind, (0.01, 20))
        scale = g.weights(rng.integers(100, 128, 6).astype(TYPES[kind]), *numbers)
        bias = [g.weights(rng.integers(-900, 900, 6).astype(np.int32), 1e-3)] if shifted else []
        return g.model(g.group(op_type, [x, scale, *bias], scaled(kind, Y)))

    return build


def product(op_type: str, per_channel: bool, **attributes):
    """A group with INT8 weights [K, N]."""

    def build(kind: str) -> onnx.ModelProto:
        rng, g = np.random.default_rng(7), Qdq(kind)
        x = g.input((5, 8), scaled(kind, X))
        steps = rng.uniform(0.005, 0.02, 6).astype(np.float32) if per_channel else 0.01
        w = g.weights(rng.integers(-127, 128, (8, 6)).astype(np.int8), steps, axis=1)
        return g.model(g.group(op_type, [x, w], scaled(kind, (0.1, 128)), **attributes))

    return build


ints = lambda *n: np.array(n, np.int64)  # noqa: E731
FIXED: Scale = (1 / 256, 0)
GROUPS: dict[str, Callable[[str], onnx.ModelProto]] = {
    "Conv": convolution(),
    "Conv strided": convolution(strides=[2, 2], pads=[1, 1, 1, 1]),
    "Conv dilated": convolution(dilations=[2, 2]),
    "Conv Relu": convolution(activation=("Relu", ())),
    "Conv Clip": convolution(activation=("Clip", (0, 6))),
    "Conv Clip odd": convolution(activation=("Clip", (-3.3, 7.7))),
    "Conv depthwise": convolution(shape=(4, 1, 3, 3), group=4),
    "Conv grouped": convolution(shape=(6, 2, 3, 3), group=2),
    "ConvTranspose": convolution("ConvTranspose", (4, 6, 3, 3), strides=[2, 2]),
    "ConvTranspose grouped": convolution("ConvTranspose", (4, 3, 3, 3), group=2),
    "ConvTranspose grouped per tensor": convolution(
        "ConvTranspose", (4, 3, 3, 3), weights=Weights(channels=False), group=2
    ),
    "Conv per tensor": convolution(weights=Weights(channels=False)),
    "Conv u8": convolution(weights=Weights("u8", 100, channels=False)),
    "Conv u8 per channel": convolution(weights=Weights("u8", 128)),
    "Conv u8 per channel off centre": convolution(weights=Weights("u8", 100)),
    "Conv s8 off centre": convolution(weights=Weights("s8", 3)),
    "Conv without zero points": convolution(weights=Weights(zeros=False)),
    "Conv bias of other steps": convolution(weights=Weights(bias=1.7)),
    "Conv bias of fine steps": convolution(weights=Weights(bias=1e-8)),
    "Conv bias beyond INT32": convolution(weights=Weights(bias=1e8)),
    "Gemm": product("Gemm", per_channel=False),
    "Gemm per channel": product("Gemm", per_channel=True),
    "MatMul": product("MatMul", per_channel=False),
    "MatMul per channel": product("MatMul", per_channel=True),
    "Add": several("Add", 2),
    "Sub": several("Sub", 2),
    "Mul": several("Mul", 2),
    "Div": several("Div", 2),
    "Max": several("Max", 2),
    "Min": several("Min", 3),
    "Sum": several("Sum", 3),
    "Mean": several("Mean", 2),
    "PRelu": several("PRelu", 2),
    "Concat": several("Concat", 3, axis=1),
    "Relu": unary("Relu"),
    "Relu of range": unary("Relu", (0.03, 0)),
    "Clip": numbers("Clip", np.float32(-1.5), np.float32(3)),
    "Clip 0 to 6": numbers("Clip", np.float32(0), np.float32(6)),
    "LeakyRelu": unary("LeakyRelu", alpha=0.1),
    "LeakyRelu rising": unary("LeakyRelu", alpha=-0.2),
    "Elu": unary("Elu"),
    "HardSwish": unary("HardSwish"),
    "HardSigmoid": unary("HardSigmoid", FIXED),
    "Sigmoid": unary("Sigmoid", FIXED),
    "Sigmoid coarser": unary("Sigmoid", (1 / 200, 3)),
    "Sigmoid finer": unary("Sigmoid", (1 / 1000, 3)),
    "Tanh": unary("Tanh", (1 / 128, 128)),
    "Tanh otherwise": unary("Tanh", (1 / 120, 120)),
    "Softmax": unary("Softmax", FIXED, axis=1),
    "Softmax otherwise": unary("Softmax", (0.002, 1), axis=-1),
    "LogSoftmax": unary("LogSoftmax", (0.1, 255), axis=-1),
    "MaxPool": unary("MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    "AveragePool": unary("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "AveragePool finer": unary("AveragePool", (0.01, 128), kernel_shape=[3, 3]),
    "GlobalAveragePool": unary("GlobalAveragePool", (0.02, 128)),
    "GlobalMaxPool": unary("GlobalMaxPool"),
    "ReduceMean": numbers("ReduceMean", ints(2, 3)),
    "ReduceMax": numbers("ReduceMax", ints(1)),
    "Reshape": numbers("Reshape", ints(4, -1)),
    "Flatten": unary("Flatten"),
    "Squeeze": numbers("Squeeze", ints(0)),
    "Unsqueeze": numbers("Unsqueeze", ints(0), out=X),
    "Transpose": unary("Transpose", perm=[0, 2, 3, 1]),
    "Pad": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2)),
    "Slice": numbers("Slice", ints(1, 0), ints(3, 5), ints(2, 3)),
    "Gather": numbers("Gather", ints(2, 0), axis=1),
    "DepthToSpace": unary("DepthToSpace", blocksize=2),
    "SpaceToDepth": unary("SpaceToDepth", blocksize=2),
    "Tile": numbers("Tile", ints(1, 1, 2, 1)),
    "Resize nearest": numbers(
        "Resize",
        np.zeros(0, np.float32),
        np.float32([1, 1, 2, 2]),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "Resize linear": numbers(
        "Resize",
        np.zeros(0, np.float32),
        np.float32([1, 1, 2, 2]),
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    ),
    "Exp": unary("Exp", (0.5, 0)),
    "InstanceNormalization": numbers(
        "InstanceNormalization", np.float32([1, 2, 0.5, 1]), np.float32([0, 1, -0.5, 0.2])
    ),
    "LayerNormalization": numbers("LayerNormalization", np.ones(6, np.float32)),
    "LayerNormalization of quantized scale": normalization("LayerNormalization", shifted=False),
    "LayerNormalization of quantized bias": normalization("LayerNormalization", shifted=True),
    "BatchNormalization": numbers(
        "BatchNormalization", *(np.float32([1, 2, 0.5, 1]) for _ in range(4))
    ),
    "Pad with a number": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2), np.float32(1.3)),
    "Pad with a stored number": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2), np.float32(1.25)),
    "Pad beyond the range": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2), np.float32(-99)),
    "Pad reflected": numbers("Pad", ints(0, 0, 1, 1, 0, 0, 1, 2), mode="reflect"),
    "Slice backwards": numbers("Slice", ints(5), ints(0), ints(2), ints(-2)),
    "Expand": numbers("Expand", ints(2, 4, 6, 6)),
    "Clip above": numbers("Clip", np.float32(-3e38), np.float32(1)),
    "Clip below": numbers("Clip", np.float32(0.3)),
    "ReduceSum": numbers("ReduceSum", ints(2, 3), out=(0.3, 128)),
    **{o: unary(o) for o in ("Erf", "Gelu", "Mish", "Selu", "Softplus", "Floor", "Abs", "Neg")},
    "LRN": unary("LRN", size=3),
    "LpNormalization": unary("LpNormalization", (1 / 100, 128), axis=1),
}
