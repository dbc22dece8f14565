"""Operators by ONNX's definitions: the same results, without what nobody reads."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from ep_nnapi.graph.onnx_io import opset_of
from ep_nnapi.rewriting.rewrites import expand_definitions
from tests.rewriting.equality import model_of, types

X = np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("operator", "opset"),
    [
        ("HardSwish", 21),
        ("HardSigmoid <alpha = 0.3>", 21),
        ("HardSigmoid", 13),  # its definition is of opset 18, which the model gets
        ("Mish", 18),
        ("Softplus", 18),
        ("ThresholdedRelu <alpha = 0.5>", 18),
        ("Celu <alpha = 0.7>", 18),
        ("LogSoftmax <axis = 1>", 18),
        ("Gelu", 20),
        ("MeanVarianceNormalization <axes = [0, 2]>", 18),
    ],
)
def test_definitions_compute_the_same(operator: str, opset: int):
    model = model_of(f"[n] y = {operator} (x)", {"x": X.shape}, {"y": X.shape}, opset=opset)
    found = expand_definitions(model, {"n"})
    assert operator.split(maxsplit=1)[0] not in types(found)
    assert opset_of(found) >= opset
    assert {o.domain for o in found.opset_import} == {""}
    (want,), (got,) = (ReferenceEvaluator(m).run(None, {"x": X}) for m in (model, found))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)  # other order of float32 steps


def test_outputs_that_nobody_reads_are_not_computed():
    """LayerNormalization's definition computes InvStdDev, by Reciprocal, for an optional output."""
    constants = {"s": np.ones(4, np.float32)}
    text = "[n] y = LayerNormalization (x, s)"
    model = model_of(text, {"x": X.shape}, {"y": X.shape}, constants)
    found = expand_definitions(model, {"n"})
    assert "Reciprocal" not in types(found)
    (want,), (got,) = (ReferenceEvaluator(m).run(None, {"x": X}) for m in (model, found))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)  # E[x^2] - E[x]^2 in float32


def test_only_named_nodes_with_a_definition():
    text = "a = HardSwish (x) b = HardSwish (a) y = Sin (b)"
    model = model_of(text, {"x": X.shape}, {"y": X.shape})
    found = expand_definitions(model, {"b", "y"})
    assert types(found) == ["HardSwish", "HardSigmoid", "Mul", "Sin"]
    assert expand_definitions(model, {"y"}) is None
