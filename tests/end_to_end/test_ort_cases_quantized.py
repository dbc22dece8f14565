"""The quantized cases of ONNX Runtime's own NNAPI tests (nnapi_basic_test.cc), built afresh.

What each says of ONNX Runtime's provider is held here as in test_ort_cases.py.
"""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.end_to_end.small_models import RNG, Taken, close, drawn, model_of, node, taken


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
) -> bytes:
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


def layered(op_type: str, x: Sequence[int], w: Sequence[int], y: Sequence[int], **given) -> bytes:
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


def resized(x: Sequence[int], y: Sequence[int], **attributes: object) -> bytes:
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
