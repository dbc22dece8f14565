"""The verdicts of the fuzzer on one model."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from ep_nnapi.capability import node as capability
from tests.fuzz.trial import FAULTS, Ended, judged, on_cpu, on_nnapi
from tests.onnx_graph import serialized

FEEDS = {"x": np.zeros((2, 3), np.float32)}


def model(op_type: str = "Relu") -> bytes:
    text = f"(float[2,3] x) => (float[2,3] y) {{ [n] y = {op_type} (x) }}"
    return serialized(text, 21)


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


def test_a_model_that_only_a_wrong_declaration_makes_valid_is_refused() -> None:
    """The factor e has one axis, which Gemm's kernel ignores because it has no elements."""
    text = """(float[2,3] x) => (float[1,1] e, float[1,4] y, float[2,3] z) {
        [first] e = Relu (empty) [second] y = Gemm <transA = 1, transB = 1> (e, w, b)
        [third] z = Where (never, x, x) }"""
    shapes = {"empty": (0,), "w": (4, 1), "b": (1, 4)}
    ones = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    odd = serialized(text, 10, 8, never=[False], **ones)
    assert on_cpu(odd, FEEDS) is None
    found = judged(odd, FEEDS, {})
    assert (found.ended, "does not have rank 2" in found.detail) == (Ended.REFUSED, True)
