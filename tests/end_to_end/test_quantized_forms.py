"""Ways in which quantized operators stand in a graph, and bytes that are numbers and no more."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from tests.end_to_end import quantized as q
from tests.end_to_end.quantized import model, node

QUANTUM = 1  # ties, see test_quantized
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
    """A graph; its nodes may be text: "Concat a b -> c axis=1; Relu c -> y"."""

    nodes: Sequence[onnx.NodeProto] | str
    outputs: dict[str, int]
    inputs: dict[str, tuple[int, Sequence[int]]] = field(default_factory=lambda: PICTURE)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        given = read(self.nodes) if isinstance(self.nodes, str) else self.nodes
        return model(given, self.inputs, self.outputs, {**CONSTANTS, **self.constants})


def read(text: str) -> list[onnx.NodeProto]:
    found = []
    for line in text.split(";"):
        (op_type, given), results = line.strip().split(" ", 1), line.split(" -> ")[1].split()
        attributes = {n: int(v) for n, v in (r.split("=") for r in results if "=" in r)}
        made = " ".join(r for r in results if "=" not in r)
        found.append(node(op_type, given.split(" -> ")[0], made, **attributes))
    return found


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


IN = "DequantizeLinear a s z -> da"
OUT = "QuantizeLinear r s2 z2 -> y"
RELU = f"{IN}; Relu da -> r"
SIGNED = f"{IN}; DequantizeLinear e t tz -> de"
TWO, REAL_TO = {**PICTURE, "e": (S8, SHAPE)}, {"f": (REAL, SHAPE)}
PADS = np.array([0, 0, 1, 1, 0, 0, 2, 0], np.int64)
FORMS = {
    "a dequantization that two read": Form(
        f"{RELU}; Tanh da -> t1; {OUT}; QuantizeLinear t1 s2 z2 -> w", {"y": U8, "w": U8}
    ),
    "a dequantization that leaves too": Form(f"{RELU}; {OUT}", {"y": U8, "da": REAL}),
    "a quantization that two read and that leaves": Form(
        f"{RELU}; {OUT}; DequantizeLinear y s2 z2 -> d1; DequantizeLinear y s2 z2 -> d2;"
        "Neg d1 -> n; Tanh d2 -> h; QuantizeLinear n s z -> w; QuantizeLinear h s z -> v",
        {"y": U8, "w": U8, "v": U8},
    ),
    "numbers quantized in two ways": Form(
        f"{RELU}; {OUT}; QuantizeLinear r s z -> w", {"y": U8, "w": U8}
    ),
    "a float that leaves between operator and activation": Form(
        f"{IN}; Add da da -> b; Relu b -> r; {OUT}", {"y": U8, "b": REAL}
    ),
    "a bound of the activation that is computed": Form(
        f"{IN}; Add da da -> b; Clip b low - -> r; {OUT}", {"y": U8}, {**PICTURE, "low": (REAL, ())}
    ),
    "two activations": Form(
        f"{IN}; Add da da -> b; Relu b -> r0; Clip r0 - high -> r; {OUT}",
        {"y": U8},
        constants={"high": np.float32(3)},
    ),
    "two operators in floats": Form(f"{IN}; Mul da da -> b; Sigmoid b -> r; {OUT}", {"y": U8}),
    "quantized beside real": Form(
        f"{IN}; Add da f -> b; QuantizeLinear b s z -> y", {"y": U8}, {**PICTURE, **REAL_TO}
    ),
    "quantized anew": Form(f"{IN}; QuantizeLinear da s2 z2 -> y", {"y": U8}),
    "unsigned made signed": Form(f"{IN}; QuantizeLinear da t tz -> y", {"y": S8}),
    "unsigned and signed to signed": Form(
        f"{SIGNED}; Add da de -> b; QuantizeLinear b t tz -> y", {"y": S8}, TWO
    ),
    "unsigned and signed joined": Form(
        f"{SIGNED}; Concat da de -> b axis=1; QuantizeLinear b s z -> y", {"y": U8}, TWO
    ),
    "scales of one element": Form(
        "DequantizeLinear a s1 z1 -> da; Sigmoid da -> r; QuantizeLinear r s1 z1 -> y",
        {"y": U8},
        constants={"s1": np.float32([0.02]), "z1": np.uint8([7])},
    ),
    "no zero points": Form(
        "DequantizeLinear a s -> da; Tanh da -> r; QuantizeLinear r s2 -> y", {"y": U8}
    ),
    "the type said by an attribute": Form(
        f"QuantizeLinear f t -> b output_dtype={S8}; DequantizeLinear b t -> db; Neg db -> r;"
        f"QuantizeLinear r t -> y output_dtype={S8}",
        {"y": S8},
        REAL_TO,
    ),
    "scales of float16": Form(
        "DequantizeLinear a h z -> da; Relu da -> r; QuantizeLinear r h2 z2 -> y",
        {"y": U8},
        constants={"h": np.float16(0.05), "h2": np.float16(0.03)},
    ),
    "indices beside numbers": Form(
        f"{IN}; TopK da k -> r i; {OUT}",
        {"y": U8, "i": TensorProto.INT64},
        constants={"k": np.array([3], np.int64)},
    ),
    "the greatest of stored numbers": Form(
        f"{RELU}; QuantizeLinear r s2 z2 -> b; ArgMax b -> y axis=1;"
        "ArgMin b -> w axis=-1 keepdims=0",
        {"y": TensorProto.INT64, "w": TensorProto.INT64},
    ),
    "stored numbers padded": Form(
        "QuantizeLinear f s z -> b; Pad b p v -> c; DequantizeLinear c s z -> y",
        {"y": REAL},
        REAL_TO,
        {"p": PADS, "v": np.uint8(7)},
    ),
    "signed stored numbers padded": Form(
        "QuantizeLinear f t tz -> b; Pad b p v -> c; DequantizeLinear c t tz -> y",
        {"y": REAL},
        REAL_TO,
        {"p": PADS, "v": np.int8(7)},
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
    along = "axis=0" if many else ""
    text = (
        f"{IN}; DequantizeLinear w ws wz -> dw {along}; Conv da dw -> b; QuantizeLinear b s z -> y"
    )
    built = model(read(text), PICTURE, {"y": U8}, constants, opset)
    assert not ep_nnapi.check(built.SerializeToString()).rejections
    assert_same(built)


PIXELS = (1, 6, 8, 3)  # channels last
PLACES = 'coordinate_transformation_mode = "asymmetric"'
GIVEN = {
    "shape": np.array([8, -1], np.int64),
    "pads": np.array([0, 1, 2, 0, 0, 1, 0, 0], np.int64),
    "grey": np.uint8(114),
    "dark": np.int8(-114),
    "first": np.array([1], np.int64),
    "last": np.array([4], np.int64),
    "none": np.zeros(0, np.float32),
    "twice": np.array([1, 2, 2, 1], np.float32),
    "most": np.float32(255),
}
TRANSPOSED = "t = Transpose <perm = [0, 3, 1, 2]> (x)"
NEAREST = f'<mode = "nearest", {PLACES}, nearest_mode = "floor">'
CASES: dict[str, tuple[str, int, int]] = {  # nodes, output, lowest level
    "made floats": (f"{TRANSPOSED} f = Cast <to = 1> (t) y = Div (f, most)", REAL, 2),
    "Reshape": ("y = Reshape (x, shape)", U8, 1),
    "MaxPool": (f"{TRANSPOSED} y = MaxPool <kernel_shape = [2, 2]> (t)", U8, 2),
    "Slice": ("y = Slice (x, first, last, first)", U8, 2),
    "Concat": ("y = Concat <axis = 3> (x, x)", U8, 1),
    "Gather": ("y = Gather <axis = 3> (x, first)", U8, 3),
    "Pad": ("y = Pad (x, pads, grey)", U8, 3),
    "Resize": (f"y = Resize {NEAREST} (x, none, twice)", U8, 3),
}


def fed(kind: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": numbers.astype(np.uint8).view(np.uint8 if kind == U8 else np.int8)}


NUMBERS = np.random.default_rng(0).integers(0, 256, PIXELS)


@pytest.mark.parametrize("name", CASES)
def test_bytes_are_taken_and_unchanged(name: str) -> None:
    nodes, out, lowest = CASES[name]
    built = model(nodes, {"x": (U8, PIXELS)}, {"y": out}, GIVEN)
    feeds = fed(U8, NUMBERS)
    want = q.on_cpu(built, feeds)[0]
    for level in {lowest, 3, 8}:
        assert not ep_nnapi.check(built.SerializeToString(), feature_level=level).rejections
        got = q.on_nnapi(built, feeds, feature_level=level)[0]
        np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("level", [3, 4])
def test_signed_bytes_are_unsigned_inside_on_older_levels(level: int) -> None:
    """Addends are numbers as stored, too."""
    built = model(f"{TRANSPOSED} y = Pad (t, pads, dark)", {"x": (S8, PIXELS)}, {"y": S8}, GIVEN)
    feeds = fed(S8, NUMBERS)
    assert not ep_nnapi.check(built.SerializeToString(), feature_level=level).rejections
    got, want = q.on_nnapi(built, feeds, feature_level=level), q.on_cpu(built, feeds)
    np.testing.assert_array_equal(got[0], want[0], strict=True)


def test_what_is_computed_between_bytes_is_refused() -> None:
    """Between pixels ONNX Runtime cuts fractions off, where NNAPI rounds."""
    text = f'{TRANSPOSED} y = Resize <mode = "linear", {PLACES}> (t, none, half)'
    constants = {**GIVEN, "half": np.array([1, 1, 0.5, 0.5], np.float32)}
    built = model(text, {"x": (U8, PIXELS)}, {"y": U8}, constants)
    (refused,) = ep_nnapi.check(built.SerializeToString()).rejections
    assert (refused.op_type, refused.reason) == ("Resize", "DTYPE")


def weights(kind: int, scale: np.ndarray, zero: object = None, **attributes: object) -> Form:
    """A product with weights [8, 6] of that type."""
    inputs, constants = (
        "w ws",
        {"w": numbers("w", kind, (8, 6)), "ws": np.asarray(scale, np.float32)},
    )
    if zero is not None:
        inputs, constants = f"{inputs} wz", {**constants, "wz": zero}
    nodes = [node("DequantizeLinear", inputs, "dw", **attributes), node("MatMul", "f dw", "y")]
    return Form(nodes, {"y": REAL}, {"f": (REAL, (2, 8))}, constants)


def numbers(name: str, kind: int, shape: Sequence[int]) -> onnx.TensorProto:
    least = 0 if kind == TensorProto.UINT4 else -8
    return helper.make_tensor(name, kind, shape, [i % 16 + least for i in range(prod(shape))])


S4, U4 = TensorProto.INT4, TensorProto.UINT4
CHANNELS, BLOCKS = np.linspace(0.1, 0.3, 6), np.linspace(0.05, 0.2, 12).reshape(2, 6)
LAST = np.linspace(0.05, 0.2, 16).reshape(8, 2)
WEIGHTS = {
    "4 bits": weights(S4, 0.1),
    "4 bits and a zero point": weights(U4, 0.1, numbers("wz", U4, ())),
    "4 bits by channel": weights(S4, CHANNELS),
    "4 bits by channel and zero points": weights(U4, CHANNELS, numbers("wz", U4, (6,))),
    "by block": weights(S8, BLOCKS, axis=0, block_size=4),
    "4 bits by block": weights(S4, BLOCKS, numbers("wz", S4, (2, 6)), axis=0, block_size=4),
    "unsigned, by the last block": weights(
        U4, BLOCKS.reshape(6, 2).repeat(2, 0)[:8], axis=-1, block_size=3
    ),
}


@pytest.mark.parametrize("level", [1, 8])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_of_few_bits_and_by_block_are_dequantized(name: str, level: int) -> None:
    built = WEIGHTS[name].model()
    report = ep_nnapi.check(built.SerializeToString(), feature_level=level)
    assert (report.taken, len(report.clusters), report.rejections) == (2, 1, ())
    assert_same(built, feature_level=level)


def test_weights_by_block_take_no_more_bytes_than_allowed() -> None:
    built = WEIGHTS["4 bits by block"].model().SerializeToString()
    assert not ep_nnapi.check(built, max_dequantized_bytes=192).rejections
    (refusal, _) = ep_nnapi.check(built, max_dequantized_bytes=191).rejections
    assert refusal.reason == "SIZE"
    assert "dequantized has 192 bytes; max_dequantized_bytes allows 191" in refusal.detail


def test_weights_of_4_bits_of_a_quantized_product_are_those_of_8() -> None:
    form = Form(
        f"{IN}; DequantizeLinear w t -> dw; Conv da dw -> r; {OUT}",
        {"y": U8},
        constants={"w": numbers("w", S4, (5, 4, 1, 1))},
    )
    built = form.model()
    (cluster,) = ep_nnapi.check(built.SerializeToString()).clusters
    assert len(cluster.nodes) == len(built.graph.node)
    assert_same(built)
    builtin = ep_nnapi.check(built.SerializeToString(), target="builtin-nnapi")
    assert any("w is INT4, which is not supported" in r.detail for r in builtin.rejections)
