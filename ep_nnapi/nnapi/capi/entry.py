"""Entry point of the C library: binds each exported function to its Python implementation.

Source: DESIGN.md; the library calls `connect` once it has an interpreter.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import cache, wraps
from inspect import signature
from typing import Any, TypeAlias

from ep_nnapi.nnapi.capi import burst, compilation, device, event, execution, memory, model
from ep_nnapi.nnapi.capi._native import ffi, lib
from ep_nnapi.nnapi.capi.c_arguments import require, text
from ep_nnapi.nnapi.capi.refusal import Handles, Refused, code_of
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import NnapiError, module_logger
from ep_nnapi.nnapi.functions import FUNCTIONS, Function, Parameter
from ep_nnapi.nnapi.interrupts import escaped, hold

logger = module_logger(__name__)

Implementation: TypeAlias = Callable[..., Any]
HANDLES: Mapping[str, Handles[Any]] = {
    handles.kind: handles
    for handles in (
        device.DEVICES,
        model.MODELS,
        compilation.COMPILATIONS,
        execution.EXECUTIONS,
        burst.BURSTS,
        event.EVENTS,
        memory.DESCRIPTORS,
        memory.MEMORIES,
    )
}
"""The live objects by kind. Their classes have the NDK's functions of the kind as methods, which
take objects for handles, and raise Refused or RuntimeFailure."""
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
    """Returns the Python function, of C's arguments, that implements an exported function."""
    kind, _, name = function.python_name.rpartition("_")
    owner = HANDLES[kind].owner if kind else device
    if name == "free":
        return getattr(owner, name, None) or _freeing(HANDLES[kind])
    return _of_c(function, getattr(owner, name))


def _freeing(handles: Handles[Any]) -> Implementation:
    def free(handle: int) -> None:
        """Releases the handle; what uses the object keeps it."""
        handles.remove(handle)

    return free


def _of_c(function: Function, work: Implementation) -> Implementation:
    """Returns `work`, a function of objects, as one of C's handles and pointers.

    If `work` lacks the last parameter, its result is put there; an object's handle is 0 before.
    """
    readers = [(i, read) for i, p in enumerate(function.parameters) if (read := _reader(p))]
    kind = function.parameters[-1].kind if function.parameters else ""
    count = len(signature(work).parameters)

    @wraps(work)
    def of_c(*given: Any) -> Any:  # noqa: ANN401 (of C)
        arguments = [*given]
        for i, read in readers:
            arguments[i] = read(given[i])
        if count == len(arguments):
            return work(*arguments)
        out = arguments.pop()
        if kind:
            out[0] = 0
        result = work(*arguments)
        out[0] = HANDLES[kind].add(result) if kind else result
        return None

    return of_c


def _reader(parameter: Parameter) -> Callable[[Any], Any] | None:
    """Returns what makes an implementation's argument of C's; None if that is the same."""
    if parameter.adapter_type == "uintptr_t" and parameter.kind in HANDLES:
        return HANDLES[parameter.kind].__getitem__
    if parameter.optional or not parameter.type.endswith("*"):
        return None

    def pointer(given: Any) -> Any:  # noqa: ANN401 (of C)
        require(given, parameter.name)
        return text(given) if parameter.type == "const char*" else given

    return pointer


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
