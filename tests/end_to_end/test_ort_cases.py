"""The cases of ONNX Runtime's own NNAPI tests (nnapi_basic_test.cc), built afresh.

Each says what ONNX Runtime's provider is assigned (ALL nodes, SOME or NONE); here it is the same or
more, and where it is more the test says so. Numbers are held against the CPU provider to its 1e-5,
unless the case has a tolerance of its own.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import ep_nnapi
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import DIGITS, MNIST, quiet, without_mnist
from tests.end_to_end.small_models import RNG, Taken, close, drawn, node, taken
from tests.onnx_graph import model_of


def test_reshape_and_flatten():
    """There SOME, of a model with Reshapes that it drops; here ALL."""
    nodes = [
        node("Flatten", "X", "x"),
        node("MatMul", "x w", "m"),
        node("Reshape", "m long", "a"),
        node("Reshape", "Y tall", "y"),
        node("Gemm", "y v c", "g"),
        node("Flatten", "g", "b", axis=0),
        node("Add", "a b", "Z"),
    ]
    constants = {
        "w": drawn(2, 3),
        "v": drawn(2, 1),
        "c": drawn(1),
        "long": np.array([1, 6]),
        "tall": np.array([6, 2]),
    }
    model = model_of(nodes, {"X": (2, 1, 2), "Y": (3, 2, 2)}, {"Z": (1, 6)}, constants)
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(2, 1, 2), "Y": drawn(3, 2, 2)})


def test_sigmoid_of_rank_5():
    """There NONE (5 dimensions are beyond NNAPI's 4); here ALL: they are folded, which is exact."""
    model = model_of([node("Sigmoid", "X", "Y")], {"X": (2, 1, 2, 1, 2)}, {"Y": (2, 1, 2, 1, 2)})
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(2, 1, 2, 1, 2)})


def dynamic() -> onnx.ModelProto:
    nodes = [
        node("Resize", "X  sizes", "r", mode="nearest", nearest_mode="floor"),
        node("Add", "r k", "Y"),
    ]
    nodes[0].input[:] = ["X", "", "", "sizes"]
    nodes[0].attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    constants = {"sizes": np.array([1, 1, 4, 4]), "k": drawn(1, 1, 4, 4)}
    return model_of(nodes, {"X": (1, 1, "N", "N")}, {"Y": (1, 1, 4, 4)}, constants)


def test_dynamic_input_off():
    """Exactly the Add, whose sizes are fixed, as there."""
    report = ep_nnapi.check(dynamic(), dynamic_shapes="off")
    assert [c.nodes for c in report.clusters] == [("Y",)]
    close(dynamic(), {"X": drawn(1, 1, 2, 2)}, dynamic_shapes="off")


def test_dynamic_input():
    """There one node; here the Resize is taken too, compiled for the sizes that come."""
    assert taken(dynamic()) is Taken.ALL
    for size in (2, 8):
        close(dynamic(), {"X": drawn(1, 1, size, size)})


def test_two_additions():
    """FunctionTest: ALL."""
    nodes = [node("Add", "X Y", "s"), node("Add", "s Z", "M")]
    shape = (1, 1, 3, 2)
    model = model_of(nodes, dict.fromkeys("XYZ", shape), {"M": shape})
    assert taken(model) is Taken.ALL
    close(model, {n: drawn(*shape) for n in "XYZ"})


def test_inputs_without_shape():
    """NONE, as there: nothing says how many dimensions there are."""
    model = model_of([node("Add", "X X", "Y")], {"X": None}, {"Y": None})
    assert taken(model) is Taken.NONE
    close(model, {"X": drawn(2, 3)})


def test_cast_like_of_a_constant():
    """There NONE; here CastLike is a cast, and what depends on constants alone is computed once."""
    nodes = [node("CastLike", "X like", "c"), node("CastLike", "c X", "Y")]
    model = model_of(nodes, {"X": (2, 3)}, {"Y": (2, 3)}, {"like": np.array([1], np.int32)})
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(2, 3, low=-9, high=9)})


@pytest.mark.parametrize("index", [np.array(1), np.array([1])], ids=["scalar", "one element"])
def test_gather(index: np.ndarray):
    """ALL: int64 indexes that are constant, as a scalar and as one element."""
    shape = (10, *index.shape, 5)
    model = model_of(
        [node("Gather", "X i", "Y", axis=1)], {"X": (10, 5, 5)}, {"Y": shape}, {"i": index}
    )
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(10, 5, 5)}, atol=0)


def test_flags():
    """NNAPIFlagsTest: USE_FP16 set is set, USE_NCHW is not."""
    flags = parse({"flags": "USE_FP16"}).lowering_target(8).flags
    assert NnapiFlag.USE_FP16 in flags
    assert NnapiFlag.USE_NCHW not in flags


@pytest.mark.parametrize("example", [DIGITS, pytest.param(MNIST, marks=without_mnist)])
def test_ort_format(example, tmp_path: Path):
    """There SOME of mnist.basic.ort; here ALL, of it and of the project's own model."""
    options, path = quiet(), tmp_path / "basic.ort"
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    session_of(str(example.path), options)
    assert taken(path.read_bytes()) is Taken.ALL
    # sums of float32 products in another order, of numbers up to the digits' brightness
    close(path.read_bytes(), {example.input: example.random(1)[0]}, atol=1e-5 * example.scale * 10)


@pytest.mark.parametrize("option", ["exclude", "partitioning_stop_ops"])
def test_activation_outside_of_the_cluster(option: str):
    """Exactly one node, as there: the Add does not swallow a Relu that is left to the CPU."""
    nodes = [node("Add", "X Y", "s"), node("Relu", "s", "Z")]
    shape = (1, 1, 3, 2)
    model = model_of(nodes, dict.fromkeys("XY", shape), {"Z": shape})
    report = ep_nnapi.check(model, **{option: "Relu"})
    assert [c.nodes for c in report.clusters] == [("s",)]
    close(model, {n: drawn(*shape) for n in "XY"}, **{option: "Relu"})


def rounded(value: str, scale: float, zero: int, *, output: str = "") -> list[onnx.NodeProto]:
    """A float value quantized to uint8 and back; the constants go by the value's name."""
    parameters = f"{value}_scale {value}_zero"
    back = output or f"{value}_back"
    return [
        node("QuantizeLinear", f"{value} {parameters}", f"{value}_q"),
        node("DequantizeLinear", f"{value}_q {parameters}", back),
    ]


def parameters(**given: tuple[float, int]) -> dict[str, np.ndarray]:
    """The constants of `rounded` for each value."""
    found = {}
    for name, (scale, zero) in given.items():
        found |= {f"{name}_scale": np.float32(scale), f"{name}_zero": np.uint8(zero)}
    return found


def qdq(
    op_type: str,
    inputs: dict[str, Sequence[int]],
    output: Sequence[int],
    scales: dict[str, tuple[float, int]] | None = None,
    extra: str = "",
    constants: dict[str, np.ndarray] | None = None,
    **attributes: object,
) -> onnx.ModelProto:
    """Float inputs, each rounded to uint8, one operator, and its output rounded.

    scales   by value (the inputs' names, and "y"); default 0.02 around 128
    extra    further inputs of the operator, "-" for one that is left out
    """
    by_value = dict.fromkeys((*inputs, "y"), (0.02, 128)) | (scales or {})
    quantized = [n for name in inputs for n in rounded(name, *by_value[name])]
    names = [f"{name}_back" for name in inputs]
    names += ["" if e == "-" else e for e in extra.split()]
    operator = helper.make_node(op_type, names, ["y"], **attributes)
    nodes = [*quantized, operator, *rounded("y", *by_value["y"], output="Y")]
    given = parameters(**by_value) | (constants or {})
    return model_of(nodes, dict(inputs), {"Y": output}, given)


def weights(shape: Sequence[int], name: str, bias: int = 0) -> tuple[list, dict]:
    """Constant uint8 weights and int32 bias behind DequantizeLinear: `name` and `name_bias`."""
    constants = {
        f"{name}_q": RNG.integers(0, 256, shape).astype(np.uint8),
        f"{name}_s": np.float32(0.01),
        f"{name}_z": np.uint8(120),
    }
    nodes = [node("DequantizeLinear", f"{name}_q {name}_s {name}_z", name)]
    if bias:
        constants[f"{name}_bias_q"] = RNG.integers(-2000, 2000, (bias,)).astype(np.int32)
        constants[f"{name}_bias_s"] = np.float32(0.02) * np.float32(0.01)
        nodes.append(node("DequantizeLinear", f"{name}_bias_q {name}_bias_s", f"{name}_bias"))
    return nodes, constants


def layered(
    op_type: str, x: Sequence[int], w: Sequence[int], y: Sequence[int], **given
) -> onnx.ModelProto:
    """A group with constant weights (and a bias, when `bias` says how long)."""
    bias, attributes = given.pop("bias", 0), given
    more, constants = weights(w, "w", bias)
    names = "x_back w w_bias" if bias else "x_back w"
    nodes = [
        *rounded("x", 0.02, 128),
        *more,
        node(op_type, names, "y", **attributes),
        *rounded("y", 0.05, 128, output="Y"),
    ]
    constants |= parameters(x=(0.02, 128), y=(0.05, 128))
    return model_of(nodes, {"x": x}, {"Y": y}, constants)


# A tie of a quantized result may round to either side: one step of the output.
STEP, WIDE_STEP = 0.02 + 1e-6, 0.05 + 1e-6


def test_internal_uint8():
    """Concat, MaxPool and Transpose of uint8 numbers, of which only the inside knows the scale."""
    nodes = [
        node("QuantizeLinear", "X s z", "q"),
        node("Concat", "q q", "c", axis=2),
        node("MaxPool", "c", "m", kernel_shape=[2, 1]),
        node("Transpose", "m", "t", perm=[0, 1, 3, 2]),
        node("DequantizeLinear", "t s z", "Y"),
    ]
    constants = {"s": np.float32(2.0), "z": np.uint8(0)}
    model = model_of(nodes, {"X": (1, 1, 1, 3)}, {"Y": (1, 1, 3, 1)}, constants)
    assert taken(model) is Taken.ALL
    close(model, {"X": np.array([0, 256, 512], np.float32).reshape(1, 1, 1, 3)})


def test_qdq_conv():
    """ALL, and computed in quantized numbers."""
    model = layered("Conv", (1, 1, 5, 5), (1, 1, 3, 3), (1, 1, 3, 3), bias=1)
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(1, 1, 5, 5)}, WIDE_STEP)


def resized(x: Sequence[int], y: Sequence[int], **attributes: object) -> onnx.ModelProto:
    sizes = {"sizes": np.array(y)}
    return qdq(
        "Resize", {"x": x}, y, extra="- - sizes", constants=sizes, mode="linear", **attributes
    )


NCHW = (1, 3, 64, 64), (1, 3, 32, 32)
NHWC = (1, 64, 64, 3), (1, 32, 32, 3)


@pytest.mark.parametrize("shapes", [NCHW, NHWC], ids=["NCHW", "NHWC"])
def test_qdq_resize(shapes):
    """ALL."""
    model = resized(*shapes, coordinate_transformation_mode="asymmetric")
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(*shapes[0])}, STEP)


@pytest.mark.parametrize("shapes", [NCHW, NHWC], ids=["NCHW", "NHWC"])
def test_qdq_resize_of_default_setting(shapes):
    """There NONE, on half_pixel, which NNAPI has from level 4 on.

    Here ALL: by NNAPI's own operation from there, at level 3 from gathered elements.
    """
    model = resized(*shapes)
    for level in (3, 4, 8):
        assert taken(model, feature_level=level) is Taken.ALL
        close(model, {"x": drawn(*shapes[0])}, STEP, feature_level=level)


def test_qdq_average_pool():
    """ALL; its tolerance of 1e-2 is here one step of the output."""
    x, y = (1, 3, 32, 32), (1, 3, 30, 30)
    model = qdq("AveragePool", {"x": x}, y, kernel_shape=[3, 3])
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(*x)}, STEP)


@pytest.mark.parametrize("op_type", ["Add", "Mul"])
def test_qdq_binary(op_type: str):
    """ALL."""
    shape = (1, 23, 13, 13)
    model = qdq(op_type, {"a": shape, "b": shape}, shape)
    assert taken(model) is Taken.ALL
    close(model, {"a": drawn(*shape), "b": drawn(*shape)}, STEP)


def test_qdq_transpose():
    """ALL, and exact: numbers are moved."""
    model = qdq("Transpose", {"x": (1, 3, 32, 32)}, (1, 32, 3, 32), perm=[0, 3, 1, 2])
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(1, 3, 32, 32)})


def test_qdq_reshape():
    """ALL, and exact: numbers are kept."""
    shape = {"shape": np.array([1, 3, 1024])}
    model = qdq("Reshape", {"x": (1, 3, 32, 32)}, (1, 3, 1024), extra="shape", constants=shape)
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(1, 3, 32, 32)})


def test_qdq_softmax():
    """ALL."""
    model = qdq("Softmax", {"x": (1, 32)}, (1, 32), {"y": (1 / 256, 0)}, axis=1)
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(1, 32)}, 1 / 256 + 1e-6)


def test_qdq_softmax_of_another_output_scale():
    """There NONE, as NNAPI's own scale is 1/256; here ALL: the result is requantized."""
    model = qdq("Softmax", {"x": (1, 32)}, (1, 32), {"y": (0.002, 1)}, axis=1)
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(1, 32)}, 0.002 + 1e-6)


CONCATENATED = {"a": (1, 6, 36), "b": (1, 6, 8), "c": (1, 6, 2)}


def test_qdq_concat():
    """ALL."""
    model = qdq("Concat", CONCATENATED, (1, 6, 46), axis=2)
    assert taken(model) is Taken.ALL
    close(model, {n: drawn(*s) for n, s in CONCATENATED.items()})


def test_qdq_concat_of_unequal_scales():
    """There NONE below level 3, which wants one scale; here SOME: the inputs are requantized.

    What is left is the model's own QuantizeLinear, which comes with level 3.
    """
    scales = {"a": (0.02, 128), "b": (0.03, 120), "c": (0.01, 110)}
    model = qdq("Concat", CONCATENATED, (1, 6, 46), scales, axis=2)
    for level, expected in ((2, Taken.SOME), (3, Taken.ALL), (8, Taken.ALL)):
        assert taken(model, feature_level=level) is expected
        close(model, {n: drawn(*s) for n, s in CONCATENATED.items()}, STEP, feature_level=level)


@pytest.mark.parametrize(
    ("shape", "given"),
    [((2, 2), {"bias": 2, "transB": 1}), ((2, 2), {"bias": 2}), ((2, 2), {"transB": 1})],
    ids=["bias", "no transB", "no bias"],
)
def test_qdq_gemm(shape, given):
    """ALL."""
    model = layered("Gemm", (2, 2), shape, (2, 2), **given)
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(2, 2)}, WIDE_STEP)


def test_qdq_matmul():
    """ALL."""
    model = layered("MatMul", (2, 2), (2, 2), (2, 2))
    assert taken(model) is Taken.ALL
    close(model, {"x": drawn(2, 2)}, WIDE_STEP)
