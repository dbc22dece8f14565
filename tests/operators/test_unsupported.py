"""Operators without a lowering: each has an explanation."""

import pytest
from onnx import defs

from ep_nnapi.operators import OPS
from ep_nnapi.operators.unsupported import REJECTED, why

OF_ONNX = [o for o in OPS if o.domain == ""]


def test_what_is_refused_has_no_lowering_but_a_schema():
    lowered = {o.op_type for o in OF_ONNX}
    assert not lowered & REJECTED.keys()
    assert REJECTED.keys() <= {s.name for s in defs.get_all_schemas() if s.domain == ""}


@pytest.mark.parametrize(
    ("domain", "op_type", "detail"),
    [
        ("", "NonZero", "depends on the data"),
        ("com.microsoft", "MatMulBnb4", "fewer than 8 bits"),
        ("com.microsoft", "RotaryEmbedding", "a position for each row"),
        ("ai.onnx.ml", "TreeEnsemble", "runs in ONNX Runtime"),
        ("ai.onnx.preview.training", "Adam", "only inference"),
        ("somebody.else", "NonZero", "no lowering"),
    ],
)
def test_what_is_refused_says_why(domain: str, op_type: str, detail: str):
    assert detail in why(domain, op_type)
