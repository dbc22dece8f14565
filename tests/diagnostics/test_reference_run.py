"""Reference outputs: float64 where there is a kernel, and no rounding of quantized values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

import ep_nnapi
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


def test_an_ort_file_has_the_reference_of_its_model(tmp_path: Path) -> None:
    """Else the verdict on every quantized .ort file beyond its tolerance is that none is known."""
    g = q.Qdq()
    x = g.input((1, 8), (0.1, 128))
    content = g.model(g.group("Sigmoid", [x], (1 / 256, 0)))
    stored = q.stored(content)
    onnx.save(content, tmp_path / "m.onnx")
    prepared = ep_nnapi.prepare(
        tmp_path / "m.onnx", tmp_path, optimization_level="disable", verify=False
    )
    (name,) = (n for n in prepared.models[0].outputs if n.endswith(".ort"))
    want = reference_outputs(content.SerializeToString(), [stored])
    found = reference_outputs(str(tmp_path / name), [stored])
    assert found.description == want.description
    for output, values in want.outputs[0].items():
        np.testing.assert_array_equal(found.outputs[0][output], values)
