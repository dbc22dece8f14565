"""Every operator's declaration at once."""

import pytest
from onnx import defs

from ep_nnapi.capability.node import judge
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators import OPS, VARIANTS, operations
from ep_nnapi.operators.lib.node import KNOWN_OPSET
from tests.cases import each
from tests.oracle import FL

OF_ONNX = [o for o in OPS if o.domain == ""]
OF_ORT = {"LayerNormalization-1", "SimplifiedLayerNormalization-1"}  # in ai.onnx, but its own


@each("declared", OPS)
def test_says_what_it_does_what_of_and_by_what(declared):
    first, *_ = declared.doc.splitlines()
    assert first.endswith(".")
    assert "Source: " in declared.doc
    assert operations(declared)


@each("declared", OF_ONNX)
def test_a_schema_of_that_version_exists(declared):
    if f"{declared.op_type}-{declared.since}" in OF_ORT:
        return
    schema = defs.get_schema(declared.op_type, declared.since, "")
    assert schema.since_version <= declared.since
    assert declared.since <= KNOWN_OPSET


def test_no_two_lowerings_of_one_version():
    keys = [(o.domain, o.op_type, o.since) for o in OPS]
    assert len(keys) == len(set(keys))
    assert sum(map(len, VARIANTS.values())) == len(OPS)


@pytest.mark.parametrize(
    ("op_type", "domain", "since", "reason", "detail"),
    [
        ("NonMaxSuppression", "", 11, Reason.OP, "depends on the data"),
        ("Frobnicate", "", 1, Reason.OP, "Frobnicate: no lowering"),
        ("Loop", "com.example", 1, Reason.OP, "com.example:Loop: no lowering"),
        ("Relu", "", KNOWN_OPSET + 1, Reason.OPSET, f"newer than opset {KNOWN_OPSET}"),
        ("Add", "", 6, Reason.OPSET, "older than Add-7"),
    ],
)
def test_refusals(op_type, domain, since, reason, detail):
    y = Value("y", DType.FLOAT, (1,))
    rejection = judge(GraphNode(0, "n", op_type, domain, since, (), (y,)), FL[8])
    assert rejection.reason is reason
    assert detail in rejection.detail
