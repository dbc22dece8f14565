"""Result codes of NNAPI calls, and the exception for a call that fails."""

from __future__ import annotations

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import RuntimeFailure

PREFIX = "ANEURALNETWORKS_"
"""Names of the NDK's result codes begin with this."""

COMPUTE = "ANeuralNetworksExecution_compute"
"""The call that failures of an execution name."""


def failure(call: str, code: ResultCode, detail: str = "") -> RuntimeFailure:
    """The failure for NDK function `call` returning result code `code`."""
    return RuntimeFailure(call, PREFIX + code.name, detail)


def result_code(failed: RuntimeFailure) -> ResultCode:
    """The result code of a failure; OP_FAILED for a code that NNAPI does not define."""
    found = ResultCode.__members__.get(failed.code.removeprefix(PREFIX))
    return found or ResultCode.OP_FAILED
