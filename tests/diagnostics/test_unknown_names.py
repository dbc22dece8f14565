"""Names in options that a model does not have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ep_nnapi.diagnostics.unknown_names import check_excluded
from ep_nnapi.errors import Rejection
from ep_nnapi.nnapi.errors import OptionError, Reason
from ep_nnapi.options import Options
from ep_nnapi.report import ClusterReport, Report

CLUSTER = ClusterReport(("conv1", "relu1"), ("x",), ("y",), 4, "nnapi-reference", ("Conv", "Relu"))
REJECTED = Rejection("odd", "Nowhere", Reason.OP, "no lowering")
REPORT = Report(8, "ep-nnapi", 3, 2, (CLUSTER,), (REJECTED,))


@pytest.mark.parametrize("name", ["conv1", "odd", "Nowhere", "MatMul", "QLinearAdd"])
def test_nodes_of_the_model_and_operator_types_may_be_excluded(name: str) -> None:
    """Types of this model, of ONNX and of ONNX Runtime, whether the model has them or not."""
    check_excluded(replace(Options(), exclude=(name,)), REPORT)


def test_an_unknown_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(OptionError, match=r"exclude names conv11, .*; did you mean conv1\?"):
        check_excluded(replace(Options(), exclude=("relu1", "conv11")), REPORT)
    with pytest.raises(OptionError, match=r"exclude names MatMull, .*did you mean MatMul\?"):
        check_excluded(replace(Options(), exclude=("MatMull",)), REPORT)


def test_stop_operators_are_types_only() -> None:
    check_excluded(replace(Options(), partitioning_stop_ops=("Nowhere", "Softmax")), REPORT)
    with pytest.raises(OptionError, match="partitioning_stop_ops names conv1, no operator type"):
        check_excluded(replace(Options(), partitioning_stop_ops=("conv1",)), REPORT)
