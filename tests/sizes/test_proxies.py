"""Sizes of operators that ONNX does not infer are those that ONNX Runtime computes."""

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import helper

from ep_nnapi.graph.graph import Attribute, GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.quantization.qdq_groups import FLOAT_EQUIVALENTS
from ep_nnapi.sessions.cpu import exact_options, session_of
from ep_nnapi.sizes.inference import infer_shapes
from ep_nnapi.sizes.proxies import inference_proxy
from tests.onnx_graph import model_of

ML, MS = "ai.onnx.ml", "com.microsoft"
OPSET = 21
Given = tuple[str, str, tuple[Array, ...], dict[str, Attribute]]


def f32(*shape: int) -> Array:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def u8(*shape: int) -> tuple[Array, ...]:
    """A quantized tensor, its scale and its zero point."""
    return np.zeros(shape, np.uint8), np.float32(0.1), np.uint8(3)


def cases() -> Iterator[Given]:
    """Domain, operator, inputs and attributes."""
    yield "", "GroupNormalization", (f32(2, 4, 3), f32(4), f32(4)), {"num_groups": 2}
    yield "", "MeanVarianceNormalization", (f32(2, 4, 3, 1),), {}
    yield "", "Crop", (f32(1, 3, 8, 9),), {"border": (1, 2, 3, 0)}
    yield "", "Crop", (f32(1, 3, 8, 9),), {"border": (1, 2, 0, 0), "scale": (4, 5)}
    yield "", "ImageScaler", (f32(1, 3, 8, 9),), {"scale": 2.0, "bias": [0.5] * 3}
    yield "", "PRelu", (f32(2, 3, 1), f32(4)), {}
    yield "", "SimplifiedLayerNormalization", (f32(2, 3, 4), f32(4)), {}
    yield "", "Squeeze", (f32(1, 3, 1), np.zeros(0, np.int64)), {}
    conv: dict[str, Attribute] = {"strides": (2, 1), "pads": (0, 1, 1, 0)}
    scale = (np.float32(0.2), np.uint8(5))
    yield "", "QLinearConv", (*u8(1, 3, 9, 8), *u8(6, 3, 3, 2), *scale), conv
    yield "", "QLinearMatMul", (*u8(2, 3, 4), *u8(4, 5), *scale), {}
    table = {"imputed_value_floats": [0.5], "replaced_value_float": 1.0}
    yield ML, "Imputer", (f32(3, 4),), table
    yield ML, "Normalizer", (f32(3, 4),), {"norm": "L2"}
    yield ML, "Scaler", (f32(3, 4),), {"offset": [0.5] * 4, "scale": [2.0] * 4}


def contributed_cases() -> Iterator[Given]:
    """The same of ONNX Runtime's own operators."""
    scale = (np.float32(0.2), np.uint8(5))
    q = np.zeros((4, 5), np.uint8)
    yield MS, "BiasGelu", (f32(2, 3, 4), f32(4)), {}
    yield MS, "FastGelu", (f32(2, 3, 4),), {}
    yield MS, "Gelu", (f32(2, 3, 4),), {}
    yield MS, "QuickGelu", (f32(2, 3, 4),), {"alpha": 1.5}
    yield MS, "QuantizeLinear", (f32(2, 3), *scale), {}
    yield MS, "DequantizeLinear", (q, *scale), {}
    for kind in ("", "Simplified"):
        yield MS, f"Skip{kind}LayerNormalization", (f32(2, 3, 4), f32(2, 3, 4), f32(4)), {}
    turned = (f32(1, 2, 8), np.zeros(1, np.int64), f32(4, 2), f32(4, 2))
    yield MS, "RotaryEmbedding", turned, {}
    parts = np.zeros((1, 3, 16), np.int8), np.zeros((1, 4, 16), np.int8), f32(1, 32)
    begin = np.full(2, 5, np.int32), f32(1, 2, 4), f32(1, 2, 4), f32(1, 12)
    coded = (f32(1), np.zeros(1, np.int8)) * 2
    lstm = (f32(5, 2, 3), *parts, *begin, *coded)
    yield MS, "DynamicQuantizeLSTM", lstm, {"hidden_size": 4}
    packed: dict[str, Attribute] = {"K": 48, "N": 6, "bits": 4, "block_size": 16}
    blocks = np.zeros((6, 3, 8), np.uint8), f32(6, 3)
    yield MS, "MatMulNBits", (f32(2, 5, 48), *blocks), packed
    yield MS, "FusedConv", (f32(1, 3, 9, 8), f32(6, 3, 3, 2)), {"activation": "Relu"}
    gemm = {"activation": "Relu", "transB": 1}
    yield MS, "FusedGemm", (f32(3, 4), f32(5, 4), f32(5)), gemm
    for a in (0, 1):
        for b in (0, 1):
            first, second = f32(*((2, 4, 3) if a else (2, 3, 4))), f32(*((5, 4) if b else (4, 5)))
            yield MS, "FusedMatMul", (first, second), {"transA": a, "transB": b}
    yield MS, "QGemm", (*u8(3, 4), q, *scale, np.zeros(5, np.int32), *scale), {}
    yield MS, "QLinearAdd", (*u8(2, 3, 4), *u8(3, 1), *scale), {}
    yield MS, "QLinearMul", (*u8(1, 4), *u8(2, 3, 1), *scale), {}
    yield MS, "QLinearWhere", (np.ones((2, 1, 1), bool), *u8(3, 1), *u8(4), *scale), {}
    yield MS, "QLinearConcat", (*scale, *u8(2, 3), *u8(2, 5), *u8(2, 1)), {"axis": 1}
    yield MS, "QLinearSoftmax", (*u8(2, 3), *scale), {"axis": -1, "opset": 13}
    yield MS, "QLinearSigmoid", (*u8(2, 3), *scale), {}
    yield MS, "QLinearLeakyRelu", (*u8(2, 3), *scale), {"alpha": 0.1}
    pool: dict[str, Attribute] = {"kernel_shape": (2, 3), "strides": (2, 2), "ceil_mode": 1}
    yield MS, "QLinearAveragePool", (*u8(1, 2, 8, 7), *scale), pool
    yield MS, "QLinearGlobalAveragePool", (*u8(1, 2, 8, 7), *scale), {}


def as_node(given: Given) -> GraphNode:
    domain, op_type, inputs, attributes = given
    values = tuple(
        Value(f"i{i}", DType.of(np.asarray(a).dtype), np.shape(a)) for i, a in enumerate(inputs)
    )
    return GraphNode(
        0,
        "n",
        op_type,
        domain,
        OPSET if not domain else 1,
        values,
        (Value("y", DType.FLOAT),),
        attributes,
    )


def computed(given: Given) -> tuple[int, ...]:
    """The shape that ONNX Runtime computes, from inputs that are all constant."""
    domain, op_type, inputs, attributes = given
    tensors = {f"i{i}": a for i, a in enumerate(inputs)}
    node = helper.make_node(op_type, [*tensors], ["y"], domain=domain, **attributes)
    stored = op_type == "QuantizeLinear" or op_type in FLOAT_EQUIVALENTS
    out = {"y": (np.uint8 if stored else np.float32, None)}
    opset = 9 if op_type in ("Crop", "ImageScaler") else OPSET  # the last one that has them
    model = model_of([node], {}, out, tensors, opset, ir_version=10, domains={MS: 1})
    options = exact_options()
    options.log_severity_level = 4
    session = session_of(model.SerializeToString(), options)
    return session.run(None, {})[0].shape


@pytest.mark.parametrize("given", [*cases(), *contributed_cases()], ids=lambda g: g[1])
def test_sizes_are_those_that_onnx_runtime_computes(given: Given) -> None:
    node = as_node(given)
    known = {v.name: v for v in (*node.inputs, *node.outputs) if v is not None}
    assert infer_shapes([node], known, ()).values["y"].dims == computed(given)


@pytest.mark.parametrize("domain", ["", MS, "com.example"])
def test_what_is_not_known_stays_as_it_is(domain: str) -> None:
    node = as_node((domain, "Unheard", (f32(2),), {}))
    assert inference_proxy(node) is node


def test_channels_last_is_not_known() -> None:
    node = as_node((MS, "QLinearAveragePool", u8(1, 8, 7, 2), {"channels_last": 1}))
    assert inference_proxy(node) is node
