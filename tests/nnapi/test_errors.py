"""Errors and their texts: lists of valid names, suggestions, codes."""

import logging
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi.codes import (
    COMPUTE,
    ResultCode,
    failure,
    feature_level_code,
    feature_level_of_code,
    result_code,
)
from ep_nnapi.nnapi.errors import (
    ModelError,
    NnapiError,
    OptionError,
    Reason,
    Reject,
    RuntimeFailure,
    SpecError,
    module_logger,
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
    ("given", "text"),
    [("imput", "; did you mean input?"), ("INPUT", "; did you mean input?"), ("zzz", ""), ("", "")],
)
def test_suggestions(given: str, text: str):
    assert suggestion(given, ["output", "input"]) == text


# Feature level codes, as runtimes and devices report them


@pytest.mark.parametrize("level", range(1, 9))
def test_every_level_has_a_code_of_its_own(level: int) -> None:
    assert feature_level_of_code(feature_level_code(level)) == level


@pytest.mark.parametrize(
    ("code", "level"),
    [
        (26, 0),  # before Android 8.1
        (0, 0),
        (32, 5),  # API levels after 31 brought no operations
        (33, 5),
        (1_000_009, 8),  # newer than what is known here
    ],
)
def test_codes_of_no_level_count_as_the_nearest_lower_one(code: int, level: int) -> None:
    assert feature_level_of_code(code) == level


# Failures by the NDK's names, and back to result codes


@pytest.mark.parametrize("code", [c for c in ResultCode if c])  # NO_ERROR is no failure
def test_every_result_code_survives_a_failure(code: ResultCode) -> None:
    failed = failure(COMPUTE, code)
    assert failed.call == "ANeuralNetworksExecution_compute"
    assert failed.code == f"ANEURALNETWORKS_{code.name}"
    assert result_code(failed) is code


def test_the_sentence_names_call_code_and_detail() -> None:
    failed = failure("ANeuralNetworksModel_finish", ResultCode.BAD_DATA, "operand 3")
    for part in ("ANeuralNetworksModel_finish", "ANEURALNETWORKS_BAD_DATA", "operand 3"):
        assert part in str(failed)


@pytest.mark.parametrize("code", ["result code 99, which NNAPI does not define", "", "BAD"])
def test_a_code_that_nnapi_does_not_define_is_op_failed(code: str) -> None:
    assert result_code(RuntimeFailure(COMPUTE, code)) is ResultCode.OP_FAILED


def test_records_show_names_of_files_escaped(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "ep_nnapi"):
        error = ValueError("a\x9b2Jb")
        module_logger("ep_nnapi.test").info("%s: %s, %d", "x\u202ey\x1b[2J", error, np.int64(3))
    assert caplog.messages == [r"x\u202ey\x1b[2J: a\x9b2Jb, 3"]


def test_every_module_has_such_a_logger():
    package = Path(__file__).parents[2] / "ep_nnapi"
    direct = [
        path
        for path in package.rglob("*.py")
        if "= logging.getLogger(__name__)" in path.read_text(encoding="utf-8")
    ]
    assert direct == []
