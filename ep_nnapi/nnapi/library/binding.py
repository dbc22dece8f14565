"""The C functions of one libneuralnetworks.so: search, prototypes, calls with a deadline, handles.

Prototypes come from `nnapi.functions`. Calls release the GIL.
"""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, ResultCode, failure, feature_level_of_code
from ep_nnapi.nnapi.deadline import called_for
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure, Unresponsive
from ep_nnapi.nnapi.functions import FUNCTIONS, OPERATION_TYPE, PREFIX, STRUCTS, Function

_SCALARS: Mapping[str, Any] = {
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "bool": ctypes.c_bool,
}

NEEDED: Mapping[int, tuple[str, ...]] = {
    level: tuple(f.python_name for f in FUNCTIONS if f.needed and f.level == level)
    for level in range(1, 6)
}
"""Functions that a library of each feature level must have to be used at that level.

Any other function is a feature that is left out where it is missing: see `Functions.has`.
"""


def ctype(text: str) -> Any:  # noqa: ANN401 (a class of ctypes)
    """The ctypes class of a C type of `nnapi.functions`; c_void_p for pointers."""
    return _SCALARS.get(text.replace("OperationType", OPERATION_TYPE), ctypes.c_void_p)


def _fields(struct: str) -> list[tuple[str, Any]]:
    """The fields of a struct in `nnapi.functions.STRUCTS`."""
    body = re.search(rf"typedef struct {struct} {{(.*?)}}", STRUCTS, re.DOTALL)
    if body is None:
        raise LookupError(struct)
    declared = re.findall(r"([\w ]+\*?) (\w+);", body[1])
    return [(name, ctype(kind.strip())) for kind, name in declared]


class OperandType(ctypes.Structure):
    """ANeuralNetworksOperandType."""

    _fields_ = _fields("ANeuralNetworksOperandType")


class ChannelParams(ctypes.Structure):
    """ANeuralNetworksSymmPerChannelQuantParams."""

    _fields_ = _fields("ANeuralNetworksSymmPerChannelQuantParams")


class Functions:
    """The NNAPI functions that one library has.

    path           as loaded
    feature_level  1 to 8: of the functions that are there and as the runtime reports it
    """

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        """Bind the functions; raises OptionError if those of feature level 1 are missing."""
        self.path = path
        self._bound = {
            f.python_name: _bound(library, f) for f in FUNCTIONS if hasattr(library, f.c_name)
        }
        missing = [name for name in NEEDED[1] if not self.has(name)]
        if missing:
            raise OptionError(f"runtime {path} is no NNAPI library: it has no {PREFIX}{missing[0]}")
        self.feature_level = self._feature_level()

    def has(self, *names: str) -> bool:
        """True if the library has all of these functions, named without the prefix."""
        return all(name in self._bound for name in names)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function that returns a result code; raises RuntimeFailure for an error code."""
        code = self.code(name, *arguments)
        if code != ResultCode.NO_ERROR:
            raise failed(name, code)

    def code(self, name: str, *arguments: object) -> int:
        """Call a function; returns its result."""
        return int(self._bound[name](*arguments))

    def free(self, name: str, handle: int) -> None:
        """Call a function that returns nothing, such as Model_free."""
        self._bound[name](handle)

    def _feature_level(self) -> int:
        level = 1
        while level + 1 in NEEDED and self.has(*NEEDED[level + 1]):
            level += 1
        if level < max(NEEDED):
            return level
        reported = feature_level_of_code(self.code("getRuntimeFeatureLevel"))
        return min(max(reported, 1), HIGHEST_LEVEL)


def failed(name: str, code: int, detail: str = "") -> RuntimeFailure:
    """The failure of the function `name` (without the prefix) that returned `code`."""
    if code in set(ResultCode):
        return failure(c_name(name), ResultCode(code), detail)
    return RuntimeFailure(c_name(name), f"result code {code}, which NNAPI does not define", detail)


def c_name(name: str) -> str:
    """The exported name of a function."""
    return _C_NAMES[name]


_C_NAMES = {f.python_name: f.c_name for f in FUNCTIONS}


def _bound(library: ctypes.CDLL, function: Function) -> Callable[..., Any]:
    found = library[function.c_name]  # not the attribute: others may set its types
    found.restype = None if function.returns == "void" else ctype(function.returns)
    found.argtypes = [ctype(p.type) for p in function.parameters]
    return found


SYSTEM = "system"
"""The name of the library that Android provides."""

_NAME = "libneuralnetworks.so"
_BITS = "64" if ctypes.sizeof(ctypes.c_void_p) == 8 else ""
SYSTEM_PATHS = (
    _NAME,
    f"/apex/com.android.neuralnetworks/lib{_BITS}/{_NAME}",
    f"/system/lib{_BITS}/{_NAME}",
)
"""Where Android's library is looked for, in this order. The first is the linker's own search.

It is an APEX module from Android 11 on, a part of the system before.
"""


@cache
def load(name: str) -> Functions:
    """The functions of the library `name`: SYSTEM, or a path. Each is loaded once in a process.

    Raises OptionError if there is none, if it cannot be loaded or is no NNAPI library.
    """
    if name != SYSTEM:
        return _loaded(name)
    for path in SYSTEM_PATHS:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        return Functions(library, path)
    raise OptionError(
        f"runtime {SYSTEM}: there is no {_NAME}, which Android has from 8.1 on; "
        "name a library's path, or host"
    )


def _loaded(name: str) -> Functions:
    path = Path(name).absolute()
    if not path.is_file():
        raise OptionError(f"runtime {name}: no such file; name a {_NAME}, system or host")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise OptionError(f"runtime {name} cannot be loaded: {error}") from None
    return Functions(library, str(path))


T = TypeVar("T")

_GRACE_NS = 100_000_000
"""Least time after a deadline in which a driver may report by itself that it missed it."""


def within(timeout_ns: int | None, name: str, call: Callable[[], T]) -> T:
    """The result of `call`, which calls the NNAPI function `name`, or its exception.

    With a timeout it runs on a thread of its own; one that has not returned a quarter later than
    the timeout is abandoned, and Unresponsive is raised.
    """
    if timeout_ns is None:
        return call()
    seconds = (timeout_ns + max(timeout_ns // 4, _GRACE_NS)) / 1e9
    called = called_for(seconds, call, f"nnapi {name}")
    if called.done():
        try:
            return called.result()
        finally:
            del called  # an exception has this frame, and the future has the exception
    missed = failed(name, ResultCode.MISSED_DEADLINE_PERSISTENT)
    raise Unresponsive(missed.call, missed.code, f"it has not returned {timeout_ns / 1e9:g} s on")


class Handle:
    """An NNAPI object of this process, which is freed together with this one.

    value   the pointer
    """

    __slots__ = ("__weakref__", "value")

    def __init__(self, functions: Functions, kind: str, value: int, *needs: object) -> None:
        """Own the object `value` of kind `kind`, such as "Model".

        needs   what must live as long as the object: the handles and memory that it uses
        """
        self.value = value
        arguments = (functions, f"{kind}_free", value, os.getpid(), needs)
        # not at exit: a library that is this interpreter's own ends with it
        weakref.finalize(self, _free, *arguments).atexit = False


def create(
    functions: Functions, name: str, *arguments: object, needs: tuple[object, ...]
) -> Handle:
    """The object that the function `name`, such as Model_create, creates into its last parameter.

    Raises RuntimeFailure if it fails or returns a null pointer with NO_ERROR.
    """
    out = ctypes.c_void_p()
    functions.call(name, *arguments, ctypes.byref(out))
    if not out.value:
        raise failed(
            name,
            ResultCode.UNEXPECTED_NULL,
            "it says that it succeeded, and returns a null pointer",
        )
    return Handle(functions, name.partition("_")[0], out.value, *needs)


def _free(functions: Functions, name: str, value: int, owner: int, needs: object) -> None:
    if os.getpid() == owner:  # a forked child has no connection to the parent's drivers
        functions.free(name, value)
    del needs
