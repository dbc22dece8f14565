"""The last inputs of a model become external initializers."""

from __future__ import annotations

import numpy as np
import onnx

from ep_nnapi.sessions.external_weights import with_external_weights
from tests.ort.models import model, node, tensor

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
