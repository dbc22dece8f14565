"""Reference outputs: float64 where there is a kernel, and no rounding of quantized values."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ep_nnapi.diagnostics.reference_run import reference_outputs
from tests.end_to_end import quantized as q
from tests.ops.test_quantization import one


def test_the_reference_is_float64() -> None:
    model = one("Softmax", [(np.float32, (3, 50))], [0], TensorProto.FLOAT)
    x = np.random.default_rng(3).normal(size=(3, 50)).astype(np.float32)
    reference = reference_outputs(model.SerializeToString(), [{"x0": x}])
    powers = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    want = powers / powers.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(reference.outputs[0]["y"], want, rtol=1e-12)  # a dozen roundings


def test_the_reference_does_not_round_to_steps() -> None:
    g = q.Qdq()
    x = g.input((1, 8), (0.1, 128))
    model = g.model(g.group("Sigmoid", [x], (1 / 256, 0)))
    stored = q.stored(model)
    reference = reference_outputs(model.SerializeToString(), [stored])
    # ONNX Runtime's float64 Sigmoid is right to eleven digits
    real = (stored["in0"].astype(np.float64) - 128) * np.float32(0.1)
    (found,) = reference.outputs[0].values()
    np.testing.assert_allclose(
        found, np.minimum(256 / (1 + np.exp(-real)), 255), rtol=1e-9
    )  # ORT's exp


def test_a_model_that_is_no_onnx_file_has_none() -> None:
    assert reference_outputs(b"no model", [{}]) is None
