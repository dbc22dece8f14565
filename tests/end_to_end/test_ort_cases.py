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

import ep_nnapi
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import DIGITS, MNIST, quiet, without_mnist
from tests.end_to_end.small_models import RNG, Taken, close, drawn, taken
from tests.onnx_graph import model_of


def all_taken(model: onnx.ModelProto, atol: float = 1e-5, **options: object) -> None:
    """All nodes are taken, and random inputs give the numbers of the CPU provider."""
    assert taken(model, **options) is Taken.ALL
    sizes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    close(model, {name: drawn(*shape) for name, shape in sizes.items()}, atol, **options)


def test_reshape_and_flatten():
    """There SOME, of a model with Reshapes that it drops; here ALL."""
    nodes = """x = Flatten (X) m = MatMul (x, w) a = Reshape (m, long) y = Reshape (Y, tall)
        g = Gemm (y, v, c) b = Flatten <axis = 0> (g) Z = Add (a, b)"""
    weights = {"w": drawn(2, 3), "v": drawn(2, 1), "c": drawn(1)}
    constants = {**weights, "long": np.array([1, 6]), "tall": np.array([6, 2])}
    all_taken(model_of(nodes, {"X": (2, 1, 2), "Y": (3, 2, 2)}, {"Z": (1, 6)}, constants))


def test_sigmoid_of_rank_5():
    """There NONE (5 dimensions are beyond NNAPI's 4); here ALL: they are folded, which is exact."""
    all_taken(model_of("Y = Sigmoid (X)", {"X": (2, 1, 2, 1, 2)}, {"Y": (2, 1, 2, 1, 2)}))


def dynamic() -> onnx.ModelProto:
    mode = 'mode = "nearest", nearest_mode = "floor"'
    nodes = f"""r = Resize <{mode}, coordinate_transformation_mode = "asymmetric"> (X, , , sizes)
        Y = Add (r, k)"""
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
    shape = (1, 1, 3, 2)
    all_taken(model_of("s = Add (X, Y) M = Add (s, Z)", dict.fromkeys("XYZ", shape), {"M": shape}))


def test_inputs_without_shape():
    """NONE, as there: nothing says how many dimensions there are."""
    model = model_of("Y = Add (X, X)", {"X": None}, {"Y": None})
    assert taken(model) is Taken.NONE
    close(model, {"X": drawn(2, 3)})


def test_cast_like_of_a_constant():
    """There NONE; here CastLike is a cast, and what depends on constants alone is computed once."""
    nodes, like = "c = CastLike (X, like) Y = CastLike (c, X)", np.array([1], np.int32)
    model = model_of(nodes, {"X": (2, 3)}, {"Y": (2, 3)}, {"like": like})
    assert taken(model) is Taken.ALL
    close(model, {"X": drawn(2, 3, low=-9, high=9)})


@pytest.mark.parametrize("index", [np.array(1), np.array([1])], ids=["scalar", "one element"])
def test_gather(index: np.ndarray):
    """ALL: int64 indexes that are constant, as a scalar and as one element."""
    nodes, shape = "Y = Gather <axis = 1> (X, i)", (10, *index.shape, 5)
    all_taken(model_of(nodes, {"X": (10, 5, 5)}, {"Y": shape}, {"i": index}), atol=0)


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
    shape = (1, 1, 3, 2)
    model = model_of("s = Add (X, Y) Z = Relu (s)", dict.fromkeys("XY", shape), {"Z": shape})
    report = ep_nnapi.check(model, **{option: "Relu"})
    assert [c.nodes for c in report.clusters] == [("s",)]
    close(model, {n: drawn(*shape) for n in "XY"}, **{option: "Relu"})


def rounded(value: str, output: str = "") -> str:
    """Nodes that quantize a float value and take it back; the constants go by the value's name."""
    scale = f"{value}_scale, {value}_zero"
    return f"""{value}_q = QuantizeLinear ({value}, {scale})
        {output or f"{value}_back"} = DequantizeLinear ({value}_q, {scale})"""


def parameters(**given: tuple[float, int]) -> dict[str, np.ndarray]:
    """The constants of `rounded` for each value."""
    found = {}
    for name, (scale, zero) in given.items():
        found |= {f"{name}_scale": np.float32(scale), f"{name}_zero": np.uint8(zero)}
    return found


def qdq(
    operator: str,
    inputs: dict[str, Sequence[int]],
    output: Sequence[int],
    scales: dict[str, tuple[float, int]] | None = None,
    **constants: np.ndarray,
) -> onnx.ModelProto:
    """Float inputs, each rounded to uint8, one operator that makes y, and its output rounded.

    operator  its name, perhaps with attributes, and in parentheses its inputs after these
    scales    by value (the inputs' names, and "y"); default 0.02 around 128
    """
    by_value = dict.fromkeys((*inputs, "y"), (0.02, 128)) | (scales or {})
    name, _, extra = operator.partition("(")
    given = ", ".join(f"{n}_back" for n in inputs) + (f", {extra}" if extra else ")")
    nodes = [*map(rounded, inputs), f"y = {name} ({given}", rounded("y", "Y")]
    return model_of("\n".join(nodes), inputs, {"Y": output}, parameters(**by_value) | constants)


def layered(
    operator: str, x: Sequence[int], w: Sequence[int], y: Sequence[int], bias: int = 0
) -> onnx.ModelProto:
    """A group with constant uint8 weights, and int32 bias of that length."""
    nodes = "w = DequantizeLinear (w_q, w_s, w_z)"
    constants = parameters(x=(0.02, 128), y=(0.05, 128)) | {
        "w_q": RNG.integers(0, 256, w).astype(np.uint8),
        "w_s": np.float32(0.01),
        "w_z": np.uint8(120),
    }
    if bias:
        nodes = f"{nodes} b = DequantizeLinear (b_q, b_s)"
        constants["b_q"] = RNG.integers(-2000, 2000, (bias,)).astype(np.int32)
        constants["b_s"] = np.float32(0.02) * np.float32(0.01)
    nodes = f"{rounded('x')} {nodes} y = {operator} (x_back, w{', b' * bool(bias)})"
    return model_of(f"{nodes} {rounded('y', 'Y')}", {"x": x}, {"Y": y}, constants)


# A tie of a quantized result may round to either side: one step of the output.
STEP, WIDE_STEP = 0.02 + 1e-6, 0.05 + 1e-6


def test_internal_uint8():
    """Concat, MaxPool and Transpose of uint8 numbers, of which only the inside knows the scale."""
    nodes = """q = QuantizeLinear (X, s, z) c = Concat <axis = 2> (q, q)
        m = MaxPool <kernel_shape = [2, 1]> (c) t = Transpose <perm = [0, 1, 3, 2]> (m)
        Y = DequantizeLinear (t, s, z)"""
    constants = {"s": np.float32(2.0), "z": np.uint8(0)}
    model = model_of(nodes, {"X": (1, 1, 1, 3)}, {"Y": (1, 1, 3, 1)}, constants)
    assert taken(model) is Taken.ALL
    close(model, {"X": np.array([0, 256, 512], np.float32).reshape(1, 1, 1, 3)})


NCHW = (1, 3, 64, 64), (1, 3, 32, 32)
NHWC = (1, 64, 64, 3), (1, 32, 32, 3)


def resized(x: Sequence[int], y: Sequence[int], more: str = "") -> onnx.ModelProto:
    return qdq(f'Resize <mode = "linear"{more}> (, , sizes)', {"x": x}, y, sizes=np.array(y))


@pytest.mark.parametrize("shapes", [NCHW, NHWC], ids=["NCHW", "NHWC"])
def test_qdq_resize_of_default_setting(shapes):
    """There NONE, on half_pixel, which NNAPI has from level 4 on.

    Here ALL: by NNAPI's own operation from there, at level 3 from gathered elements.
    """
    for level in (3, 4, 8):
        all_taken(resized(*shapes), STEP, feature_level=level)


PICTURE, SQUARE, WIDE = (1, 3, 32, 32), (2, 2), (1, 23, 13, 13)
ASYMMETRIC = ', coordinate_transformation_mode = "asymmetric"'
CONCATENATED = {"a": (1, 6, 36), "b": (1, 6, 8), "c": (1, 6, 2)}
EXACT = 1e-5  # numbers are moved or kept
QDQ = {
    "Conv": (layered("Conv", (1, 1, 5, 5), (1, 1, 3, 3), (1, 1, 3, 3), 1), WIDE_STEP),
    "Resize of NCHW": (resized(*NCHW, ASYMMETRIC), STEP),
    "Resize of NHWC": (resized(*NHWC, ASYMMETRIC), STEP),
    # its tolerance there is 1e-2
    "AveragePool": (
        qdq("AveragePool <kernel_shape = [3, 3]>", {"x": PICTURE}, (1, 3, 30, 30)),
        STEP,
    ),
    "Add": (qdq("Add", {"a": WIDE, "b": WIDE}, WIDE), STEP),
    "Mul": (qdq("Mul", {"a": WIDE, "b": WIDE}, WIDE), STEP),
    "Transpose": (qdq("Transpose <perm = [0, 3, 1, 2]>", {"x": PICTURE}, (1, 32, 3, 32)), EXACT),
    "Reshape": (
        qdq("Reshape (shape)", {"x": PICTURE}, (1, 3, 1024), shape=np.array([1, 3, 1024])),
        EXACT,
    ),
    "Softmax": (
        qdq("Softmax <axis = 1>", {"x": (1, 32)}, (1, 32), {"y": (1 / 256, 0)}),
        1 / 256 + 1e-6,
    ),
    # There NONE, as NNAPI's own scale is 1/256; here ALL: the result is requantized.
    "Softmax of another output scale": (
        qdq("Softmax <axis = 1>", {"x": (1, 32)}, (1, 32), {"y": (0.002, 1)}),
        0.002 + 1e-6,
    ),
    "Concat": (qdq("Concat <axis = 2>", CONCATENATED, (1, 6, 46)), EXACT),
    "Gemm with transB": (layered("Gemm <transB = 1>", SQUARE, SQUARE, SQUARE, 2), WIDE_STEP),
    "Gemm": (layered("Gemm", SQUARE, SQUARE, SQUARE, 2), WIDE_STEP),
    "Gemm without bias": (layered("Gemm <transB = 1>", SQUARE, SQUARE, SQUARE), WIDE_STEP),
    "MatMul": (layered("MatMul", SQUARE, SQUARE, SQUARE), WIDE_STEP),
}


@pytest.mark.parametrize(("model", "atol"), QDQ.values(), ids=QDQ)
def test_qdq(model: onnx.ModelProto, atol: float):
    """ALL, and computed in quantized numbers."""
    all_taken(model, atol)


def test_qdq_concat_of_unequal_scales():
    """There NONE below level 3, which wants one scale; here SOME: the inputs are requantized.

    What is left is the model's own QuantizeLinear, which comes with level 3.
    """
    scales = {"a": (0.02, 128), "b": (0.03, 120), "c": (0.01, 110)}
    model = qdq("Concat <axis = 2>", CONCATENATED, (1, 6, 46), scales)
    for level, expected in ((2, Taken.SOME), (3, Taken.ALL), (8, Taken.ALL)):
        assert taken(model, feature_level=level) is expected
        close(model, {n: drawn(*s) for n, s in CONCATENATED.items()}, STEP, feature_level=level)
