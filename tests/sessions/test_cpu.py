"""Sessions on the CPU provider with exact integer products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ep_nnapi.sessions.cpu import CPU, session_of
from ep_nnapi.sessions.external_weights import with_external_weights
from tests.ort.models import model, node, tensor
from tests.preparation.test_ort_export import products
from tests.provider.test_planner import CHAIN, SHAPE


def test_a_session_is_on_the_cpu_provider():
    session = session_of(CHAIN.SerializeToString())
    assert session.get_providers() == [CPU]
    x = np.ones(SHAPE, np.float32)
    np.testing.assert_allclose(
        session.run(None, {"x": x})[0], np.tanh(np.exp(-x)), rtol=1e-6
    )  # exp and tanh


def product(weights: type[np.generic]) -> bytes:
    """MatMulInteger of 255 and constant 127, 64 times: 2,072,640, beyond a pair of 16 bits."""
    ends = [
        helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 64)),
        helper.make_tensor_value_info("y", TensorProto.INT32, (1, 1)),
    ]
    constant = numpy_helper.from_array(np.full((64, 1), 127, weights), "w")
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    body = helper.make_graph([node], "g", ends[:1], ends[1:], [constant])
    made = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def test_products_of_constant_weights_do_not_saturate():
    for weights in (np.int8, np.uint8):
        (found,) = session_of(product(weights)).run(None, {"x": np.full((1, 64), 255, np.uint8)})
        assert found.tolist() == [[64 * 255 * 127]]


def test_nodes_that_onnx_runtime_fused_before_are_loaded(tmp_path: Path):
    """With constants of these names, its fusion of MatMul and Add gives a name twice and fails."""
    fused = products(tmp_path / "a.onnx", "gemm_input_shape", "gemm_output_shape_token_3")
    others = products(tmp_path / "b.onnx", "one", "two")
    x = np.random.default_rng(2).standard_normal((2, 4, 4)).astype(np.float32)
    got, want = (session_of(str(path)).run(None, {"x": x})[0] for path in (fused, others))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)  # another order of float32 sums


# The last inputs of a model become external initializers

ADDED = model(
    [node("Add", "x w", "y")], [tensor("x", (2,)), tensor("w", (2,))], [tensor("y", (2,))]
)


def test_weights_are_initializers_without_data():
    changed = onnx.load_from_string(with_external_weights(ADDED, {"w": np.ones(2, np.float32)}))
    assert [value.name for value in changed.graph.input] == ["x"]
    (weights,) = changed.graph.initializer
    assert (weights.name, list(weights.dims), weights.raw_data) == ("w", [2], b"")
    assert weights.data_location == onnx.TensorProto.EXTERNAL


def test_a_model_without_weights_stays():
    assert with_external_weights(ADDED, {}) is ADDED
