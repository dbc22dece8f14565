"""Ways in which quantized operators stand in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from tests.end_to_end import quantized as q
from tests.end_to_end.quantized import model, node

QUANTUM = 1  # ties, see test_quantized
QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
U8, S8, REAL = TensorProto.UINT8, TensorProto.INT8, TensorProto.FLOAT
SHAPE = (1, 4, 6, 6)
PICTURE = {"a": (U8, SHAPE)}
CONSTANTS = {
    "s": np.float32(0.05),
    "z": np.uint8(120),
    "s2": np.float32(0.03),
    "z2": np.uint8(9),
    "t": np.float32(0.04),  # signed
    "tz": np.int8(-9),
}


@dataclass(frozen=True)
class Form:
    """A graph."""

    nodes: Sequence[onnx.NodeProto]
    outputs: dict[str, int]
    inputs: dict[str, tuple[int, Sequence[int]]] = field(default_factory=lambda: PICTURE)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        return model(self.nodes, self.inputs, self.outputs, {**CONSTANTS, **self.constants})


def drawn(built: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Stored numbers over their whole range, and real ones."""
    rng = np.random.default_rng(0)
    found = {}
    for info in built.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        numbers = rng.uniform(-3, 3, shape)
        if np.issubdtype(dtype, np.integer):
            numbers = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, endpoint=True)
        found[info.name] = np.asarray(numbers).astype(dtype)
    return found


def assert_same(built: onnx.ModelProto, **options: object) -> None:
    """Stored results are within one quantum, real ones within float32's rounding."""
    feeds = drawn(built)
    got, want = q.on_nnapi(built, feeds, **options), q.on_cpu(built, feeds)
    for ours, theirs in zip(got, want, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        close = 1e-5 if ours.dtype.kind == "f" else QUANTUM
        np.testing.assert_allclose(ours.astype(float), theirs.astype(float), rtol=0, atol=close)


IN = node(DEQUANTIZE, "a s z", "da")
FORMS = {
    "a dequantization that two read": Form(
        [
            IN,
            node("Relu", "da", "r"),
            node("Tanh", "da", "t1"),
            node(QUANTIZE, "r s2 z2", "y"),
            node(QUANTIZE, "t1 s2 z2", "w"),
        ],
        {"y": U8, "w": U8},
    ),
    "a dequantization that leaves too": Form(
        [IN, node("Relu", "da", "r"), node(QUANTIZE, "r s2 z2", "y")], {"y": U8, "da": REAL}
    ),
    "a quantization that two read and that leaves": Form(
        [
            IN,
            node("Relu", "da", "r"),
            node(QUANTIZE, "r s2 z2", "y"),
            node(DEQUANTIZE, "y s2 z2", "d1"),
            node(DEQUANTIZE, "y s2 z2", "d2"),
            node("Neg", "d1", "n"),
            node("Tanh", "d2", "h"),
            node(QUANTIZE, "n s z", "w"),
            node(QUANTIZE, "h s z", "v"),
        ],
        {"y": U8, "w": U8, "v": U8},
    ),
    "numbers quantized in two ways": Form(
        [
            IN,
            node("Relu", "da", "r"),
            node(QUANTIZE, "r s2 z2", "y"),
            node(QUANTIZE, "r s z", "w"),
        ],
        {"y": U8, "w": U8},
    ),
    "a float that leaves between operator and activation": Form(
        [
            IN,
            node("Add", "da da", "b"),
            node("Relu", "b", "r"),
            node(QUANTIZE, "r s2 z2", "y"),
        ],
        {"y": U8, "b": REAL},
    ),
    "a bound of the activation that is computed": Form(
        [
            IN,
            node("Add", "da da", "b"),
            node("Clip", "b low -", "r"),
            node(QUANTIZE, "r s2 z2", "y"),
        ],
        {"y": U8},
        {**PICTURE, "low": (REAL, ())},
    ),
    "two activations": Form(
        [
            IN,
            node("Add", "da da", "b"),
            node("Relu", "b", "r"),
            node("Clip", "r - high", "c"),
            node(QUANTIZE, "c s2 z2", "y"),
        ],
        {"y": U8},
        constants={"high": np.float32(3)},
    ),
    "two operators in floats": Form(
        [
            IN,
            node("Mul", "da da", "b"),
            node("Sigmoid", "b", "r"),
            node(QUANTIZE, "r s2 z2", "y"),
        ],
        {"y": U8},
    ),
    "quantized beside real": Form(
        [IN, node("Add", "da f", "b"), node(QUANTIZE, "b s z", "y")],
        {"y": U8},
        {**PICTURE, "f": (REAL, SHAPE)},
    ),
    "quantized anew": Form([IN, node(QUANTIZE, "da s2 z2", "y")], {"y": U8}),
    "unsigned made signed": Form([IN, node(QUANTIZE, "da t tz", "y")], {"y": S8}),
    "unsigned and signed to signed": Form(
        [
            IN,
            node(DEQUANTIZE, "e t tz", "de"),
            node("Add", "da de", "b"),
            node(QUANTIZE, "b t tz", "y"),
        ],
        {"y": S8},
        {**PICTURE, "e": (S8, SHAPE)},
    ),
    "unsigned and signed joined": Form(
        [
            IN,
            node(DEQUANTIZE, "e t tz", "de"),
            node("Concat", "da de", "b", axis=1),
            node(QUANTIZE, "b s z", "y"),
        ],
        {"y": U8},
        {**PICTURE, "e": (S8, SHAPE)},
    ),
    "scales of one element": Form(
        [
            node(DEQUANTIZE, "a s1 z1", "da"),
            node("Sigmoid", "da", "r"),
            node(QUANTIZE, "r s1 z1", "y"),
        ],
        {"y": U8},
        constants={"s1": np.float32([0.02]), "z1": np.uint8([7])},
    ),
    "no zero points": Form(
        [node(DEQUANTIZE, "a s", "da"), node("Tanh", "da", "r"), node(QUANTIZE, "r s2", "y")],
        {"y": U8},
    ),
    "the type said by an attribute": Form(
        [
            node(QUANTIZE, "f t", "b", output_dtype=S8),
            node(DEQUANTIZE, "b t", "db"),
            node("Neg", "db", "r"),
            node(QUANTIZE, "r t", "y", output_dtype=S8),
        ],
        {"y": S8},
        {"f": (REAL, SHAPE)},
    ),
    "scales of float16": Form(
        [
            node(DEQUANTIZE, "a h z", "da"),
            node("Relu", "da", "r"),
            node(QUANTIZE, "r h2 z2", "y"),
        ],
        {"y": U8},
        constants={"h": np.float16(0.05), "h2": np.float16(0.03)},
    ),
    "indices beside numbers": Form(
        [
            IN,
            node("TopK", "da k", "b i"),
            node(QUANTIZE, "b s2 z2", "y"),
        ],
        {"y": U8, "i": TensorProto.INT64},
        constants={"k": np.array([3], np.int64)},
    ),
    "the greatest of stored numbers": Form(
        [
            IN,
            node("Relu", "da", "r"),
            node(QUANTIZE, "r s2 z2", "b"),
            node("ArgMax", "b", "y", axis=1),
            node("ArgMin", "b", "w", axis=-1, keepdims=0),
        ],
        {"y": TensorProto.INT64, "w": TensorProto.INT64},
    ),
    "stored numbers padded": Form(
        [
            node(QUANTIZE, "f s z", "b"),
            node("Pad", "b p v", "c"),
            node(DEQUANTIZE, "c s z", "y"),
        ],
        {"y": REAL},
        {"f": (REAL, SHAPE)},
        {"p": np.array([0, 0, 1, 1, 0, 0, 2, 0], np.int64), "v": np.uint8(7)},
    ),
    "signed stored numbers padded": Form(
        [
            node(QUANTIZE, "f t tz", "b"),
            node("Pad", "b p v", "c"),
            node(DEQUANTIZE, "c t tz", "y"),
        ],
        {"y": REAL},
        {"f": (REAL, SHAPE)},
        {"p": np.array([0, 0, 1, 1, 0, 0, 2, 0], np.int64), "v": np.int8(7)},
    ),
}


@pytest.mark.parametrize("level", [8, 3])
@pytest.mark.parametrize("name", FORMS)
def test_forms_are_taken_and_match(name: str, level: int) -> None:
    built = FORMS[name].model()
    report = ep_nnapi.check(built.SerializeToString(), feature_level=level)
    assert not report.rejections
    assert_same(built, feature_level=level)


@pytest.mark.parametrize("opset", [10, 11, 12, 13, 19, 21, 23, 24, 25])
def test_every_opset_of_quantization(opset: int) -> None:
    """Scales along an axis came with opset 13; `output_dtype` and blocks with 21."""
    many = opset >= 13
    shape = (3,) if many else ()
    constants = {
        **CONSTANTS,
        "w": np.random.default_rng(0).integers(-127, 128, (3, 4, 1, 1)).astype(np.int8),
        "ws": np.full(shape, 0.02, np.float32),
        "wz": np.zeros(shape, np.int8),
    }
    nodes = [
        IN,
        node(DEQUANTIZE, "w ws wz", "dw", **({"axis": 0} if many else {})),
        node("Conv", "da dw", "b"),
        node(QUANTIZE, "b s z", "y"),
    ]
    built = model(nodes, PICTURE, {"y": U8}, constants, opset)
    assert not ep_nnapi.check(built.SerializeToString()).rejections
    assert_same(built)
