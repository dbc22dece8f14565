"""Casts between all types that NNAPI holds, and quantization."""

import itertools
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from ep_nnapi.nnapi.errors import Reason
from tests.end_to_end import quantized as q
from tests.onnx_graph import model_of
from tests.oracle import (
    FL,
    Fed,
    accepts,
    boolean,
    emitted,
    f32,
    f64,
    i32,
    i64,
    matches,
    node,
    rejects,
)

TYPES = {
    "float": TensorProto.FLOAT,
    "half": TensorProto.FLOAT16,
    "int": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}
SHAPES = [(2, 3), (), (2, 1, 2, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("source", "to"), [*itertools.product(TYPES, TYPES)])
def test_cast_matches(source, to, shape):
    matches(node("Cast", Fed(TYPES[source], shape, -9, 9), to=TYPES[to]), FL[8])


@pytest.mark.parametrize("to", ["float", "half", "int", "bool"])
@pytest.mark.parametrize("source", [TensorProto.UINT8, TensorProto.INT8])
def test_cast_of_bytes_matches(source, to):
    low = 0 if source == TensorProto.UINT8 else -128
    matches(node("Cast", Fed(source, (50,), low, low + 255), to=TYPES[to]), FL[8])


def test_cast_of_an_image_is_one_operation_at_level_1():
    image = Fed(TensorProto.UINT8, (1, 3, 4, 4), 0, 255)
    case = node("Cast", image, to=TensorProto.FLOAT)
    assert emitted(case, FL[1]) == ["DEQUANTIZE"]
    matches(case, FL[1])


@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.INT32])
def test_cast_like_matches(to):
    matches(node("CastLike", f32(2, 3, low=-9, high=9), Fed(to, (1,))), FL[8])


def test_long_integers_where_their_range_is_known():
    matches(node("Cast", i32(2, 3), to=TensorProto.INT64), FL[3])
    matches(node("Cast", boolean(2, 3), to=TensorProto.INT64), FL[3])
    wide = np.array([2**31, -(2**40) + 7, 3], np.int64)
    matches(node("Cast", i64(3), to=TensorProto.INT32), FL[3], feeds={"x0": wide})


def test_cast_levels():
    case = node("Cast", f32(2), to=TensorProto.INT32)
    accepts(case, FL[3])
    rejects(case, FL[2], Reason.LEVEL, "CAST")
    signed = node("Cast", Fed(TensorProto.INT8, (30,), -128, 127), to=TensorProto.FLOAT)
    matches(signed, FL[1])  # as unsigned bytes, which the border makes of them


def test_cast_refusals():
    unknown = "may exceed INT32"
    rejects(node("Cast", i64(3), to=TensorProto.FLOAT), FL[8], Reason.DTYPE, unknown)
    rejects(node("Cast", f32(3), to=TensorProto.INT64), FL[8], Reason.DTYPE, unknown)
    rejects(node("Cast", f64(3), to=TensorProto.FLOAT), FL[8], Reason.DTYPE, "DOUBLE")
    rejects(node("Cast", f32(3), to=TensorProto.UINT8), FL[8], Reason.DTYPE, "UINT8")


KINDS = pytest.mark.parametrize("kind", [np.uint8, np.int8])
MS = "com.microsoft"
IN, OUT, OTHER = (0.03, 117), (0.06, 131), (0.05, 128)
"""Scales, with zero points of unsigned bytes."""
RNG = np.random.default_rng


def one(
    op_type: str,
    fed: list[tuple[type, tuple[int, ...]]],
    given: list[object],
    out: type,
    *,
    domain: str = "",
    **attributes: object,
) -> onnx.ModelProto:
    """A node whose inputs are `given`: an int is the position of what is fed, else a constant."""
    names, constants = [], {}
    for value in given:
        if isinstance(value, int):
            names.append(f"x{value}")
            continue
        names.append(f"c{len(constants)}")
        constants[names[-1]] = value
    inputs = {f"x{i}": of for i, of in enumerate(fed)}
    made = helper.make_node(op_type, names, ["y"], "node", domain=domain, **attributes)
    domains = {MS: 1}
    return model_of(
        [made], inputs, {"y": (out, None)}, constants, 21, ir_version=10, domains=domains
    )


def scale(kind: type, given: q.Scale) -> tuple[np.float32, np.ndarray]:
    return np.float32(given[0]), np.array(given[1] - (128 if kind is np.int8 else 0), kind)


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = RNG(11)
    found = {}
    for info in model.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if dtype == np.bool_:
            found[info.name] = rng.random(shape) < 0.5
        elif np.issubdtype(dtype, np.floating):
            found[info.name] = rng.uniform(-9, 9, shape).astype(dtype)
        else:
            low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
            found[info.name] = rng.integers(low, high, shape).astype(dtype)
    return found


def results(model: onnx.ModelProto, **options: object) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Of NNAPI, which takes the whole model, and of the CPU provider."""
    assert not ep_nnapi.check(model.SerializeToString(), **options).rejections
    given = feeds(model)
    return q.on_nnapi(model, given, **options), q.on_cpu(model, given)


def assert_equal(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    np.testing.assert_array_equal(got[0], want[0])


def refused(model: onnx.ModelProto, reason: Reason, detail: str, **options: object) -> None:
    (found,) = ep_nnapi.check(model.SerializeToString(), **options).rejections
    assert found.reason == reason
    assert detail in found.detail


@pytest.mark.parametrize("level", [3, 8])
@KINDS
def test_quantize_matches(kind: type, level: int):
    model = one("QuantizeLinear", [(np.float32, (2, 3, 40))], [0, *scale(kind, IN)], kind)
    assert q.apart(*results(model, feature_level=level)) <= 1  # ties: away from 0, not to even


def test_what_is_not_quantized():
    fed = [(np.float32, (2, 3))]
    model = one("QuantizeLinear", fed, [0, *scale(np.uint8, IN)], np.uint8)
    needs = "QUANTIZE needs feature level 3, the target has 2"
    refused(model, Reason.LEVEL, needs, feature_level=2)
    channels = [0, np.float32([0.1, 0.2]), np.zeros(2, np.uint8)]
    model = one("QuantizeLinear", fed, channels, np.uint8, axis=0)
    refused(model, Reason.QUANTIZATION, "has per-channel scales")


@pytest.mark.parametrize("level", [1, 3, 8])
@KINDS
def test_dequantize_matches(kind: type, level: int):
    model = one("DequantizeLinear", [(kind, (2, 3, 4))], [0, *scale(kind, IN)], np.float32)
    assert_equal(*results(model, feature_level=level))


def test_dequantize_by_block_is_done_when_the_model_is_written():
    numbers = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
    scales, zero = (
        np.linspace(0.1, 0.4, 8, dtype=np.float32).reshape(4, 2),
        np.zeros((4, 2), np.int8),
    )
    case = node("DequantizeLinear", numbers, scales, zero + 3, axis=-1, block_size=3, opset=21)
    assert emitted(case, FL[1]) == ["RESHAPE"]
    matches(case, FL[1])


def test_dequantize_of_channels_and_of_integers():
    steps, fed = np.float32([0.1, 0.2, 0.3]), [(np.int8, (2, 3))]
    given = [0, steps, np.zeros(3, np.int8)]
    channels = one("DequantizeLinear", fed, given, np.float32, axis=1)
    assert_equal(*results(channels, feature_level=3))
    given = [0, steps, np.int8([0, 1, 0])]
    moved = one("DequantizeLinear", fed, given, np.float32, axis=1)
    refused(moved, Reason.QUANTIZATION, "")
    integers = [(np.int32, (2, 3))]
    assert_equal(*results(one("DequantizeLinear", integers, [0, np.float32(0.01)], np.float32)))


def unary(op_type: str, out: q.Scale = OUT, **attributes: object):
    def build(kind: type) -> onnx.ModelProto:
        given = [0, *scale(kind, IN), *scale(kind, out)]
        return one(op_type, [(kind, (1, 4, 6, 6))], given, kind, domain=MS, **attributes)

    return build


def binary(op_type: str, out: q.Scale):
    def build(kind: type) -> onnx.ModelProto:
        fed = [(kind, (1, 4, 6, 6)), (kind, (4, 1, 1))]
        given = [0, *scale(kind, IN), 1, *scale(kind, OTHER), *scale(kind, out)]
        return one(op_type, fed, given, kind, domain=MS)

    return build


def drawn(*shape: int) -> np.ndarray:
    return RNG(3).integers(-127, 128, shape).astype(np.int8)


def steps_and_bias(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(4)
    steps = rng.uniform(0.005, 0.02, count).astype(np.float32)
    return steps, rng.integers(-900, 900, count).astype(np.int32)


def conv(per_channel: bool, domain: str = ""):
    def build(kind: type) -> onnx.ModelProto:
        steps, added = steps_and_bias(6)
        steps = steps[: None if per_channel else 1]
        given = [0, *scale(kind, IN), drawn(6, 4, 3, 3), steps, np.zeros(steps.shape, np.int8)]
        given += [*scale(kind, (0.3, 128)), added]
        return one("QLinearConv", [(kind, (1, 4, 6, 6))], given, kind, domain=domain)

    return build


def matmul(kind: type) -> onnx.ModelProto:
    given = [0, *scale(kind, IN), drawn(8, 6), np.float32(0.01), np.array(0, np.int8)]
    return one("QLinearMatMul", [(kind, (5, 8))], [*given, *scale(kind, (0.1, 128))], kind)


def concat(kind: type) -> onnx.ModelProto:
    given = [*scale(kind, OUT), 0, *scale(kind, IN), 1, *scale(kind, OTHER)]
    return one("QLinearConcat", [(kind, (1, 4)), (kind, (3, 4))], given, kind, domain=MS, axis=0)


def where(kind: type) -> onnx.ModelProto:
    fed = [(np.bool_, (3, 4)), (kind, (3, 4)), (kind, (3, 4))]
    given = [0, 1, *scale(kind, IN), 2, *scale(kind, OTHER), *scale(kind, OUT)]
    return one("QLinearWhere", fed, given, kind, domain=MS)


def gemm(transposed: int, alpha: float, real: bool = False):
    """QGemm with weights and scales per unit and a bias; its result is real or quantized."""

    def build(kind: type) -> onnx.ModelProto:
        steps, added = steps_and_bias(5)
        weights = drawn(*((5, 8) if transposed else (8, 5)))
        given = [0, *scale(kind, IN), weights, steps, np.zeros(5, np.int8), added]
        given += [] if real else scale(kind, (0.1, 128))
        out, attributes = np.float32 if real else kind, {"transB": transposed, "alpha": alpha}
        return one("QGemm", [(kind, (3, 8))], given, out, domain=MS, **attributes)

    return build


FIXED: q.Scale = (1 / 256, 0)
QLINEAR: dict[str, Callable[[type], onnx.ModelProto]] = {
    "Conv": conv(per_channel=False),
    "Conv per channel": conv(per_channel=True),
    "Conv of com.microsoft": conv(per_channel=True, domain=MS),
    "MatMul": matmul,
    "Add": binary("QLinearAdd", (0.1, 120)),
    "Mul": binary("QLinearMul", (0.2, 120)),
    "Sigmoid": unary("QLinearSigmoid", FIXED),
    "Sigmoid otherwise": unary("QLinearSigmoid", (0.003, 7)),
    "LeakyRelu": unary("QLinearLeakyRelu", alpha=0.1),
    "Softmax": unary("QLinearSoftmax", FIXED, axis=-1, opset=13),
    "AveragePool": unary("QLinearAveragePool", kernel_shape=[3, 3]),
    "GlobalAveragePool": unary("QLinearGlobalAveragePool", channels_last=0),
    "Concat": concat,
    "Where": where,
    **{f"Gemm {t}, {alpha}": gemm(t, alpha) for t in (0, 1) for alpha in (1.0, 0.5, -2.0)},
}


@KINDS
@pytest.mark.parametrize("name", QLINEAR)
def test_qlinear_matches(name: str, kind: type):
    """Within one quantum: of ties the CPU provider takes the even number, NNAPI the greater."""
    assert q.apart(*results(QLINEAR[name](kind))) <= 1


@KINDS
def test_qgemm_without_a_scale_gives_real_numbers(kind: type):
    (got,), (want,) = results(gemm(1, 0.5, real=True)(kind))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)  # sums of float32 reordered


def test_qlinear_that_is_refused():
    images = unary("QLinearGlobalAveragePool", channels_last=1)(np.uint8)
    refused(images, Reason.ATTRIBUTE, "channels_last")
    fed = [(np.uint8, (2, 3)), (np.float32, ())]
    given = [0, 1, np.uint8(3), np.float32(0.1), np.uint8(0)]  # the scale is computed
    refused(one("QLinearLeakyRelu", fed, given, np.uint8, domain=MS), Reason.CONSTANT, "")
    given = [0, np.ones((4, 3), np.int8), np.float32(0.1), np.int8(0)]
    own = one("DynamicQuantizeMatMul", [(np.float32, (2, 4))], given, np.float32, domain=MS)
    refused(own, Reason.OP, "quantize in QDQ form")


def rounding(kind: type, zero: int, readers: int = 1, *, seen: bool = False) -> onnx.ModelProto:
    """A QuantizeLinear to 16 bits, and so many DequantizeLinear of it; seen: it is an output."""
    text = "q = QuantizeLinear (x, s, z)"
    text += "".join(f" y{i} = DequantizeLinear (q, s, z)" for i in range(readers))
    outputs = {f"y{i}": (3, 40) for i in range(readers)} | ({"q": (kind, (3, 40))} if seen else {})
    constants = {"s": np.float32(1 / 1024), "z": kind(zero)}
    return model_of(text, {"x": (3, 40)}, outputs, constants, opset=21, ir_version=10)


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize(
    ("kind", "zero"),
    [(np.uint16, 1000), (np.int16, 0), (np.int16, -32000), (np.uint16, 65535)],
    ids=["uint16", "int16", "cut below", "cut above"],
)
def test_16_bits_are_rounded_in_floats(kind: type, zero: int, readers: int):
    """Ties, of which there are some with a power of two as the scale, are to even in ONNX."""
    model = rounding(kind, zero, readers)
    report = ep_nnapi.check(model.SerializeToString())
    assert not report.rejections
    assert "16 are rounded as real numbers" in next(iter(report.notes)).detail
    given = {"x": np.random.default_rng(1).uniform(-2, 2, (3, 40)).astype(np.float32)}
    for got, want in zip(q.on_nnapi(model, given), q.on_cpu(model, given), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1 / 1024)
        assert np.mean(got == want) > 0.9


def test_16_bits_that_are_not_rounded_are_refused():
    relaxed = ep_nnapi.check(rounding(np.uint16, 9).SerializeToString(), flags="USE_FP16")
    (found,) = (r for r in relaxed.rejections if r.op_type == "QuantizeLinear")
    assert found.reason is Reason.DTYPE
    assert "q is quantized to UINT16, which takes float32 to compute" in found.detail
    seen = ep_nnapi.check(rounding(np.uint16, 9, seen=True).SerializeToString())
    for found in seen.rejections:
        assert "q is quantized to UINT16; NNAPI computes with 8 bits" in found.detail
