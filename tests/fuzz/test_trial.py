"""The verdicts of the fuzzer on one model."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from onnx import TensorProto, helper

from ep_nnapi.capability import node as capability
from tests.fuzz.trial import FAULTS, Ended, on_nnapi

FEEDS = {"x": np.zeros((2, 3), np.float32)}


def model(op_type: str = "Relu") -> bytes:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 3)) for n in "xy")
    graph = helper.make_graph([helper.make_node(op_type, ["x"], ["y"], "n")], "g", [x], [y])
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def test_a_sound_model_is_computed() -> None:
    assert on_nnapi(model(), FEEDS, {}).ended is Ended.COMPUTED


def test_an_invalid_model_is_refused() -> None:
    assert on_nnapi(model("Nowhere"), FEEDS, {}).ended is Ended.REFUSED


def test_a_defect_that_is_logged_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node stays on the CPU provider and the session computes: only the log shows it."""

    def failing(*arguments: object) -> None:
        raise ZeroDivisionError("injected")

    monkeypatch.setattr(capability, "check_call", failing)
    result = on_nnapi(model(), FEEDS, {})
    assert result.ended in FAULTS
    assert result.detail == "the analysis of n (Relu) failed: ZeroDivisionError: injected"
    assert logging.getLogger("ep_nnapi").handlers == []
