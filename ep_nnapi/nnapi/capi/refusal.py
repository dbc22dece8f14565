"""Errors of C API calls: a result code and one sentence."""

from __future__ import annotations

from ep_nnapi.nnapi.codes import ResultCode, result_code
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError


class Refused(Exception):
    """The exception for a call that returns `code`; converted to the code at the C boundary."""

    def __init__(self, code: ResultCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code


def bad_data(detail: str) -> Refused:
    """Error for a wrong argument."""
    return Refused(ResultCode.BAD_DATA, detail)


def bad_state(detail: str) -> Refused:
    """Error for a call in the wrong state: too early, too late or repeated."""
    return Refused(ResultCode.BAD_STATE, detail)


def op_failed(detail: str) -> Refused:
    """Error for an operation that failed."""
    return Refused(ResultCode.OP_FAILED, detail)


def unexpected_null(name: str) -> Refused:
    """Error for a null pointer that must not be null."""
    return Refused(ResultCode.UNEXPECTED_NULL, f"{name} is null")


def code_of(error: BaseException) -> ResultCode:
    """Returns the result code for an error; never NO_ERROR."""
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, SpecError):
        return ResultCode.BAD_DATA
    if isinstance(error, MemoryError):
        return ResultCode.OUT_OF_MEMORY
    if isinstance(error, RuntimeFailure):
        return result_code(error)
    return ResultCode.OP_FAILED
