"""Shapes are not taken from attributes with values that ONNX does not define."""

import numpy as np
import pytest
from onnx import helper

from ep_nnapi.sizes.enumerated import undefined_value
from tests.onnx_graph import graph_of, model_of
from tests.sizes.test_untrusted import CLOSE, session

FLAGS = {
    "Gemm": (["x", "m", "b"], {"transB": -(2**62)}, (1, 2), {"m": (1, 2), "b": (1, 1)}),
    "AveragePool": (
        ["x"],
        {"ceil_mode": 255, "kernel_shape": [3, 3], "strides": [2, 2]},
        (1, 1, 4, 4),
        {},
    ),
    "ReduceSum": (["x", "axes"], {"noop_with_empty_axes": 2**62}, (3, 2, 2), {"axes": (0,)}),
}
"""Operators with a flag that is neither 0 nor 1: inputs, attributes, shapes of x and of constants.

ONNX's shape inference takes the flag of Gemm for 0, ONNX Runtime's kernel that of AveragePool."""


@pytest.mark.parametrize("op_type", FLAGS)
def test_shapes_inferred_from_flags_that_are_neither_0_nor_1(op_type: str) -> None:
    inputs, attributes, shape, others = FLAGS[op_type]
    nodes = [
        helper.make_node(op_type, inputs, ["c"], "first", **attributes),
        helper.make_node("Sigmoid", ["c"], ["y"], "sigmoid"),
    ]
    types = {name: np.int64 if name == "axes" else np.float32 for name in others}
    constants = {n: np.ones(o, types[n]) for n, o in others.items()}
    opset = 13 if op_type == "ReduceSum" else 10
    model = model_of(nodes, {"x": shape}, {"y": None}, constants, opset).SerializeToString()
    feeds = {"x": np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)}
    got, want = (session(model, nnapi=n).run(["y"], feeds)[0] for n in (True, False))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, atol=CLOSE)


@pytest.mark.parametrize(
    ("attribute", "found"),
    [
        ({"keepdims": 1}, None),
        ({"keepdims": 2}, "keepdims is 2; ONNX has 0, 1"),
        ({"noop_with_empty_axes": -1}, "noop_with_empty_axes is -1; ONNX has 0, 1"),
        ({"auto_pad": "SAME_LOWER"}, None),
        (
            {"auto_pad": "SAME"},
            "auto_pad is 'SAME'; ONNX has NOTSET, SAME_UPPER, SAME_LOWER, VALID",
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("domain", ["", "com.microsoft", "example.com"])
def test_operators_of_others_have_attributes_of_their_own(domain, attribute, found):
    node = helper.make_node("Layer", ["x"], ["y"], "n", domain=domain, **attribute)
    model = model_of([node], {"x": (2,)}, {"y": (2,)}, domains={domain or "other": 1})
    said = undefined_value(graph_of(model).nodes[0])
    assert said == (None if domain == "example.com" else found)
