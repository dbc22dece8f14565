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


KINDS = {"u8": np.uint8, "s8": np.int8}
MS = "com.microsoft"
IN: q.Scale = (0.03, 117)
OUT: q.Scale = (0.06, 131)


def one(
    op_type: str,
    fed: list[tuple[np.dtype, tuple[int, ...]]],
    given: list[object],
    out: int,
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
    inputs = {f"x{i}": (np.dtype(d).type, s) for i, (d, s) in enumerate(fed)}
    made = helper.make_node(op_type, names, ["y"], "node", domain=domain, **attributes)
    outputs = {"y": (helper.tensor_dtype_to_np_dtype(out).type, None)}
    return model_of([made], inputs, outputs, constants, 21, ir_version=10, domains={MS: 1})


def scale(kind: str, given: q.Scale) -> tuple[np.float32, np.ndarray]:
    zero = given[1] if kind == "u8" else given[1] - 128
    return np.float32(given[0]), np.array(zero, KINDS[kind])


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
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


def taken(model: onnx.ModelProto, **options: object) -> bool:
    return not ep_nnapi.check(model.SerializeToString(), **options).rejections


def refusal(model: onnx.ModelProto, **options: object) -> tuple[str, str]:
    (refused,) = ep_nnapi.check(model.SerializeToString(), **options).rejections
    return refused.reason, refused.detail


@pytest.mark.parametrize("level", [3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_quantize_matches(kind: str, level: int):
    code = TensorProto.UINT8 if kind == "u8" else TensorProto.INT8
    fed = [(np.float32, (2, 3, 40))]
    model = one("QuantizeLinear", fed, [0, *scale(kind, IN)], code)
    assert taken(model, feature_level=level)
    given = feeds(model)
    got, want = q.on_nnapi(model, given, feature_level=level), q.on_cpu(model, given)
    assert q.apart(got, want) <= 1  # ties: away from zero, where ONNX takes the even number


def test_quantize_needs_level_3():
    model = one("QuantizeLinear", [(np.float32, (4,))], [0, *scale("u8", IN)], TensorProto.UINT8)
    assert refusal(model, feature_level=2) == (
        "LEVEL",
        "QUANTIZE needs feature level 3, the target has 2",
    )


def test_quantize_per_channel_is_refused():
    steps, zeros = np.float32([0.1, 0.2]), np.zeros(2, np.uint8)
    given = [0, steps, zeros]
    model = one("QuantizeLinear", [(np.float32, (2, 3))], given, TensorProto.UINT8, axis=0)
    reason, detail = refusal(model)
    assert reason == "QUANTIZATION"
    assert "has per-channel scales" in detail


@pytest.mark.parametrize("level", [1, 3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_dequantize_matches(kind: str, level: int):
    model = one(
        "DequantizeLinear", [(KINDS[kind], (2, 3, 4))], [0, *scale(kind, IN)], TensorProto.FLOAT
    )
    assert taken(model, feature_level=level)
    given = feeds(model)
    got, want = q.on_nnapi(model, given, feature_level=level), q.on_cpu(model, given)
    np.testing.assert_array_equal(got[0], want[0])


def test_dequantize_per_channel_matches():
    steps, zeros = np.float32([0.1, 0.2, 0.3]), np.zeros(3, np.int8)
    fed, given = [(np.int8, (2, 3))], [0, steps, zeros]
    model = one("DequantizeLinear", fed, given, TensorProto.FLOAT, axis=1)
    assert taken(model, feature_level=3)
    given = feeds(model)
    np.testing.assert_array_equal(q.on_nnapi(model, given)[0], q.on_cpu(model, given)[0])


def test_dequantize_per_channel_takes_zero_point_0():
    steps, zeros = np.float32([0.1, 0.2, 0.3]), np.int8([0, 1, 0])
    fed, given = [(np.int8, (2, 3))], [0, steps, zeros]
    reason, _ = refusal(one("DequantizeLinear", fed, given, TensorProto.FLOAT, axis=1))
    assert reason == "QUANTIZATION"


def test_dequantize_integers_matches():
    fed, given = [(np.int32, (2, 3))], [0, np.float32(0.01)]
    model = one("DequantizeLinear", fed, given, TensorProto.FLOAT)
    assert taken(model)
    given = feeds(model)
    np.testing.assert_array_equal(q.on_nnapi(model, given)[0], q.on_cpu(model, given)[0])


def unary(op_type: str, out: q.Scale = OUT, **attributes: object):
    def build(kind: str) -> onnx.ModelProto:
        given = [0, *scale(kind, IN), *scale(kind, out)]
        fed = [(KINDS[kind], (1, 4, 6, 6))]
        return one(op_type, fed, given, 2 if kind == "u8" else 3, domain=MS, **attributes)

    return build


def binary(op_type: str, out: q.Scale):
    def build(kind: str) -> onnx.ModelProto:
        fed = [(KINDS[kind], (1, 4, 6, 6)), (KINDS[kind], (4, 1, 1))]
        given = [0, *scale(kind, IN), 1, *scale(kind, (0.05, 128)), *scale(kind, out)]
        return one(op_type, fed, given, 2 if kind == "u8" else 3, domain=MS)

    return build


def conv(per_channel: bool, domain: str = ""):
    def build(kind: str) -> onnx.ModelProto:
        rng = np.random.default_rng(3)
        weights = rng.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8)
        steps = rng.uniform(0.005, 0.02, 6 if per_channel else 1).astype(np.float32)
        added = rng.integers(-900, 900, 6).astype(np.int32)
        given = [0, *scale(kind, IN), weights, steps, np.zeros(steps.shape, np.int8)]
        given += [*scale(kind, (0.3, 128)), added]
        fed = [(KINDS[kind], (1, 4, 6, 6))]
        return one("QLinearConv", fed, given, 2 if kind == "u8" else 3, domain=domain)

    return build


def matmul(kind: str) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    weights, zero = rng.integers(-127, 128, (8, 6)).astype(np.int8), np.array(0, np.int8)
    given = [0, *scale(kind, IN), weights, np.float32(0.01), zero, *scale(kind, (0.1, 128))]
    return one("QLinearMatMul", [(KINDS[kind], (5, 8))], given, 2 if kind == "u8" else 3)


def concat(kind: str) -> onnx.ModelProto:
    fed = [(KINDS[kind], (1, 4)), (KINDS[kind], (3, 4))]
    given = [*scale(kind, OUT), 0, *scale(kind, IN), 1, *scale(kind, (0.05, 128))]
    return one("QLinearConcat", fed, given, 2 if kind == "u8" else 3, domain=MS, axis=0)


def where(kind: str) -> onnx.ModelProto:
    fed = [(np.bool_, (3, 4)), (KINDS[kind], (3, 4)), (KINDS[kind], (3, 4))]
    given = [0, 1, *scale(kind, IN), 2, *scale(kind, (0.05, 128)), *scale(kind, OUT)]
    return one("QLinearWhere", fed, given, 2 if kind == "u8" else 3, domain=MS)


FIXED: q.Scale = (1 / 256, 0)
QLINEAR: dict[str, Callable[[str], onnx.ModelProto]] = {
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
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", QLINEAR)
def test_qlinear_matches(name: str, kind: str):
    """Within one quantum: of ties the CPU provider takes the even number, NNAPI the greater."""
    model = QLINEAR[name](kind)
    assert taken(model)
    given = feeds(model)
    want = q.on_cpu(model, given)
    assert q.apart(q.on_nnapi(model, given), want) <= 1


def test_qlinear_of_images_with_channels_last_is_refused():
    model = unary("QLinearGlobalAveragePool", channels_last=1)("u8")
    reason, detail = refusal(model)
    assert reason == "ATTRIBUTE"
    assert "channels_last" in detail


def test_qlinear_of_a_computed_scale_is_refused():
    fed = [(np.uint8, (2, 3)), (np.float32, ())]
    given = [0, 1, np.uint8(3), np.float32(0.1), np.uint8(0)]
    reason, _ = refusal(one("QLinearLeakyRelu", fed, given, TensorProto.UINT8, domain=MS))
    assert reason == "CONSTANT"


def product(transposed: int, alpha: float, real: bool):
    """QGemm with weights and scales per unit and a bias; its result is real or quantized."""

    def build(kind: str) -> onnx.ModelProto:
        rng = np.random.default_rng(3)
        weights = rng.integers(-127, 128, (5, 8) if transposed else (8, 5)).astype(np.int8)
        steps = rng.uniform(0.005, 0.02, 5).astype(np.float32)
        added = rng.integers(-900, 900, 5).astype(np.int32)
        given = [0, *scale(kind, IN), weights, steps, np.zeros(5, np.int8), added]
        given += [] if real else scale(kind, (0.1, 128))
        out = TensorProto.FLOAT if real else {"u8": TensorProto.UINT8, "s8": TensorProto.INT8}[kind]
        fed = [(KINDS[kind], (3, 8))]
        return one("QGemm", fed, given, out, domain=MS, transB=transposed, alpha=alpha)

    return build


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [1.0, 0.5, -2.0])
@pytest.mark.parametrize("transposed", [0, 1])
def test_qgemm_matches(transposed: int, alpha: float, kind: str):
    model = product(transposed, alpha, real=False)(kind)
    assert taken(model)
    given = feeds(model)
    assert q.apart(q.on_nnapi(model, given), q.on_cpu(model, given)) <= 1  # ties


@pytest.mark.parametrize("kind", KINDS)
def test_qgemm_without_a_scale_gives_real_numbers(kind: str):
    model = product(1, 0.5, real=True)(kind)
    assert taken(model)
    given = feeds(model)
    got, want = q.on_nnapi(model, given)[0], q.on_cpu(model, given)[0]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)  # sums of float32 reordered


def test_quantized_operators_of_onnx_runtimes_own_are_refused_with_what_would_do():
    weights, zero = np.ones((4, 3), np.int8), np.int8(0)
    given = [0, weights, np.float32(0.1), zero]
    fed = [(np.float32, (2, 4))]
    reason, detail = refusal(one("DynamicQuantizeMatMul", fed, given, 1, domain=MS))
    assert reason == "OP"
    assert "quantize in QDQ form" in detail


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
    (refused,) = (r for r in relaxed.rejections if r.op_type == "QuantizeLinear")
    assert refused.reason is Reason.DTYPE
    assert "q is quantized to UINT16, which takes float32 to compute" in refused.detail
    seen = ep_nnapi.check(rounding(np.uint16, 9, seen=True).SerializeToString())
    for refused in seen.rejections:
        assert "q is quantized to UINT16; NNAPI computes with 8 bits" in refused.detail
