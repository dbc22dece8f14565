"""QDQ models: types as the scheme says, answers near the float model's."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from ep_nnapi.sessions.cpu import exact_options, session_of
from models import quantized as module
from models import zoo
from models.builder import Graph

# The quantizer imports ml_dtypes and sympy, which old versions of onnx and onnxruntime lack.
pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)

DIGITS = Path(module.__file__).parent
SCHEMES = ["u8u8", "u8s8", "s8s8"]
CODES = {"u8": TensorProto.UINT8, "s8": TensorProto.INT8}

# Mean difference from the float model over the float output's deviation. Each of the up to 60
# quantized layers rounds to 1/256 of its range; nets without such depth are well below.
NEAR = {
    "mlp": (784, 0.05),
    "kws_dscnn": (49, 0.1),
    "espcn": (32, 0.05),
    "squeezenet1_1": (64, 0.05),
    "segmentation": (64, 0.15),
}
DEEP = ("mobilenet_v1", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_lite0", "resnet50")


def session(model):
    options = exact_options()
    options.intra_op_num_threads = 1
    return session_of(model.SerializeToString(), options)


def error(name, scheme, size):
    model = zoo.MODELS[name](size=size)
    inputs = zoo.sample_inputs(model, seed=1)
    ours = session(zoo.quantized(name, scheme, size=size)).run(None, inputs)[0]
    exact = session(model).run(None, inputs)[0]
    return np.abs(ours - exact).mean() / exact.std()


def zero_points(model):
    """The zero points of activations, of weights and of biases, by initializer name."""
    weights = {weight.name: weight for weight in model.graph.initializer}
    found = ({}, {}, {})
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") and len(node.input) == 3:
            zero = weights[node.input[2]]
            fixed = weights.get(node.input[0])
            kind = 0 if fixed is None else 2 if fixed.data_type == TensorProto.INT32 else 1
            found[kind][zero.name] = zero
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("name", "size"), [("kws_dscnn", 49), ("espcn", 16)])
def test_types_are_those_of_the_scheme(name, size, scheme):
    model = zoo.quantized(name, scheme, size=size)
    onnx.checker.check_model(model, full_check=True)
    activations, weights, _ = zero_points(model)
    assert {zero.data_type for zero in activations.values()} == {CODES[scheme[:2]]}
    assert {zero.data_type for zero in weights.values()} == {CODES[scheme[2:]]}
    assert all(not zero.dims for zero in activations.values())
    filters = [zero for name, zero in weights.items() if zero.dims and zero.dims[0] > 1]
    assert bool(filters) == (scheme != "u8u8")
    if scheme != "u8u8":  # per channel is symmetric
        assert all(not numpy_helper.to_array(zero).any() for zero in filters)


def test_dynamic_products_are_of_integers():
    model = zoo.quantized("transformer_encoder", "dynamic", size=16)
    onnx.checker.check_model(model, full_check=True)
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= {n.op_type for n in model.graph.node}
    weights = [n.input[1] for n in model.graph.node if n.op_type == "MatMulInteger"]
    types = {w.name: w.data_type for w in model.graph.initializer}
    assert {types[name] for name in weights} == {TensorProto.INT8}
    assert (
        error("transformer_encoder", "dynamic", 16) <= 0.05
    )  # 13 products, each rounded to 8 bits


def test_batch_norm_is_folded():
    kinds = {node.op_type for node in zoo.quantized("kws_dscnn", "u8u8").graph.node}
    assert "BatchNormalization" not in kinds


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gemm_bias_of_rank_2(scheme):
    g = Graph("flat")
    x = g.input("x", (1, 4))
    weight, bias = g.normal(4, 3, std=1.0), g.normal(1, 3, std=1.0)
    g.output(g.add("Gemm", x, weight, bias), "y")
    model = g.model()
    feeds = [zoo.sample_inputs(model, seed) for seed in range(8)]
    ours = session(module.quantize(model, scheme, feeds)).run(None, feeds[0])[0]
    exact = session(model).run(None, feeds[0])[0]
    # one rounding of x, of the weights and of y, each half of 1/256 of a range of about 6
    assert np.allclose(ours, exact, atol=0.1)


def test_only_used_opsets_are_listed():
    model = zoo.quantized("mlp", "u8u8")
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", NEAR)
def test_near_the_float_model(name, scheme):
    size, limit = NEAR[name]
    assert error(name, scheme, size) < limit


@pytest.mark.long
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", DEEP)
def test_deep_networks_stay_near_the_float_model(name, scheme):
    assert error(name, scheme, 224) < 0.15


@pytest.mark.parametrize("scheme", SCHEMES)
def test_digits_are_read_as_well_as_in_float(scheme):
    held_out = np.load(DIGITS / "digits" / "held_out.npz")
    ours = session(zoo.quantized("digits", scheme))
    exact = session(onnx.load(DIGITS / "digits.onnx"))

    def accuracy(reader):
        scores = [reader.run(None, {"image": image[None]})[0] for image in held_out["images"]]
        return np.mean(np.concatenate(scores).argmax(1) == held_out["labels"])

    assert accuracy(ours) >= accuracy(exact) - 0.01


def test_equal_arguments_give_equal_bytes():
    first, second = (zoo.quantized("kws_dscnn", "u8s8", seed=2) for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()


def test_batch_and_size_are_those_asked_for():
    model = zoo.quantized("espcn", "u8u8", batch=2, size=16)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [2, 1, 16, 16]


@pytest.mark.parametrize(
    ("name", "scheme", "message"),
    [
        ("mlp", "s8u8", "no scheme is called 's8u8'; there are u8u8, u8s8, s8s8, dynamic"),
        ("resnet", "u8u8", "no model is called 'resnet'; there are digits, mobilenet_v1, "),
    ],
)
def test_unknown_names_are_refused(name, scheme, message):
    with pytest.raises(ValueError, match=message):
        zoo.quantized(name, scheme)
