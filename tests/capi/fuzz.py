"""Drives the C API with random calls: `python -m tests.capi.fuzz --seconds 60 --seed 1`.

Sequences of two kinds take turns at random: valid ones, which must succeed and compute the right
numbers, and arbitrary ones, in which every call must return a code of the NDK and no exception may
escape its function. Exit status 1 on the first fault, which is printed with the seed and the calls
before it; a crash shows where it was.
"""

import argparse
import ctypes as c
import faulthandler
import logging
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

import numpy as np

from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.functions import FUNCTIONS, Function, Parameter
from ep_nnapi.nnapi.spec import ADD, LOGISTIC, MUL, RELU, SUB
from tests.capi.client import (
    Library,
    channel_params,
    is_handle,
    kind,
    operand_type,
    pointer,
    ref,
    u32s,
)
from tests.capi.world import World

CODES = {int(code) for code in ResultCode}
VALID_SHARE = 0.4
THREADS = 2


class Fault(Exception):
    """A fault of the library."""


class Defects(logging.Handler):
    """Exceptions that the library did not expect, as it logs them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(f"{record.getMessage()}: {record.exc_info}")


class Fuzzer:
    """One thread's sequences."""

    def __init__(self, nn: Library, seed: int, directory: str) -> None:
        self._nn, self._random = nn, random.Random(seed)
        self._caller = Caller(nn, self._random, directory)
        self._log: deque[str] = deque(maxlen=60)
        self.seed = seed
        self.codes: Counter[int] = Counter()
        self.sequences: Counter[str] = Counter()

    def sequence(self) -> None:
        """One sequence of either kind; raises Fault."""
        if self._random.random() < VALID_SHARE:
            try:
                self._log.append(chain(self._nn, self._random))
            except AssertionError as error:
                raise self._fault(f"a valid sequence failed: {error}") from error
            self.sequences["valid"] += 1
            return
        self.sequences["arbitrary"] += 1
        if self._random.random() < 0.1:
            self._caller.populate()
        for _ in range(self._random.randint(1, 30)):
            function, arguments, code = self._caller.call()
            self._log.append(f"{function.python_name}{arguments} -> {code}")
            if function.returns == "int":
                self.codes[code] += 1
                if code not in CODES:
                    raise self._fault(f"{function.python_name} returned {code}")

    def _fault(self, what: str) -> Fault:
        return Fault("\n".join([*self._log, f"seed {self.seed}: {what}"]))


def drive(fuzzer: Fuzzer, end: float, faults: list[str]) -> None:
    """Sequences until the time is over, or something is wrong."""
    while time.monotonic() < end and not faults:
        try:
            fuzzer.sequence()
        except Fault as fault:
            faults.append(str(fault))


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    asked = parser.parse_args()
    faulthandler.enable()
    nn, defects = Library(libneuralnetworks_path()), Defects()
    logging.getLogger("ep_nnapi").addHandler(defects)
    sys.stdout.write(f"seed {asked.seed}\n")
    sys.stdout.flush()
    end = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory() as directory:
        fuzzers = [Fuzzer(nn, asked.seed + n, directory) for n in range(THREADS)]
        threads = [threading.Thread(target=drive, args=(f, end, defects.found)) for f in fuzzers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sequences = sum((f.sequences for f in fuzzers), Counter())
    codes = sum((f.codes for f in fuzzers), Counter())
    named = {ResultCode(code).name: n for code, n in sorted(codes.items()) if code in CODES}
    sys.stdout.write("\n".join([*defects.found, f"{dict(sequences)} {named}\n"]))
    return 1 if defects.found or 3 * sequences["valid"] < sequences.total() else 0


UNARY = {RELU: lambda a: np.maximum(a, 0), LOGISTIC: lambda a: 1 / (1 + np.exp(-a))}
BINARY = {ADD: np.add, SUB: np.subtract, MUL: np.multiply}
WAYS = ("compute", "start", "burst", "fenced")
Shape = tuple[int, ...]


def chain(nn: Library, r: random.Random) -> str:
    """Operations one after the other, on a shape that the model may leave unknown.

    Says what was made; raises AssertionError when a call or a number is wrong.
    """
    shape = tuple(r.randint(1, 4) for _ in range(r.randint(1, 4)))
    unknown = tuple(0 if r.random() < 0.3 else d for d in shape)
    ops = [r.choice((*UNARY, *BINARY)) for _ in range(r.randint(1, 4))]
    numbers = np.random.default_rng(r.getrandbits(32))
    a, b = (numbers.normal(size=shape).astype(np.float32) for _ in "ab")
    world, way = World(nn), r.choice(WAYS)
    try:
        model = _model(world, (shape, unknown), ops, b)
        compilation = world.ready(model=model, for_device=r.random() < 0.5)
        out = _run(world, compilation, a, way)
    finally:
        world.close()
    for op in ops:
        a = UNARY[op](a) if op in UNARY else BINARY[op](a, b)
    np.testing.assert_allclose(out, a, rtol=1e-5, atol=1e-6)  # exp in float32
    return f"{way} of {ops} on {shape}, declared {unknown}"


def _model(w: World, shapes: tuple[Shape, Shape], ops: list, b: np.ndarray) -> int:
    """Operand 0 is the input, 1 the constant `b`, 2 no activation, then the results."""
    (shape, unknown), none = shapes, np.array([0], np.int32)
    model = w.make("Model_create")
    for described in (operand_type(dimensions=unknown), operand_type(dimensions=shape)):
        w.check("Model_addOperand", model, ref(described))
    w.check("Model_addOperand", model, ref(operand_type(1, ())))
    w.check("Model_setOperandValue", model, 1, pointer(b), b.nbytes)
    w.check("Model_setOperandValue", model, 2, pointer(none), 4)
    value = 0
    for result, op in enumerate(ops, 3):
        inputs = [value] if op in UNARY else [value, 1, 2]
        w.check("Model_addOperand", model, ref(operand_type(dimensions=unknown)))
        ends = len(inputs), u32s(inputs), 1, u32s([result])
        w.check("Model_addOperation", model, op.code, *ends)
        value = result
    w.identify(model, [0], [value])
    w.check("Model_finish", model)
    return model


def _run(w: World, compilation: int, a: np.ndarray, way: str) -> np.ndarray:
    execution, out = w.execution(compilation), np.zeros_like(a)
    given = ref(operand_type(dimensions=a.shape))
    w.check("Execution_setInput", execution, 0, given, pointer(a), a.nbytes)
    w.check("Execution_setOutput", execution, 0, given, pointer(out), out.nbytes)
    if way == "compute":
        w.check("Execution_compute", execution)
    elif way == "burst":
        w.check("Execution_burstCompute", execution, w.burst(compilation))
    elif way == "start":
        w.check("Event_wait", w.make("Execution_startCompute", execution))
    else:
        start = "Execution_startComputeWithDependencies"
        w.check("Event_wait", w.make(start, execution, None, 0, 0))
    return out


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


if __name__ == "__main__":
    sys.exit(main())
