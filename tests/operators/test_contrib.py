"""Operators of com.microsoft, beside ONNX Runtime's CPU provider, whose own they are."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.nnapi.errors import Reason
from tests.oracle import FL, emitted, f16, f32, graph, matches, node, on_cpu, rejects

RNG = np.random.default_rng(0)
ROUNDED = {"atol": 5e-6, "rtol": 1e-5, "oracle": on_cpu}  # sums of float32 in another order
CURVES = {"atol": 1e-5, "rtol": 1e-5, "oracle": on_cpu}  # the CPU provider's erf and tanh as well


def drawn(*shape):
    return RNG.uniform(-2, 2, shape).astype(np.float32)


def ms(op_type, *given, shape, **attributes):
    types = [helper.make_tensor_type_proto(TensorProto.FLOAT, shape)]
    return node(op_type, *given, domain="com.microsoft", output_types=types, **attributes)


ACTIVATIONS = {
    "none": {},
    "Relu": {"activation": "Relu"},
    "Sigmoid": {"activation": "Sigmoid"},
    "Tanh": {"activation": "Tanh"},
    "LeakyRelu": {"activation": "LeakyRelu", "activation_params": [0.3]},
    "HardSigmoid": {"activation": "HardSigmoid", "activation_params": [0.1, 0.4]},
    "Clip": {"activation": "Clip", "activation_params": [-0.5, 4.0]},
    "Clip, as RELU6": {"activation": "Clip", "activation_params": [0.0, 6.0]},
}


@pytest.mark.parametrize("attributes", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_fused_conv_matches(attributes):
    given = (f32(1, 4, 7, 8), drawn(3, 4, 3, 3), drawn(3))
    matches(ms("FusedConv", *given, shape=(1, 3, 5, 6), **attributes), FL[8], **ROUNDED)


def test_fused_conv_adds_a_tensor():
    given = (f32(1, 4, 7, 8), drawn(3, 4, 3, 3), drawn(3), f32(1, 3, 5, 6))
    case = ms("FusedConv", *given, shape=(1, 3, 5, 6), activation="Relu")
    assert emitted(case, FL[2]) == ["CONV_2D", "TRANSPOSE", "ADD"]
    matches(case, FL[2], **ROUNDED)


def test_fused_conv_is_one_operation():
    given = (f32(1, 4, 7, 8), drawn(3, 4, 3, 3), drawn(3))
    for attributes in (ACTIVATIONS["Relu"], ACTIVATIONS["Clip, as RELU6"]):
        case = ms("FusedConv", *given, shape=(1, 3, 5, 6), **attributes)
        assert emitted(case, FL[1]) == ["CONV_2D"]
    other = ms("FusedConv", *given, shape=(1, 3, 5, 6), activation="Softplus")
    rejects(other, FL[8], Reason.ATTRIBUTE, "activation is Softplus")


def test_fused_gemm_matches():
    for attributes in (
        {"activation": "Relu"},
        {"activation": "LeakyRelu", "activation_alpha": 0.2},
    ):
        given = (f32(4, 5), drawn(5, 3), drawn(3))
        case = ms("FusedGemm", *given, shape=(4, 3), alpha=0.5, beta=2.0, **attributes)
        matches(case, FL[8], **ROUNDED)


@pytest.mark.parametrize("op_type", ["Gelu", "QuickGelu"])
def test_gelus_match(op_type):
    matches(ms(op_type, f32(2, 300, low=-9, high=9), shape=(2, 300)), FL[1], **CURVES)


def test_gelus_with_a_bias_match():
    x, bias = f32(2, 3, 40, low=-9, high=9), drawn(40)
    for op_type in ("BiasGelu", "FastGelu"):
        matches(ms(op_type, x, bias, shape=(2, 3, 40)), FL[1], **CURVES)
    matches(ms("FastGelu", x, shape=(2, 3, 40)), FL[1], **CURVES)


def test_quick_gelu_by_another_factor_matches():
    matches(ms("QuickGelu", f32(2, 300), shape=(2, 300), alpha=1.0), FL[1], **CURVES)


PRODUCTS = {
    "plain": ((4, 5), (5, 3), {}),
    "transposed": ((2, 5, 4), (2, 3, 5), {"transA": 1, "transB": 1}),
    "scaled": ((2, 3, 4, 5), (2, 3, 6, 5), {"transB": 1, "alpha": 0.125}),
    "rows": ((2, 4, 5), (5, 3), {"alpha": 0.5}),
    "matrix transposed": ((5, 4), (3, 5), {"transA": 1, "transB": 1}),
}


@pytest.mark.parametrize(("a", "b", "attributes"), PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("target", [FL[3], FL[8]], ids=["3", "8"])
def test_fused_matmul_matches(a, b, attributes, target):
    rows = a[-1] if attributes.get("transA") else a[-2]
    columns = b[-2] if attributes.get("transB") else b[-1]
    shape = (*a[:-2], rows, columns)
    matches(ms("FusedMatMul", f32(*a), f32(*b), shape=shape, **attributes), target, **ROUNDED)
    matches(ms("FusedMatMul", f32(*a), drawn(*b), shape=shape, **attributes), target, **ROUNDED)


def test_fused_matmul_refusals():
    case = ms("FusedMatMul", f32(2, 4, 5), f32(2, 5, 3), shape=(2, 4, 3), transBatchA=1)
    rejects(case, FL[8], Reason.ATTRIBUTE, "transBatchA is 1")
    vector = ms("FusedMatMul", f32(5), f32(5, 3), shape=(3,))
    rejects(vector, FL[8], Reason.RANK, "is a vector")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)], ids=str)
def test_skip_layer_normalization_matches(skip, bias):
    given = [f32(2, 3, 8), f32(*skip), drawn(8), drawn(8), *([drawn(8)] if bias else [])]
    case = ms("SkipLayerNormalization", *given, shape=(2, 3, 8), epsilon=1e-5)
    matches(case, FL[3], **ROUNDED)
    rejects(case, FL[2], Reason.LEVEL, "needs feature level 3")


@pytest.mark.parametrize("bias", [True, False])
def test_skip_simplified_layer_normalization_matches(bias):
    given = [f32(2, 3, 8), f32(2, 3, 8), drawn(8), *([drawn(8)] if bias else [])]
    case = ms("SkipSimplifiedLayerNormalization", *given, shape=(2, 3, 8), epsilon=1e-5)
    matches(case, FL[3], **ROUNDED)


def test_skip_layer_normalization_gives_the_sum():
    made = helper.make_node(
        "SkipLayerNormalization", ["x", "s", "g"], ["y0", "", "", "y1"], domain="com.microsoft"
    )
    types = [helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3, 8))] * 2
    given = {"x": f32(2, 3, 8), "s": f32(2, 3, 8), "g": drawn(8)}
    matches(graph([made], given, 2, output_types=types), FL[3], **ROUNDED)


def test_simplified_layer_normalization_matches():
    types = [helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3, 8))]
    case = node("SimplifiedLayerNormalization", f32(2, 3, 8), drawn(8), output_types=types, axis=-1)
    matches(case, FL[3], **ROUNDED)


def test_halves_are_computed_in_float32():
    half = [helper.make_tensor_type_proto(TensorProto.FLOAT16, (2, 30))]
    case = node("Gelu", f16(2, 30), domain="com.microsoft", output_types=half)
    x = case.draw()["x0"].astype(np.float64)
    from scipy.special import ndtr

    matches(case, FL[3], atol=2e-3, reference=[(x * ndtr(x)).astype(np.float16)])


@pytest.mark.parametrize(("activation", "count"), [("Clip", 0), ("Clip", 1), ("HardSigmoid", 3)])
def test_activations_of_another_number_of_parameters_are_refused(activation, count):
    params = {"activation_params": [0.5] * count} if count else {}
    attributes = {"activation": activation, **params}
    case = ms("FusedConv", f32(1, 2, 5, 6), f32(3, 2, 1, 1), shape=(1, 3, 5, 6), **attributes)
    detail = f"activation {activation} has {count} parameters; it takes 2"
    rejects(case, FL[8], Reason.ATTRIBUTE, detail)
