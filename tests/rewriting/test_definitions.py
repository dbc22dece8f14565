"""Operators by ONNX's definitions: the same results, without what nobody reads."""

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ep_nnapi.rewriting.rewrites import expand_definitions, opset_of
from tests.rewriting.equality import model_of, types

X = np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("op_type", "attributes", "opset"),
    [
        ("HardSwish", {}, 21),
        ("HardSigmoid", {"alpha": 0.3}, 21),
        ("HardSigmoid", {}, 13),  # its definition is of opset 18, which the model gets
        ("Mish", {}, 18),
        ("Softplus", {}, 18),
        ("ThresholdedRelu", {"alpha": 0.5}, 18),
        ("Celu", {"alpha": 0.7}, 18),
        ("LogSoftmax", {"axis": 1}, 18),
        ("Gelu", {}, 20),
        ("MeanVarianceNormalization", {"axes": [0, 2]}, 18),
    ],
)
def test_definitions_compute_the_same(op_type: str, attributes: dict[str, object], opset: int):
    node = helper.make_node(op_type, ["x"], ["y"], "n", **attributes)
    model = model_of([node], {"x": X.shape}, {"y": X.shape}, opset=opset)
    found = expand_definitions(model, {"n"})
    assert op_type not in types(found)
    assert opset_of(found) >= opset
    assert {o.domain for o in found.opset_import} == {""}
    (want,), (got,) = (ReferenceEvaluator(m).run(None, {"x": X}) for m in (model, found))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)  # other order of float32 steps


def test_outputs_that_nobody_reads_are_not_computed():
    """LayerNormalization's definition computes InvStdDev, by Reciprocal, for an optional output."""
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], "n")
    constants = {"s": np.ones(4, np.float32)}
    model = model_of([node], {"x": X.shape}, {"y": X.shape}, constants)
    found = expand_definitions(model, {"n"})
    assert "Reciprocal" not in types(found)
    (want,), (got,) = (ReferenceEvaluator(m).run(None, {"x": X}) for m in (model, found))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)  # E[x^2] - E[x]^2 in float32


def test_only_named_nodes_with_a_definition():
    nodes = [helper.make_node("HardSwish", ["x"], ["a"], "a"),
             helper.make_node("HardSwish", ["a"], ["b"], "b"),
             helper.make_node("Sin", ["b"], ["y"], "y")]  # fmt: skip
    model = model_of(nodes, {"x": X.shape}, {"y": X.shape})
    assert types(expand_definitions(model, {"b", "y"})) == [
        "HardSwish",
        "HardSigmoid",
        "Mul",
        "Sin",
    ]
    assert expand_definitions(model, {"y"}) is None
