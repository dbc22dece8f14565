"""Random calls of the C API with random arguments, most of them wrong."""

import ctypes as c
import os
import random
from collections.abc import Callable

from ep_nnapi.nnapi.functions import FUNCTIONS, Function, Parameter
from tests.capi.client import Library, channel_params, is_handle, kind, operand_type, ref, u32s
from tests.capi.world import World

SPACE = 1 << 20
"""Bytes of every buffer; no length between this and NNAPI's limit is passed."""
INTEGERS = (0, 1, 2, 3, 4, 5, 7, 8, 20, 64, 90, 127, 128, 999, -1, -2, 2**31 - 1, -(2**31))
COUNTS = (0, 1, 2, 3, 5, 30, 100_000, 0xFFFFFFFF)
LENGTHS = (0, 1, 3, 4, 8, 8, 12, 16, 100, 128, 132, 4096, SPACE, 2**33, 2**64 - 1)
DIMS = (0, 1, 2, 2, 2, 3, 7, 65536, 0xFFFFFFFF)
FLOATS = (0.0, 1.0, 0.5, -1.0, 1e-30, float("inf"), float("nan"))
READABLE = 64
"""Entries of every list. The library reads no longer list without asking the kernel first."""
LIVE = 30
"""Handles of a kind that are remembered; older ones are freed."""


class Caller:
    """Makes calls; remembers handles, also of what has been freed since."""

    def __init__(self, nn: Library, r: random.Random, directory: str) -> None:
        self.nn, self.random = nn, r
        self._handles: dict[str, list[int]] = {}
        self._worlds: list[World] = []
        self._space = (c.c_uint8 * SPACE)()
        self._directory = c.c_char_p(directory.encode())
        self._file = os.memfd_create("fuzz")
        os.ftruncate(self._file, SPACE)

    def populate(self) -> None:
        """Objects in good states, for calls to spoil."""
        world = World(self.nn)
        self._worlds.append(world)
        for name in ("Model", "Compilation", "Execution", "Burst", "Event", "MemoryDesc", "Memory"):
            self._remember(name, world.of(name))
        self._remember("Model", world.open_model)
        self._remember("Compilation", world.open_compilation)
        self._remember("Execution", world.reusable_execution)
        self._remember("Execution", world.set_execution)
        self._remember("MemoryDesc", world.descriptor())
        self._remember("Device", world.device)
        if len(self._worlds) > 3:
            self._worlds.pop(0).close()

    def call(self) -> tuple[Function, tuple[object, ...], int]:
        """One call: the function, its arguments and what it returned."""
        function, out = self.random.choice(FUNCTIONS), c.c_uint64(0)
        arguments = tuple(self._argument(p, out) for p in function.parameters)
        code = getattr(self.nn, function.python_name)(*arguments)
        if function.parameters and function.parameters[-1].adapter_type == "uintptr_t*":
            self._remember(kind(function.parameters[-1]), out.value)
        return function, arguments, code

    def _remember(self, name: str, handle: int) -> None:
        known = self._handles.setdefault(name, [])
        if handle:
            known.append(handle)
        if len(known) > LIVE:
            old = known.pop(0)
            if name != "Device":
                getattr(self.nn, f"{name}_free")(old)

    def _argument(self, parameter: Parameter, out: c.c_uint64) -> object:
        if is_handle(parameter):
            return self._handle(kind(parameter))
        if parameter.type.endswith("*"):
            return None if self.random.random() < 0.05 else self._pointer(parameter, out)
        return self._number(parameter)

    def _number(self, parameter: Parameter) -> object:
        r, name = self.random, parameter.name.lower()
        by_type = {"bool": (False, True), "float": FLOATS}
        if parameter.type in by_type:
            return r.choice(by_type[parameter.type])
        if name.endswith("fd"):
            return r.choice((self._file, self._file, -1, 999))
        if name in ("length", "size", "offset"):
            return r.choice(LENGTHS)
        if name.endswith("count") or name.startswith("num"):
            return r.choice(COUNTS)
        value = r.choice(INTEGERS) if r.random() < 0.9 else r.getrandbits(31)
        return abs(value) if parameter.type.startswith("u") else value

    def _handle(self, wanted: str) -> int | None:
        r, known = self.random, self._handles.get(wanted)
        if known and r.random() < 0.9:
            return r.choice(known)
        others = [h for handles in self._handles.values() for h in handles]
        return r.choice([None, 1, 0xDEAD, r.getrandbits(64), *others[-3:]])

    def _pointer(self, parameter: Parameter, out: c.c_uint64) -> object:
        if parameter.name == "cacheDir":
            return c.cast(self._directory, c.c_void_p)
        if parameter.type == "const uint32_t*":
            numbers = [self.random.choice((0, 1, 2, 3, 4, 9)) for _ in range(READABLE)]
            return c.cast(u32s(numbers), c.c_void_p)
        if parameter.type.endswith("**") or parameter.type.endswith("* const*"):
            return self._handles_or_place(parameter, out)
        structures: dict[str, Callable[[], c.Structure]] = {
            "const OperandType*": self._operand_type,
            "const SymmPerChannelQuantParams*": self._channels,
        }
        make = structures.get(parameter.type)
        return c.cast(self._space, c.c_void_p) if make is None else ref(make())

    def _handles_or_place(self, parameter: Parameter, out: c.c_uint64) -> object:
        if parameter.type.endswith("**"):
            return ref(out)
        handles = [self._handle(kind(parameter)) or 0 for _ in range(4)]
        return c.cast((c.c_void_p * READABLE)(*handles), c.c_void_p)

    def _channels(self) -> c.Structure:
        r = self.random
        return channel_params(r.randint(0, 3), [r.choice(FLOATS) for _ in range(r.randint(0, 3))])

    def _operand_type(self) -> c.Structure:
        r = self.random
        dims = [r.choice(DIMS) for _ in range(r.choice((0, 1, 1, 1, 2, 4)))]
        padded = dims + [0] * (READABLE - len(dims)) if dims else dims
        described = operand_type(r.choice((*range(17), 3, 3, 3, -1, 10000, 10001)), padded)
        described.dimensionCount = len(dims)
        described.scale = r.choice((0.0, 0.0, 0.0, *FLOATS))
        described.zeroPoint = r.choice((0, 0, 0, 1, 128, 255, 256, -128))
        if r.random() < 0.03:
            described.dimensionCount = r.choice(COUNTS)
        return described
