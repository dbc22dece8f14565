"""Failures by the NDK's names, and back to result codes."""

import pytest

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.result import COMPUTE, failure, result_code


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
