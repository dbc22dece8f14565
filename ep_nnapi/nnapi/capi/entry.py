"""Entry point of the C library: binds each exported function to its Python implementation.

Source: DESIGN.md; the library calls `connect` once it has an interpreter.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

from ep_nnapi.nnapi.capi import burst, compilation, device, event, execution, memory, model
from ep_nnapi.nnapi.capi._native import ffi, lib
from ep_nnapi.nnapi.capi.refusal import Refused, code_of
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import NnapiError, module_logger
from ep_nnapi.nnapi.functions import FUNCTIONS, Function
from ep_nnapi.nnapi.interrupts import escaped, hold

logger = module_logger(__name__)

Implementation: TypeAlias = Callable[..., "int | None"]
FAMILIES = (device, model, compilation, execution, burst, event, memory)
"""Implementations, a module for each kind of object: functions with the NDK's names without prefix,
which take the C arguments, handles as integers, and raise Refused or RuntimeFailure."""
LOG_VARIABLE = "EP_NNAPI_LOG"
_ESCAPED = escaped(lib.interrupt_later)


@cache
def connect() -> int:
    """Binds all callbacks and returns the address of their table."""
    _set_up_logging()
    for function in FUNCTIONS:
        bind(function, implementation(function))
    return lib.table()


def implementation(function: Function) -> Implementation:
    """Returns the function of `FAMILIES` that implements an exported function."""
    found: Sequence[Implementation] = [
        vars(family)[function.python_name]
        for family in FAMILIES
        if function.python_name in vars(family)
    ]
    if len(found) != 1:
        raise LookupError(f"{function.python_name} is there {len(found)} times")
    return found[0]


def bind(function: Function, work: Implementation) -> None:
    """Binds C's `function` to `work`; an exception becomes an error code, never NO_ERROR."""
    error = {"int": ResultCode.OP_FAILED, "void": None}.get(function.returns, 0)
    external = ffi.def_extern(name=function.python_name, error=error, onerror=_ESCAPED)
    external(guarded(function, work))


def guarded(function: Function, work: Implementation) -> Implementation:
    """Returns `work` wrapped to return a result code; or nothing, or a number, 0 on failure."""
    is_status, is_void = function.returns == "int", function.returns == "void"

    def call(*arguments: object) -> int | None:
        try:
            result = work(*arguments)
        except BaseException as error:
            code = _report_error(function, error)
            return code if is_status else None if is_void else 0
        return 0 if is_status else result

    return call


def _report_error(function: Function, error: BaseException) -> int:
    """Logs an error and returns its code; Refused and NnapiError are logged as info.

    An interrupt is raised again once C has the code.
    """
    code = code_of(error)
    if not isinstance(error, Exception):
        hold(error, lib.interrupt_later)
        return code
    expected = isinstance(error, Refused | NnapiError)
    logger.log(
        logging.INFO if expected else logging.ERROR,
        "%s returns %s: %s",
        function.c_name,
        code.name,
        error,
        exc_info=None if expected else error,
    )
    return code


def _set_up_logging() -> None:
    """Sets up logging from the environment, the only way for a C program to see the errors."""
    level = os.environ.get(LOG_VARIABLE, "").upper()
    if level in logging.getLevelNamesMapping():
        package = logging.getLogger("ep_nnapi")
        package.addHandler(logging.StreamHandler())
        package.setLevel(level)
