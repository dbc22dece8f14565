"""Errors of C API calls, a result code and one sentence; and the live objects by their handles."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Generic, TypeVar

from ep_nnapi.nnapi.codes import ResultCode, result_code
from ep_nnapi.nnapi.errors import RuntimeFailure, SpecError
from ep_nnapi.nnapi.functions import PREFIX


class Refused(Exception):
    """The exception for a call that returns `code`; converted to the code at the C boundary."""

    def __init__(self, code: ResultCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code


bad_data = partial(Refused, ResultCode.BAD_DATA)
"""Error for a wrong argument."""
bad_state = partial(Refused, ResultCode.BAD_STATE)
"""Error for a call in the wrong state: too early, too late or repeated."""
op_failed = partial(Refused, ResultCode.OP_FAILED)
"""Error for an operation that failed."""


def unexpected_null(name: str) -> Refused:
    """Error for a null pointer that must not be null."""
    return Refused(ResultCode.UNEXPECTED_NULL, f"{name} is null")


def no_extension(name: str) -> Refused:
    """Error for a vendor extension, of which no device here has any."""
    return bad_data(f"no device has the extension {name!r}")


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


T = TypeVar("T")

_numbers = count(0x10000, 16)
"""Aligned like pointers, in case a client checks; one sequence for all kinds of object."""


class Handles(Generic[T]):
    """The live objects of one kind, which are of a class with the NDK's calls as its methods."""

    def __init__(self, kind: str, owner: type) -> None:
        self.kind, self.owner = kind, owner
        self._live: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._live)

    def add(self, thing: T) -> int:
        """Adds an object and returns its new handle."""
        handle = next(_numbers)
        self._live[handle] = thing
        return handle

    def __getitem__(self, handle: int) -> T:
        """Returns the object of `handle`; raises Refused: UNEXPECTED_NULL, BAD_DATA if unknown."""
        try:
            return self._live[handle]
        except KeyError:
            raise self._invalid(handle) from None

    def remove(self, handle: int) -> T | None:
        """Removes and returns the object; None for null or an unknown handle."""
        return self._live.pop(handle, None)

    def _invalid(self, handle: int) -> Exception:
        if handle == 0:
            return unexpected_null(self.kind.lower())
        return bad_data(f"{handle:#x} is no live {PREFIX}{self.kind}")
