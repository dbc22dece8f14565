"""Errors and their texts: lists of valid names, suggestions, codes."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.errors import (
    ModelError,
    NnapiError,
    OptionError,
    Reason,
    Reject,
    RuntimeFailure,
    SpecError,
    suggestion,
)


@pytest.mark.parametrize("error", [ModelError, OptionError, SpecError, RuntimeFailure])
def test_every_error_has_one_base(error: type[Exception]):
    assert issubclass(error, NnapiError)


def test_an_option_error_is_a_value_error():
    """ONNX Runtime's own Python interface raises ValueError for its options."""
    assert issubclass(OptionError, ValueError)


def test_a_rejection_says_reason_and_detail():
    refused = Reject(Reason.RANK, "x has rank 5, SOFTMAX takes 1-4")
    assert str(refused) == "RANK: x has rank 5, SOFTMAX takes 1-4"
    assert (refused.reason, refused.detail) == (Reason.RANK, "x has rank 5, SOFTMAX takes 1-4")


def test_a_runtime_failure_names_call_and_code():
    failure = RuntimeFailure("ANeuralNetworksModel_finish", "ANEURALNETWORKS_BAD_DATA", "no inputs")
    text = "ANeuralNetworksModel_finish returned ANEURALNETWORKS_BAD_DATA"
    assert str(failure) == f"{text}: no inputs"
    assert str(RuntimeFailure(failure.call, failure.code)) == text


@pytest.mark.parametrize(
    ("given", "text"), [("imput", "; did you mean input?"), ("zzz", ""), ("", "")]
)
def test_suggestions(given: str, text: str):
    assert suggestion(given, ["output", "input"]) == text
