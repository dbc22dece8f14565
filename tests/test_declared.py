"""What a model's author declares of sizes inside is not believed where it cannot be so."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi

CLOSE = 1e-6  # both add the same few float32 numbers
SIZES = (1, 4, 6, 5)
X = np.random.default_rng(6).standard_normal(SIZES).astype(np.float32)
LAYERS = {
    "MeanVarianceNormalization": (13, ["x"], {}, TensorProto.FLOAT),
    "GroupNormalization": (21, ["x", "s", "s"], {"num_groups": 2}, TensorProto.FLOAT),
    "LessOrEqual": (12, ["x", "s"], {}, TensorProto.BOOL),
}
"""Operators that ONNX infers no sizes of: opset, inputs, attributes and what they compute."""


def declaring(op_type: str, sizes: tuple[int, ...]) -> bytes:
    """x [1, 4, 6, 5] -> that layer -> c, declared to have these sizes -> Cast, Sigmoid -> y."""
    opset, inputs, attributes, kind = LAYERS[op_type]
    nodes = [
        helper.make_node(op_type, inputs, ["c"], "layer", **attributes),
        helper.make_node("Cast", ["c"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Sigmoid", ["f"], ["y"], "sigmoid"),
    ]
    shape = (4,) if opset == 21 else (1,)
    constants = [numpy_helper.from_array(np.ones(shape, np.float32), "s")] if "s" in inputs else []
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SIZES)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    declared = [helper.make_tensor_value_info("c", kind, sizes)]
    graph = helper.make_graph(nodes, "g", [x], [y], constants, value_info=declared)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return made.SerializeToString()


def run(model: bytes, *, nnapi: bool, **options: str) -> np.ndarray:
    chosen = ort.SessionOptions()
    chosen.log_severity_level = 4
    if nnapi:
        ep_nnapi.append_execution_provider(chosen, **options)
    session = ort.InferenceSession(model, chosen)
    return session.run(None, {"x": X})[0]


@pytest.mark.parametrize("sizes", [SIZES, (1, 4, 5, 5), (1, 4, 6, 1)])
@pytest.mark.parametrize("op_type", LAYERS)
def test_sizes_that_cannot_be_are_found_anew(op_type: str, sizes: tuple[int, ...]) -> None:
    model = declaring(op_type, sizes)
    report = ep_nnapi.check(model)
    assert (report.rejections, len(report.clusters)) == ((), 1)
    np.testing.assert_allclose(run(model, nnapi=True), run(model, nnapi=False), atol=CLOSE)


@pytest.mark.parametrize("op_type", LAYERS)
def test_after_a_layer_that_is_left_out_too(op_type: str) -> None:
    model = declaring(op_type, (1, 4, 5, 5))
    ours = run(model, nnapi=True, exclude="layer")
    np.testing.assert_allclose(ours, run(model, nnapi=False), atol=CLOSE)
