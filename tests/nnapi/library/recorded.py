"""This project's own library as a client sees it, with a record of its calls.

    functions = Recorded(hidden=("Burst_create",))
    ...
    assert functions.calls["Execution_create"] == 1

Functions that are hidden are missing for the client, as in a library of an older Android.
"""

import ctypes
import shutil
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import ep_nnapi
from ep_nnapi.nnapi.codes import ResultCode, feature_level_code
from ep_nnapi.nnapi.functions import FUNCTIONS, OBJECTS, OPERATION_TYPE, PREFIX, STRUCTS, Function
from ep_nnapi.nnapi.library.binding import Functions
from tests.native.build import COMPILER, made_once


class Partial:
    """A loaded library without some of its symbols."""

    def __init__(self, library: ctypes.CDLL, hidden: Collection[str]) -> None:
        self._library, self._hidden = library, set(hidden)

    def __getattr__(self, name: str) -> object:
        if name in self._hidden:
            raise AttributeError(name)
        return getattr(self._library, name)

    def __getitem__(self, name: str) -> object:
        return self._library[name]


class Recorded(Functions):
    """The functions but for `hidden`, whose calls are counted.

    fails   result codes that a function returns instead of being called
    """

    def __init__(
        self, hidden: Collection[str] = (), fails: Mapping[str, ResultCode] | None = None
    ) -> None:
        path = ep_nnapi.libneuralnetworks_path()
        names = [f"ANeuralNetworks{'_' if name.startswith('get') else ''}{name}" for name in hidden]
        self.calls: Counter[str] = Counter()
        self.arguments: dict[str, tuple[object, ...]] = {}  # of the last call
        self.fails = dict(fails or {})
        super().__init__(Partial(ctypes.CDLL(path), names), path)

    def code(self, name: str, *arguments: object) -> int:
        self.calls[name] += 1
        self.arguments[name] = arguments
        return int(self.fails[name]) if name in self.fails else super().code(name, *arguments)

    def free(self, name: str, handle: int) -> None:
        self.calls[name] += 1
        super().free(name, handle)


DIES = -1
"""In place of a result code: the call ends the process."""

FIXED = Path(__file__).with_name("shim.c")

CODED = tuple(f.python_name for f in FUNCTIONS if f.returns == "int")
"""Functions that return a result code."""


@dataclass(frozen=True)
class Shim:
    """The built library and the functions that steer it; names are without the prefix."""

    path: str
    _control: ctypes.CDLL = field(repr=False)

    def fault(self, name: str, code: int = 0, *, nth: int = 0, milliseconds: int = 0) -> None:
        """The nth call from now (0: every call) blocks, then returns `code` (0: it goes on)."""
        self._control.shim_fault(_c(name), nth, code, milliseconds)

    def random(self, seed: int, per_mille: int) -> None:
        """Let `per_mille` of a thousand calls return a random error code."""
        self._control.shim_random(ctypes.c_ulong(seed), per_mille)

    def decline(self, *operations: int) -> None:
        """The device supports these operations no longer."""
        for code in operations:
            self._control.shim_decline(code)

    def clear(self) -> None:
        """No faults."""
        self._control.shim_clear()

    def calls(self, name: str) -> int:
        """Number of calls of a function since its fault was set."""
        return self._control.shim_calls(_c(name))

    def live(self) -> dict[str, int]:
        """Number of objects of each kind that are not freed."""
        counts = dict.fromkeys(OBJECTS, 0)
        for function in FUNCTIONS:
            kind = _made(function) or _freed(function)
            if kind and kind in counts:
                counts[kind] += self._control.shim_live(function.c_name.encode())
        return {kind: n for kind, n in counts.items() if n}


def built(folder: Path, level: int = 8) -> Shim:
    """The library with the functions of the feature levels up to `level`, built in `folder`."""
    visible = [f for f in FUNCTIONS if f.level <= level]
    source, library = folder / f"level{level}.c", folder / f"liblevel{level}.so"
    source.write_text(
        "\n".join(
            [
                f"#define FUNCTIONS {len(visible)}",
                "#define NAMES " + ", ".join(f'"{f.c_name}"' for f in visible),
                f'#define REAL "{ep_nnapi.libneuralnetworks_path()}"',
                FIXED.read_text(),
                *(f"typedef struct {PREFIX}{o} {PREFIX}{o};" for o in OBJECTS),
                f"typedef {OPERATION_TYPE} {PREFIX}OperationType;",
                "typedef struct AHardwareBuffer AHardwareBuffer;",
                STRUCTS,
                *(_wrapper(i, f, level) for i, f in enumerate(visible)),
            ]
        )
    )
    command = [COMPILER or "cc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    command += ["-Wno-unused-function", "-shared", "-fPIC", "-fvisibility=hidden"]
    shutil.copy(made_once(command, source, ".so"), library)  # each has faults of its own
    return shim_at(str(library))


def shim_at(path: str) -> Shim:
    """A library that `built` has made."""
    control = ctypes.CDLL(path)
    control.shim_fault.argtypes = [ctypes.c_char_p, *[ctypes.c_long] * 3]
    control.shim_calls.restype = control.shim_live.restype = ctypes.c_long
    return Shim(path, control)


def _c(name: str) -> bytes:
    return next(f.c_name for f in FUNCTIONS if f.python_name == name).encode()


def _made(function: Function) -> str:
    """The kind of object that a function makes."""
    last = function.parameters[-1].type if function.parameters else ""
    makes = "create" in function.name or "startCompute" in function.name
    return last.removesuffix("**") if makes and function.returns == "int" else ""


def _freed(function: Function) -> str:
    return function.name.removesuffix("_free") if function.name.endswith("_free") else ""


def _wrapper(index: int, function: Function, level: int) -> str:
    """One exported function."""
    names = ", ".join(p.name for p in function.parameters)
    types = ", ".join(p.public.rsplit(" ", 1)[0] for p in function.parameters) or "void"
    call = f"(({function.returns} (*)({types}))real[{index}])({names})"
    return f"EXPORT {function.prototype} {{\n{_body(index, function, call, level)}}}\n"


def _body(index: int, function: Function, call: str, level: int) -> str:
    if function.returns == "void":
        forget = (
            f"forget_model({function.parameters[0].name}); " if _freed(function) == "Model" else ""
        )
        return f"    fault({index}, false);\n    {forget}live[{index}]--;\n    {call};\n"
    if function.returns != "int":
        code = feature_level_code(level)
        capped = f"result > {code} ? {code} : result"
        shown = capped if function.name == "_getRuntimeFeatureLevel" else "result"
        before = f"    fault({index}, false);\n    {function.returns} result = {call};\n"
        return f"{before}    return {shown};\n"
    before, after = f"    int code = fault({index}, true);\n", ""
    if function.name == "Event_wait":  # an event that fails has ended too
        return f"{before}    int result = {call};\n    return code ? code : result;\n"
    if _made(function):
        after = f"    if (result == 0) live[{index}]++;\n"
    elif function.name == "Model_addOperation":
        after = "    if (result == 0) note_operation(model, type);\n"
    elif function.name == "Model_getSupportedOperationsForDevices":
        after = "    if (result == 0) mask(model, supportedOps);\n"
    return (
        f"{before}    if (code) return code;\n    int result = {call};\n{after}    return result;\n"
    )
