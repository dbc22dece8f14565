"""A row of the table: a function, a state, the code that it returns then."""

import ctypes as c
from collections.abc import Callable
from typing import NamedTuple

from ep_nnapi.nnapi.codes import ResultCode
from tests.capi.client import ref, u32s
from tests.capi.world import World

NO_ERROR = ResultCode.NO_ERROR
UNEXPECTED_NULL = ResultCode.UNEXPECTED_NULL
BAD_DATA = ResultCode.BAD_DATA
BAD_STATE = ResultCode.BAD_STATE
OP_FAILED = ResultCode.OP_FAILED
UNMAPPABLE = ResultCode.UNMAPPABLE

OUT = c.c_uint64(0)
DIMS = u32s([0] * 8)
DATA = (c.c_uint8 * 4096)()
HUGE = 0xFFFFFFFF

Arguments = Callable[[World], tuple[object, ...]]


class Row(NamedTuple):
    """`arguments` makes objects in that state."""

    function: str
    state: str
    code: ResultCode
    arguments: Arguments

    @property
    def name(self) -> str:
        return f"{self.function}-{self.state}"


class Rows(list[Row]):
    """Rows, one call each."""

    def __call__(self, function: str, state: str, code: ResultCode, arguments: Arguments) -> None:
        self.append(Row(function, state, code, arguments))


def out() -> object:
    """Memory into which a function may write."""
    return ref(OUT)
