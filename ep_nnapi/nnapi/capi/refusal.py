"""Why a call of the C API is refused: a result code and one sentence."""

from __future__ import annotations

from ep_nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.codes import ResultCode

PREFIX = "ANEURALNETWORKS_"
"""Of the NDK's names of codes."""


class Refused(Exception):
    """A call that returns `code`; raised by the adapter, turned into the code where C calls."""

    def __init__(self, code: ResultCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def bad_data(detail: str) -> Refused:
    """An argument is wrong."""
    return Refused(ResultCode.BAD_DATA, detail)


def bad_state(detail: str) -> Refused:
    """The call comes too early, too late or twice."""
    return Refused(ResultCode.BAD_STATE, detail)


def op_failed(detail: str) -> Refused:
    """The operation itself failed."""
    return Refused(ResultCode.OP_FAILED, detail)


def unexpected_null(name: str) -> Refused:
    """A pointer that must not be null is null."""
    return Refused(ResultCode.UNEXPECTED_NULL, f"{name} is null")


def code_of(error: BaseException) -> ResultCode:
    """The code that an error is reported as; never NO_ERROR."""
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, SpecError):
        return ResultCode.BAD_DATA
    if isinstance(error, MemoryError):
        return ResultCode.OUT_OF_MEMORY
    if isinstance(error, RuntimeFailure):
        found = ResultCode.__members__.get(error.code.removeprefix(PREFIX))
        return found or ResultCode.OP_FAILED
    return ResultCode.OP_FAILED
