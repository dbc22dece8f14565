"""Reference outputs: float64 where there is a kernel, and no rounding of quantized values."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

import ep_nnapi
from ep_nnapi.diagnostics.float64_decomposition import (
    DECOMPOSITIONS,
    Float64Graph,
    NoDecomposition,
    attribute,
)
from ep_nnapi.diagnostics.reference_run import reference_outputs
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end import quantized as q
from tests.onnx_graph import model_of, nodes_of
from tests.operators.test_conversion import one


def test_the_reference_is_float64() -> None:
    model = one("Softmax", [(np.float32, (3, 50))], [0], np.float32)
    x = np.random.default_rng(3).normal(size=(3, 50)).astype(np.float32)
    reference = reference_outputs(model.SerializeToString(), [{"x0": x}])
    powers = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    want = powers / powers.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(reference.outputs[0]["y"], want, rtol=1e-12)  # a dozen roundings


def test_the_reference_does_not_round_to_steps() -> None:
    g = q.Qdq()
    x = g.input((1, 8), (0.1, 128))
    model = g.model(g.group("Sigmoid", [x], (1 / 256, 0)))
    stored = q.stored(model)
    reference = reference_outputs(model.SerializeToString(), [stored])
    # ONNX Runtime's float64 Sigmoid is right to eleven digits
    real = (stored["in0"].astype(np.float64) - 128) * np.float32(0.1)
    (found,) = reference.outputs[0].values()
    np.testing.assert_allclose(
        found, np.minimum(256 / (1 + np.exp(-real)), 255), rtol=1e-9
    )  # ORT's exp


def test_a_product_with_packed_weights_does_not_round_its_input() -> None:
    """ONNX Runtime multiplies integers of 8 bits at the accuracy level 4."""
    rng = np.random.default_rng(7)
    x, packed = rng.normal(size=(3, 32)).astype(np.float32), rng.integers(0, 256, (4, 1, 16))
    sizes = {"K": 32, "N": 4, "bits": 4, "block_size": 32, "accuracy_level": 4}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **sizes)
    constants = {"w": packed.astype(np.uint8), "s": np.ones(4, np.float32)}
    model = model_of([node], {"x": (3, 32)}, {"y": (3, 4)}, constants, domains={"com.microsoft": 1})
    weights = np.stack([packed % 16, packed // 16], axis=-1).reshape(4, 32) - 8.0
    reference = reference_outputs(model.SerializeToString(), [{"x": x}])
    # 32 products of up to 32 that float32 rounds
    np.testing.assert_allclose(reference.outputs[0]["y"], x @ weights.T, atol=32 * 32 * 2.0**-23)


def test_a_model_that_is_no_onnx_file_has_none() -> None:
    assert reference_outputs(b"no model", [{}]) is None


def test_an_ort_file_has_the_reference_of_its_model(tmp_path: Path) -> None:
    """Else the verdict on every quantized .ort file beyond its tolerance is that none is known."""
    g = q.Qdq()
    x = g.input((1, 8), (0.1, 128))
    content = g.model(g.group("Sigmoid", [x], (1 / 256, 0)))
    stored = q.stored(content)
    onnx.save(content, tmp_path / "m.onnx")
    prepared = ep_nnapi.prepare(
        tmp_path / "m.onnx", tmp_path, optimization_level="disable", verify=False
    )
    (name,) = (n for n in prepared.models[0].outputs if n.endswith(".ort"))
    want = reference_outputs(content.SerializeToString(), [stored])
    found = reference_outputs(str(tmp_path / name), [stored])
    assert found.description == want.description
    for output, values in want.outputs[0].items():
        np.testing.assert_array_equal(found.outputs[0][output], values)


# Quantized operators in float64 without rounding, compared with their formulas

SX, ZX = np.float32(0.1), np.uint8(128)
SW, ZW = np.float32(0.02), np.uint8(3)
SY, ZY = np.float32(0.05), np.uint8(10)
RTOL = 1e-12  # a dozen float64 roundings


def decomposed(
    node: NodeProto, given: dict[str, np.ndarray], out: int = TensorProto.UINT8
) -> list[np.ndarray]:
    """The outputs by its decomposition, on ONNX's reference evaluator; floats are float64."""
    given = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in given.items()}
    types = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in given.items()}
    types |= dict.fromkeys(node.output, out)
    ranks = {n: a.ndim for n, a in given.items()}
    rank = max(ranks.values())
    built = Float64Graph(types, ranks | dict.fromkeys(node.output, rank))
    DECOMPOSITIONS[node.op_type](built, node)
    inputs = [helper.make_tensor_value_info(n, types[n], a.shape) for n, a in given.items()]
    outputs = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, None) for n in node.output]
    graph = helper.make_graph(built.nodes, "g", inputs, outputs, built.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return ReferenceEvaluator(model).run(None, given)


def computed(text: str, *arrays: np.ndarray, out: int = TensorProto.UINT8) -> list[np.ndarray]:
    """The outputs of one node for arrays of its inputs, in order."""
    (node,) = nodes_of(text)
    return decomposed(node, dict(zip(node.input, arrays, strict=True)), out)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def real(stored: np.ndarray, scale: np.floating, zero: np.integer) -> np.ndarray:
    return (stored.astype(np.float64) - np.float64(zero)) * np.float64(scale)


def steps(number: np.ndarray, scale: np.floating = SY, zero: np.integer = ZY) -> np.ndarray:
    """Real numbers as quantized ones, not rounded, within the range of uint8."""
    return np.clip(number / np.float64(scale) + np.float64(zero), 0, 255)


def test_quantization_does_not_round_but_saturates() -> None:
    x = np.array([0.0, 0.06, -100.0, 100.0])
    (y,) = computed("y = QuantizeLinear (x, s, z)", x, SY, ZY)
    np.testing.assert_allclose(y, steps(x), rtol=RTOL)
    assert y[1] % 1 != 0
    assert (y[2], y[3]) == (0, 255)


@pytest.mark.parametrize("axis", [0, 1])
def test_dequantization_by_channel(axis: int) -> None:
    text = f"y = DequantizeLinear <axis = {axis}> (x, s, z)"
    x, s, z = drawn(3, 3), np.array([0.5, 1, 2], np.float32), np.array([0, 1, 2], np.uint8)
    (y,) = computed(text, x, s, z, out=TensorProto.FLOAT)
    shape = (3, 1) if axis == 0 else (1, 3)
    want = (x.astype(np.float64) - z.reshape(shape)) * s.reshape(shape)
    np.testing.assert_allclose(y, want, rtol=RTOL)


def test_quantization_by_blocks_is_refused() -> None:
    text = "y = DequantizeLinear <axis = 0, block_size = 2> (x, s)"
    with pytest.raises(NoDecomposition, match="by blocks"):
        computed(text, drawn(4, 3), np.ones((2, 3), np.float32))


def test_a_product_of_integers() -> None:
    a, b, zb = drawn(2, 3), drawn(3, 4, seed=1), np.array([1, 2, 3, 4], np.uint8)
    (y,) = computed("y = MatMulInteger (a, b, za, zb)", a, b, ZX, zb, out=TensorProto.INT32)
    want = (a.astype(np.int64) - 128) @ (b.astype(np.int64) - zb)
    np.testing.assert_array_equal(y, want)


TWO = "(a, sa, za, b, sb, zb, sy, zy)"


def test_a_quantized_product() -> None:
    a, b = drawn(2, 3), drawn(3, 4, seed=1)
    (y,) = computed(f"y = QLinearMatMul {TWO}", a, SX, ZX, b, SW, ZW, SY, ZY)
    np.testing.assert_allclose(y, steps(real(a, SX, ZX) @ real(b, SW, ZW)), rtol=RTOL)


@pytest.mark.parametrize("turned", [0, 1])
def test_a_quantized_layer_with_a_bias(turned: int) -> None:
    text = f"y = com.microsoft.QGemm <transB = {turned}, alpha = 2.0> (a, r, p, b, s, q, c, t, o)"
    a, b, c = drawn(2, 3), drawn(3, 4, seed=1), np.array([100, -200, 0, 7], np.int32)
    (y,) = computed(text, a, SX, ZX, b.T if turned else b, SW, ZW, c, SY, ZY)
    bias = c * np.float64(SX) * np.float64(SW)
    want = 2 * (real(a, SX, ZX) @ real(b, SW, ZW) + bias)
    np.testing.assert_allclose(y, steps(want), rtol=RTOL)


def test_a_quantized_convolution() -> None:
    """Of one pixel, so that it is a product; in float32, which the CPU provider has."""
    text = "y = QLinearConv (x, sx, zx, w, sw, zw, sy, zy, b)"
    x, w, b = drawn(1, 3, 1, 1), drawn(4, 3, 1, 1, seed=1), np.array([5, 0, -5, 90], np.int32)
    (y,) = computed(text, x, SX, ZX, w, SW, ZW, SY, ZY, b)
    product = real(w, SW, ZW).reshape(4, 3) @ real(x, SX, ZX).reshape(3)
    want = steps(product + b * np.float64(SX) * np.float64(SW)).reshape(1, 4, 1, 1)
    np.testing.assert_allclose(y, want, rtol=1e-5)


@pytest.mark.parametrize(("op_type", "of"), [("QLinearAdd", np.add), ("QLinearMul", np.multiply)])
def test_sums_and_products_of_two(op_type: str, of: np.ufunc) -> None:
    a, b = drawn(5), drawn(5, seed=1)
    (y,) = computed(f"y = com.microsoft.{op_type} {TWO}", a, SX, ZX, b, SW, ZW, SY, ZY)
    np.testing.assert_allclose(y, steps(of(real(a, SX, ZX), real(b, SW, ZW))), rtol=RTOL)


def test_a_function_of_one_and_what_has_no_decomposition() -> None:
    text, x = "y = com.microsoft.QLinearSigmoid {} (x, sx, zx, sy, zy)", drawn(9)
    (y,) = computed(text.format(""), x, SX, ZX, SY, ZY)
    want = steps(1 / (1 + np.exp(-real(x, SX, ZX))))
    np.testing.assert_allclose(y, want, rtol=1e-6)  # the evaluator's Sigmoid
    with pytest.raises(NoDecomposition, match="QLinearSigmoid with channels_last"):
        computed(text.format("<channels_last = 1>"), x, SX, ZX, SY, ZY)


def test_a_concatenation_of_different_scales() -> None:
    text = "y = com.microsoft.QLinearConcat <axis = 1> (sy, zy, a, sa, za, b, sb, zb)"
    a, b = drawn(2, 3), drawn(2, 1, seed=1)
    (y,) = computed(text, SY, ZY, a, SX, ZX, b, SW, ZW)
    whole = np.concatenate([real(a, SX, ZX), real(b, SW, ZW)], axis=1)
    np.testing.assert_allclose(y, steps(whole), rtol=RTOL)


def test_dynamic_quantization_passes_the_numbers_on() -> None:
    x = np.array([0.3, -7.25])
    y, scale, zero = computed("y, s, z = DynamicQuantizeLinear (x)", x)
    np.testing.assert_array_equal(y, x)
    assert (scale, zero) == (1, 0)


def test_a_dynamically_quantized_lstm_is_one_of_its_weights_numbers() -> None:
    names = ["x", "w", "r", "", "", "", "", "", "sw", "zw", "sr", "zr"]
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "", "c"], hidden_size=2)
    x = np.random.default_rng(1).standard_normal((3, 1, 4))
    w, r = drawn(1, 4, 8), drawn(1, 2, 8, seed=1)
    scales = {n: np.array([v]) for n, v in zip(names[-4:], (SX, ZX, SW, ZX), strict=True)}
    found = decomposed(node, {"x": x, "w": w, "r": r, **scales}, TensorProto.FLOAT)
    plain = helper.make_node("LSTM", ["x", "w", "r"], ["y", "", "c"], hidden_size=2)
    turned = (real(a, s, ZX).transpose(0, 2, 1) for a, s in ((w, SX), (r, SW)))
    given = {n: a.astype(np.float32) for n, a in zip("xwr", (x, *turned), strict=True)}
    for got, want in zip(found, ReferenceEvaluator(plain).run(None, given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)  # float32


def test_attributes_have_a_default() -> None:
    node = helper.make_node("QLinearConcat", [], [], axis=3)
    assert attribute(node, "axis", 0) == 3
    assert attribute(node, "group", 1) == 1


# Graphs inside nodes are in float64 too


def test_a_branch_that_reads_the_values_around_it() -> None:
    """Else the verdict on a model with an If is that no more exact computation is possible."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 64] x, bool c) => (float[1, 64] y) <float s = {3.0}> {
            e = Exp(x)
            t = If(c) <
                then_branch = a () => (float[1, 64] t1) { q = Mul(e, s) t1 = Sqrt(q) },
                else_branch = b () => (float[1, 64] t2) { q = Add(e, x) t2 = Identity(q) }
            >
            y = Log(t)
        }"""
    )
    x = np.random.default_rng(1).uniform(0.5, 2, (1, 64)).astype(np.float32)
    real = x.astype(np.float64)
    for c, want in ((True, (real + np.log(3)) / 2), (False, np.log(np.exp(real) + real))):
        reference = reference_outputs(model.SerializeToString(), [{"x": x, "c": np.array(c)}])
        np.testing.assert_allclose(reference.outputs[0]["y"], want, rtol=1e-12)  # a dozen roundings


def test_a_kernel_in_a_branch_that_only_a_run_misses() -> None:
    """ONNX Runtime says only when it runs that LSTM has no float64."""
    rng = np.random.default_rng(2)
    w, r = (rng.normal(size=(1, 8, n)).astype(np.float32) for n in (3, 2))
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4, 1, 3] x, bool c, float[1, 8, 3] w, float[1, 8, 2] r) => (float[4, 1, 1, 2] y) {
            z = Mul(x, x)
            y = If(c) <
                then_branch = a () => (float[4, 1, 1, 2] t1) {
                    t1 = LSTM <hidden_size = 2> (z, w, r) },
                else_branch = b () => (float[4, 1, 1, 2] t2) {
                    u = LSTM <hidden_size = 2> (x, w, r) t2 = Neg(u) }
            >
        }"""
    content = onnx.parser.parse_model(text).SerializeToString()
    x = rng.normal(size=(4, 1, 3)).astype(np.float32)
    feeds = {"x": x, "c": np.array(True), "w": w, "r": r}
    reference = reference_outputs(content, [feeds])
    assert reference.description == "float64, LSTM in float32"
    (want,) = session_of(content).run(None, feeds)
    np.testing.assert_allclose(reference.outputs[0]["y"], want, atol=1e-6)  # one rounding of x * x


def test_quantized_values_that_a_branch_returns_are_refused() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, bool c) => (uint8[2] y) <float s = {0.1}, uint8 z = {3}> {
            y = If(c) <
                then_branch = a () => (uint8[2] t1) { t1 = QuantizeLinear(x, s, z) },
                else_branch = b () => (uint8[2] t2) { t2 = QuantizeLinear(x, s, z) }
            >
        }"""
    )
    feeds = {"x": np.ones(2, np.float32), "c": np.array(True)}
    assert reference_outputs(model.SerializeToString(), [feeds]) is None
