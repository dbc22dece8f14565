"""Quantization over a range found at run time, and the products of what it gives."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from ep_nnapi.diagnostics.check import partitioned
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data, Model
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.operation import Kernels
from models import zoo
from tests.end_to_end import quantized
from tests.epcontext.clusters import lowered
from tests.ort_devices.expressions import operators
from tests.ort_devices.networks import feed

SHAPE, UNITS = (2, 3, 16), 5
WEIGHTS = np.random.default_rng(1).integers(-127, 128, (SHAPE[-1], UNITS)).astype(np.int8)
QUANTIZATION = ("DynamicQuantizeLinear x -> q s z",)
PRODUCT = ("MatMulInteger q w z wz -> sum", "Mul s ws -> scale", "Mul real scale -> y")
BOTH = pytest.mark.parametrize("int8", [True, False], ids=["int8", "uint8"])


def dynamic(
    *lines: str,
    first: tuple[str, ...] = QUANTIZATION,
    outputs: str = "y",
    shape: tuple[int, ...] = SHAPE,
    weights: np.ndarray = WEIGHTS,
    zero: int = 0,
    step: np.ndarray | float = 0.01,
    **constants: np.ndarray,
) -> onnx.ModelProto:
    """DynamicQuantizeLinear and what reads it, a node a line; sums are also there as reals."""
    nodes = []
    for line in (*first, *(lines or PRODUCT)):
        (op_type, *given), made = (side.split() for side in line.split("->"))
        nodes.append(helper.make_node(op_type, given, made, f"{op_type}{len(nodes)}"))
        if made[0].startswith("sum"):
            real = [made[0].replace("sum", "real")]
            nodes.append(helper.make_node("Cast", made, real, f"cast{real}", to=TensorProto.FLOAT))
    data = {"w": weights, "wz": weights.dtype.type(zero), "ws": np.float32(step), **constants}
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs.split()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in data.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def nodes(model: onnx.ModelProto, *, int8: bool = True) -> Counter[str]:
    """Operators of host-cpu's model by their number, without what copies and reshapes."""
    found = operators(lowered(model).model, Kernels(int8_weights=int8, fused=True))
    return Counter({k: n for k, n in found.items() if k != "Reshape"})


def differences(model: onnx.ModelProto, *, int8: bool | None = None) -> list[float]:
    """Greatest differences from nnapi-reference, over the greatest result."""
    cluster = lowered(model).model
    given = [10 * array for array in feed(cluster)]
    found = []
    for device in (CpuDevice(threads=1, int8_weights=int8), ReferenceDevice()):
        runtime = HostRuntime((device,))
        found.append(runtime.compile(cluster, runtime.devices()[0]).run(given))
    return [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(*found, strict=True)]


ROUNDED = 4 * 2.0**-23
"""A result is the exact sum times two scales plus a bias, each rounded to float32."""


@BOTH
def test_a_product_is_two_nodes(int8):
    model = dynamic()
    assert nodes(model, int8=int8) == {"DynamicQuantizeLinear": 1, "MatMulIntegerToFloat": 1}
    assert differences(model, int8=None if int8 else False) == pytest.approx([0], abs=ROUNDED)


def test_a_session_gives_what_the_formulas_of_onnx_give():
    """The quantization step is 2^-7 and the zero point 64: no factor is rounded."""
    whole = np.random.default_rng(3).integers(-64, 192, SHAPE)
    whole.flat[:2] = -64, 191
    given = {"x": (whole / 128).astype(np.float32)}
    got = quantized.on_nnapi(dynamic(), given, device="host-cpu")
    want = quantized.on_cpu(dynamic(), given)
    np.testing.assert_allclose(got[0], want[0], rtol=ROUNDED, atol=ROUNDED)


@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
def test_a_bias_is_part_of_the_product(relu):
    lines = (*PRODUCT, "Add y b -> t", *(["Relu t -> u"] if relu else []))
    bias = np.linspace(-2, 2, UNITS, dtype=np.float32)
    model = dynamic(*lines, outputs="u" if relu else "t", b=bias)
    assert nodes(model)["Add"] == 0
    assert nodes(model)["Relu"] == relu
    assert differences(model) == pytest.approx([0], abs=ROUNDED)


@pytest.mark.parametrize(
    ("tail", "options"),
    [
        (["Add y b -> t"], {"b": np.ones((3, UNITS), np.float32)}),
        (["Add y y -> t"], {}),
        (["Mul y b -> t"], {"b": np.ones(UNITS, np.float32)}),
        (["Add y b -> t"], {"b": np.ones(UNITS, np.float32), "outputs": "t y"}),
    ],
    ids=["another for each row", "the product itself", "a factor", "the sum without it is read"],
)
def test_what_is_no_bias_is_computed_after_the_product(tail, options):
    model = dynamic(*PRODUCT, *tail, **{"outputs": "t", **options})
    assert nodes(model)["MatMulIntegerToFloat"] == 1
    assert nodes(model)["Add"] + nodes(model)["Mul"] == 1
    assert max(differences(model)) <= ROUNDED


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        {"weights": np.clip(WEIGHTS.astype(int) + 130, 0, 255).astype(np.uint8), "zero": 130},
        {"weights": np.tile(np.uint8([0, 255]), 40).reshape(16, 5), "zero": 0},
        {"weights": np.tile(np.uint8([0, 255]), 40).reshape(16, 5), "zero": 255},
        {"weights": np.full((16, 5), 127, np.int8)},
        {"step": np.linspace(0.001, 0.02, UNITS)},
        {"shape": (4, 16)},
        {"shape": (1, 2, 3, 16)},
    ],
    ids=["unsigned", "from 0", "to 0", "greatest", "a scale for each column", "matrix", "images"],
)
def test_weights_of_8_bits_and_shapes(options, int8):
    model = dynamic(**options)
    assert nodes(model, int8=int8)["MatMulIntegerToFloat"] == 1
    assert differences(model, int8=None if int8 else False) == pytest.approx([0], abs=ROUNDED)


def test_weights_beyond_8_bits_are_multiplied_as_floats():
    """The zero points of two columns make the weights -200 to 255."""
    weights = np.tile(np.uint8([0, 255]), 40).reshape(16, 5)
    model = dynamic(weights=weights)
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.uint8([200, 0, 0, 0, 0]), "wz"))
    assert nodes(model)["MatMulIntegerToFloat"] == 0
    assert nodes(model)["DynamicQuantizeLinear"] == nodes(model)["DequantizeLinear"] == 1
    assert differences(model) == pytest.approx([0], abs=ROUNDED)


def test_products_that_share_the_numbers_quantize_them_once():
    second = [re.sub(r"sum|scale|real|y", r"\g<0>2", line) for line in PRODUCT]
    second[0] = second[0].replace(" w ", " v ")
    model = dynamic(*PRODUCT, *second, outputs="y y2", v=-WEIGHTS)
    assert nodes(model) == {"DynamicQuantizeLinear": 1, "MatMulIntegerToFloat": 2}
    assert max(differences(model)) <= ROUNDED


def test_what_others_read_is_computed_too():
    """The scale is read by another operation."""
    model = dynamic(*PRODUCT, "Mul s y -> t", outputs="t y")
    assert nodes(model)["DynamicQuantizeLinear"] == nodes(model)["MatMulIntegerToFloat"] == 1
    assert max(differences(model)) <= ROUNDED


def test_all_products_of_a_network_are_found():
    """Those of attention share the numbers that they read, and have reshapes at other places."""
    pytest.importorskip("onnxruntime.quantization.quantize", exc_type=ImportError)
    model = zoo.quantized("transformer_encoder", "dynamic", size=16)
    count = sum(node.op_type == "MatMulInteger" for node in model.graph.node)
    assert nodes(model)["MatMulIntegerToFloat"] == count == 13
    assert nodes(model)["Gemm"] == 0


def test_convolutions_read_integers_as_floats():
    weights = np.random.default_rng(5).integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    lines = ("ConvInteger q w z wz -> sum", *PRODUCT[1:])
    first = ("Conv x f -> c", "DynamicQuantizeLinear c -> q s z")
    filters = np.random.default_rng(6).normal(size=(3, 3, 1, 1)).astype(np.float32)
    model = dynamic(*lines, first=first, shape=(1, 3, 6, 7), weights=weights, f=filters)
    assert nodes(model)["DynamicQuantizeLinear"] == nodes(model)["DequantizeLinear"] == 1
    assert differences(model) == pytest.approx([0], abs=ROUNDED)


def test_only_providers_with_kernels_for_groups_get_them():
    found = operators(lowered(dynamic()).model, Kernels(int8_weights=True))
    assert found["DynamicQuantizeLinear"] == found["MatMulIntegerToFloat"] == 0


@pytest.mark.parametrize("number", [254, 256])
def test_another_number_of_steps_is_computed_step_by_step(number):
    cluster = lowered(dynamic()).model
    operands = [
        replace(o, value=Data.of(np.array([number], np.float32)))
        if isinstance(o.value, Data) and o.size == 1 and o.item == 255
        else o
        for o in cluster.operands
    ]
    changed = Model(tuple(operands), cluster.operations, cluster.inputs, cluster.outputs)
    found = operators(changed, Kernels(int8_weights=True, fused=True))
    assert found["DynamicQuantizeLinear"] == 0
    assert found["ReduceMin"] == 1


def test_an_image_that_is_quantized_for_a_convolution_enters_in_one_layout():
    """Its range is read in the layout of the convolution; in two it would not be recognised."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 16, 40))
    y = helper.make_tensor_value_info("y", TensorProto.INT32, (1, 8, 14, 38))
    taps = np.random.default_rng(3).integers(-127, 128, (8, 1, 3, 3)).astype(np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantize"),
        helper.make_node("ConvInteger", ["q", "taps", "z"], ["y"], "convolve"),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(taps, "taps")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (cluster,) = partitioned(model, device="host-cpu").clusters
    assert len(cluster.models[0].inputs) == 1
    for seed in range(20):  # rounding x / scale + zero point in one step loses a tie in a few
        assert ep_nnapi.run(model, seed=seed, device="host-cpu").verdict.worst == 0.0
