"""The C functions of one libneuralnetworks.so, bound with ctypes.

Prototypes come from `nnapi.functions`. Calls release the GIL.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from typing import Any

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, ResultCode, failure, feature_level_of_code
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure
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
    1: (
        "Model_create",
        "Model_free",
        "Model_finish",
        "Model_addOperand",
        "Model_setOperandValue",
        "Model_setOperandValueFromMemory",
        "Model_addOperation",
        "Model_identifyInputsAndOutputs",
        "Compilation_create",
        "Compilation_free",
        "Compilation_setPreference",
        "Compilation_finish",
        "Execution_create",
        "Execution_free",
        "Execution_setInput",
        "Execution_setOutput",
        "Execution_startCompute",
        "Event_wait",
        "Event_free",
        "Memory_createFromFd",
        "Memory_free",
    ),
    2: ("Model_relaxComputationFloat32toFloat16",),
    3: (
        "getDeviceCount",
        "getDevice",
        "Device_getName",
        "Device_getType",
        "Device_getVersion",
        "Device_getFeatureLevel",
        "Model_getSupportedOperationsForDevices",
        "Model_setOperandSymmPerChannelQuantParams",
        "Compilation_createForDevices",
        "Execution_getOutputOperandRank",
        "Execution_getOutputOperandDimensions",
    ),
    4: ("Model_setOperandValueFromModel",),
    5: ("getRuntimeFeatureLevel",),
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
        self._bound = {f.python_name: _bound(library, f) for f in FUNCTIONS if _has(library, f)}
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


def _has(library: ctypes.CDLL, function: Function) -> bool:
    return hasattr(library, function.c_name)


def _bound(library: ctypes.CDLL, function: Function) -> Callable[..., Any]:
    found = library[function.c_name]  # not the attribute: others may set its types
    found.restype = None if function.returns == "void" else ctype(function.returns)
    found.argtypes = [ctype(p.type) for p in function.parameters]
    return found
