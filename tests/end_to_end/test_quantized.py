"""Quantized models beside the CPU provider without its fused integer kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from models import zoo
from tests.end_to_end import quantized as q
from tests.end_to_end.quantized import Qdq
from tests.end_to_end.sessions import DIGITS, ROOT
from tests.end_to_end.test_zoo import SMALL

# The quantizer imports ml_dtypes and sympy, which old versions of onnx and onnxruntime lack.
pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)

SCHEMES = ["u8u8", "u8s8", "s8s8"]
SHORT = ["mobilenet_v2", "squeezenet1_1", "segmentation", "mlp"]
ZOO = [
    pytest.param(n, marks=[] if n in SHORT else pytest.mark.long)
    for n in (*SMALL, "vgg_small", "kws_dscnn", "mlp")
]

# One quantum: of ties the CPU provider takes the even number, NNAPI the greater one, and next to
# ties the CPU provider's sums of float32 products are off, where NNAPI's sums of integers are not.
QUANTUM = 1


@cache
def built(name: str, scheme: str) -> onnx.ModelProto:
    if name in SMALL:
        return zoo.quantized(name, scheme, size=SMALL[name])
    return zoo.quantized(name, scheme)


def assert_taken(model: onnx.ModelProto, **options: object) -> None:
    report = ep_nnapi.check(model.SerializeToString(), **options)
    assert not report.rejections
    assert len(report.clusters) == 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ZOO)
def test_quantized_networks_are_one_cluster(name: str, scheme: str) -> None:
    assert_taken(built(name, scheme))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ZOO)
def test_every_layer_is_within_one_quantum(name: str, scheme: str) -> None:
    """Whole networks are not: what one layer rounds otherwise, the next ones add up."""
    model = built(name, scheme)
    feeds = zoo.sample_inputs(model)
    feeds |= q.quantized_tensors(model, feeds)
    cut = q.layers(model)
    given = {i.name: feeds[i.name] for i in cut.graph.input}
    assert q.apart(q.on_nnapi(cut, given), q.on_cpu(cut, given)) <= QUANTUM


@pytest.mark.parametrize("scheme", SCHEMES)
def test_quantized_digits_are_recognized_within_one_percent(scheme: str) -> None:
    model = zoo.quantized("digits", scheme)
    options = onnxruntime.SessionOptions()
    ep_nnapi.append_execution_provider(options)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    labels = np.load(ROOT / "models" / "digits" / "held_out.npz")["labels"]
    digits = DIGITS.digits()
    right = [
        np.mean(
            [DIGITS.run(s, x).argmax() == label for x, label in zip(digits, labels, strict=True)]
        )
        for s in (session, DIGITS.cpu())
    ]
    assert abs(right[0] - right[1]) <= 0.01


X: q.Scale = (0.05, 120)
Y: q.Scale = (0.06, 117)
SIGNED = 128  # what a zero point is less by for signed numbers


def scaled(kind: str, scale: q.Scale) -> q.Scale:
    return scale if kind == "u8" else (scale[0], scale[1] - SIGNED)


def unary(op_type: str, out: q.Scale = Y, shape: tuple[int, ...] = (1, 4, 6, 6), **attributes):
    """A group of one operator on one tensor."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        x = g.input(shape, scaled(kind, X))
        return g.model(g.group(op_type, [x], scaled(kind, out), **attributes))

    return build


def numbers(op_type: str, *constants: np.ndarray, out: q.Scale = Y, **attributes):
    """A group of one operator on a tensor and constants that are not quantized."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        x = g.input((1, 4, 6, 6), scaled(kind, X))
        given = [x, *(g.constant(c) for c in constants)]
        return g.model(g.group(op_type, given, scaled(kind, out), **attributes))

    return build


def several(op_type: str, count: int, out: q.Scale = (0.11, 110), **attributes):
    """A group of one operator on tensors of different scales."""

    def build(kind: str) -> onnx.ModelProto:
        g = Qdq(kind)
        xs = [
            g.input((1, 4, 6, 6), scaled(kind, (0.03 + 0.02 * i, 100 + 9 * i)))
            for i in range(count)
        ]
        return g.model(g.group(op_type, xs, scaled(kind, out), **attributes))

    return build


def convolution(
    op_type: str = "Conv", shape: tuple[int, ...] = (6, 4, 3, 3), activation=None, **attributes
):
    """A group with INT8 weights per channel, and an INT32 bias."""

    def build(kind: str) -> onnx.ModelProto:
        rng, g = np.random.default_rng(7), Qdq(kind)
        x = g.input((1, 4, 6, 6), scaled(kind, X))
        axis = 1 if op_type == "ConvTranspose" else 0
        units = shape[axis]
        steps = rng.uniform(0.005, 0.02, units).astype(np.float32)
        w = g.weights(rng.integers(-127, 128, shape).astype(np.int8), steps, axis=axis)
        added = rng.integers(-900, 900, units).astype(np.int32)
        b = g.weights(added, steps * np.float32(X[0]))
        out = scaled(kind, (0.2, 128))
        return g.model(g.group(op_type, [x, w, b], out, activation=activation, **attributes))

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
FIXED: q.Scale = (1 / 256, 0)
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
}


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_taken_and_match(name: str, kind: str) -> None:
    model = GROUPS[name](kind)
    assert_taken(model)
    feeds = q.stored(model)
    assert q.apart(q.on_nnapi(model, feeds), q.on_cpu(model, feeds)) <= QUANTUM


@pytest.mark.parametrize("level", [3, 5])
@pytest.mark.parametrize("name", GROUPS)
def test_signed_groups_match_on_older_levels(name: str, level: int) -> None:
    """Below level 4 signed numbers are unsigned ones inside."""
    model = GROUPS[name]("s8")
    feeds = q.stored(model)
    got = q.on_nnapi(model, feeds, feature_level=level)
    assert q.apart(got, q.on_cpu(model, feeds)) <= QUANTUM


def test_split_is_a_group_of_several_outputs() -> None:
    g = Qdq("u8")
    x = g.input((1, 4, 6, 6), X)
    outs = g.group("Split", [x], Y, outputs=2, axis=1, num_outputs=2).split(",")
    model = g.model(*outs)
    assert_taken(model)
    feeds = q.stored(model)
    assert q.apart(q.on_nnapi(model, feeds), q.on_cpu(model, feeds)) <= QUANTUM
