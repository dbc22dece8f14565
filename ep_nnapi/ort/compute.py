"""Zero-copy execution of a fused node on ONNX Runtime's buffers.

Sessions that run it without Python are handed to C code, see direct_run.c, with the programs that
check conditions on sizes and compute sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.border import Allocate, Place, Stop
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.nnapi.expressions import Condition, Expression, Relation
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.nnapi.runtime import Program
from ep_nnapi.nnapi.sizes import Size
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import check
from ep_nnapi.ort.inner_session import InnerSession
from ep_nnapi.sessions import device_session

if TYPE_CHECKING:
    from ep_nnapi.ort._native import Call, CData, Tensor
    from ep_nnapi.provider.compiled_cluster import DirectRun


_RELATIONS = {
    Relation.ZERO: lib.SIZE_ZERO,
    Relation.NONZERO: lib.SIZE_NONZERO,
    Relation.NOT_NEGATIVE: lib.SIZE_NOT_NEGATIVE,
}


def size_program(
    symbols: Sequence[str], conditions: Iterable[Condition], sizes: Iterable[int]
) -> list[int] | None:
    """Return the code that checks the conditions and stores the sizes; None if it is too long.

    symbols   in the order of their positions in C
    """
    return _coded(tuple(symbols), tuple(conditions), tuple(map(Expression.of, sizes)))


@lru_cache(16)
def _coded(
    symbols: tuple[str, ...], conditions: tuple[Condition, ...], stored: tuple[Expression, ...]
) -> list[int] | None:
    """The same; it is asked whether there is one, and then for it."""
    positions = {name: i for i, name in enumerate(symbols)}
    given = [*(c.expression for c in conditions), *stored]
    if (
        len(symbols) > lib.MOST_SYMBOLS
        or len(stored) > lib.MOST_SIZES
        or max(map(_depth, given), default=0) > lib.MOST_OPERANDS
    ):
        return None
    code: list[int] = []
    for condition in conditions:
        _compute(condition.expression, positions, code)
        code.append(_RELATIONS[condition.relation])
    for expression in stored:
        _compute(expression, positions, code)
        code.append(lib.SIZE_STORE)
    return code


def _compute(expression: Expression, symbols: Mapping[str, int], code: list[int]) -> None:
    """Add the code that leaves the value of the expression on the stack."""
    code += (lib.SIZE_NUMBER, 0)
    for monomial, factor in expression.terms:
        code += (lib.SIZE_NUMBER, factor)
        for atom in monomial:
            if isinstance(atom, str):
                code += (lib.SIZE_SYMBOL, symbols[atom])
            else:
                _compute(atom.dividend, symbols, code)
                _compute(atom.divisor, symbols, code)
                code.append(lib.SIZE_DIVIDE)
            code.append(lib.SIZE_MULTIPLY)
        code.append(lib.SIZE_ADD)


def _depth(expression: Expression) -> int:
    """The operands on the stack at most."""
    inner = (a for monomial, _ in expression.terms for a in monomial if not isinstance(a, str))
    return 3 + max((1 + max(_depth(a.dividend), 1 + _depth(a.divisor)) for a in inner), default=0)


class Runnable(Protocol):
    """Runs a compiled cluster with the fused node's order of inputs and outputs; thread-safe."""

    def __call__(self, inputs: Sequence[Array], allocate: Allocate, stop: Stop) -> None:
        """Computes each output into the array that `allocate` returns for it.

        inputs     arrays over ONNX Runtime's buffers: valid during the call, not to be written
        allocate   maps (output index, shape) to the writable buffer of that output; call it once
                   per output and write the result there
        stop       to be called between operations; an exception that it raises ends the run
        """
        ...


@runtime_checkable
class DirectRunner(Protocol):
    """A runner that sessions of ONNX Runtime may replace while no more is asked of it."""

    def direct_runs(self) -> Sequence[DirectRun]:
        """Returns the sessions and the tensors that they take, those that ran last first.

        They hold until the provider's options change or a listener comes.
        """
        ...


class Cluster(Protocol):
    """Nodes to fuse into one node of the session."""

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Ids of the graph's nodes (the members of its GraphNodes) to fuse."""
        ...

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runnable:
        """Returns the runner for inputs and outputs in this order."""
        ...


_lock = ForkableLock()
"""Held while a runner is asked and C code told, so that no withdrawal is lost in between."""


class _Entry:
    """One of the runs that C code chooses from.

    session, used  of the run: it may be a program's; None once there is none
    kept           its struct and what it refers to, after those that C code may still use
    """

    def __init__(self) -> None:
        self.session: InnerSession | Program | None = None
        self.used: Callable[[], object] | None = None
        self.kept: list[tuple[CData, object]] = [(ffi.NULL, None)]

    def change(self, session: InnerSession | Program, run: DirectRun, counts: CData) -> None:
        """Replaces the run; C code has to be told."""
        self.session, self.used = session, run.used
        self.kept.append(_run_struct(session, run, counts))

    def clear(self) -> None:
        """Removes the run; C code has to be told."""
        if self.session is not None:
            self.session = self.used = None
            self.kept.append((ffi.NULL, None))


class DirectSlot:
    """The sessions, if any, that C code runs a fused node in."""

    def __init__(self, runner: DirectRunner) -> None:
        self._runner = runner
        self._compute: CData | None = None
        self._entries: list[_Entry] = []
        self._counts: dict[object, CData] = {}

    def attach(self, compute: CData) -> None:
        """Sets the PyCompute of the fused node, which lives as long as this object."""
        self._compute = compute

    def note_uses(self) -> None:
        """Tells the runner, before it runs, in which sessions C code has, the last one at last."""
        with _lock:
            if self._compute is None:
                return
            times = [lib.last_direct_run(self._compute, i) for i in range(len(self._entries))]
            for time, i in sorted(zip(times, range(len(times)), strict=True)):
                used = self._entries[i].used
                if time > 0 and used is not None:
                    used()

    def offer(self) -> None:
        """Lets C code run the node from now on, unless its runner is needed."""
        with _lock:
            if self._compute is None:
                return
            wanted = self._wanted()
            for entry in self._entries:
                if entry.session not in wanted:
                    entry.clear()
            for session in wanted.keys() - {entry.session for entry in self._entries}:
                run = wanted[session]
                self._free_entry().change(session, run, self._counts_of(run))
            for i, entry in enumerate(self._entries):
                if lib.set_direct_run(self._compute, i, entry.kept[-1][0]):
                    del entry.kept[:-1]

    def _counts_of(self, run: DirectRun) -> CData:
        """Returns what counts runs like this one, which is on the cluster's record from now on."""
        if run.by not in self._counts:
            self._counts[run.by] = counts = ffi.new("DirectCounts *", {"timed": run.timed})
            run.count(lambda: (counts.runs, counts.total_ns, counts.least_ns))
        return self._counts[run.by]

    def _wanted(self) -> dict[InnerSession | Program, DirectRun]:
        """Returns what C code can do of the runs that the runner allows, those that ran last."""
        known = {entry.session for entry in self._entries}
        possible = [
            (run.session, run)
            for run in self._runner.direct_runs()
            if isinstance(run.session, InnerSession | Program)
            and max(len(run.tensors.inputs), len(run.tensors.outputs)) <= lib.MOST_DIRECT_TENSORS
            and (run.sizes is None or run.session in known or _program(run) is not None)
        ]
        return dict(possible[: lib.MOST_DIRECT_RUNS])

    def _free_entry(self) -> _Entry:
        for entry in self._entries:
            if entry.session is None:
                return entry
        self._entries.append(_Entry())
        return self._entries[-1]

    def withdraw(self) -> None:
        """Has the next run go through Python, which offers the sessions again if it may."""
        with _lock:
            if self._compute is not None:
                for i in range(len(self._entries)):
                    lib.set_direct_run(self._compute, i, ffi.NULL)


def _run_struct(
    session: InnerSession | Program, direct: DirectRun, counts: CData
) -> tuple[CData, object]:
    """Returns a DirectRun in C, and what must live as long as it."""
    given, owned_given = _tensors(direct.given)
    inputs, owned_inputs = _tensors(direct.tensors.inputs)
    outputs, owned_outputs = _tensors(direct.tensors.outputs)
    run = ffi.new("DirectRun *")
    if isinstance(session, InnerSession):
        run.session = session.struct
        run.input_names, run.output_names = session.input_names, session.output_names
    else:
        run.runner = ffi.cast("DirectRunner", session.runner)
        run.model = ffi.cast("void *", session.address)
    run.given, run.inputs, run.outputs = given, inputs, outputs
    run.given_count, run.input_count, run.output_count = len(given), len(inputs), len(outputs)
    run.long_ns = round(device_session.LONG_RUN * 1e9)
    run.counts = counts
    run.sizes, owned_sizes = _sizes(direct)
    owned = owned_given, owned_inputs, owned_outputs, owned_sizes
    return run, (session, given, inputs, outputs, owned, counts)


def _program(direct: DirectRun) -> list[int] | None:
    sizes = direct.sizes
    if sizes is None:
        return None
    stored = [size for place in direct.tensors.outputs for size in place.shape]
    return size_program([*sizes.symbols], sizes.conditions, stored)


def _sizes(direct: DirectRun) -> tuple[CData, object]:
    """Returns a SizeProgram in C, or NULL, and what must live as long as it."""
    numbers = _program(direct)
    if direct.sizes is None or numbers is None:
        return ffi.NULL, None
    symbols = ffi.new("SizeSymbol[]", [*direct.sizes.symbols.values()])
    code = ffi.new("int64_t[]", numbers)
    program = ffi.new("SizeProgram *", (symbols, code, len(symbols), len(numbers)))
    return program, (program, symbols, code)


def _tensors(places: Sequence[Place]) -> tuple[CData, object]:
    """Returns an array of DirectTensor, and what must live as long as it."""
    shapes = [[-1 if isinstance(d, Size) else d for d in place.shape] for place in places]
    dims = [ffi.new("int64_t[]", shape) for shape in shapes]
    contents = [ffi.NULL if p.contents is None else ffi.from_buffer(p.contents) for p in places]
    made = [
        (p.position, len(p.shape), sizes, p.narrowed, p.flat, known, len(p.contents or b""), p.most)
        for p, sizes, known in zip(places, dims, contents, strict=True)
    ]
    return ffi.new("DirectTensor[]", made), (dims, contents)


_CHECK_INTERVAL_NS = 5_000_000
"""Nanoseconds between checks of a run's terminate flag: one check takes a few thousand."""


class Terminated(NnapiError):
    """The caller has terminated the run."""


class TerminationProbe:
    """Callable that raises Terminated once RunOptions.terminate is set for this run."""

    __slots__ = ("_last_check",)

    def __init__(self) -> None:
        self._last_check = time.monotonic_ns()

    def __call__(self) -> None:
        """Checks the flag, unless the last check was less than 5 ms ago."""
        now = time.monotonic_ns()
        if now - self._last_check > _CHECK_INTERVAL_NS:
            self._last_check = now
            if lib.run_terminated():
                raise Terminated("the run ends early: RunOptions.terminate is set")


class FusedNode:
    """Runs one cluster for a session; thread-safe.

    The C code has read the input tensors before it calls `compute`.
    """

    def __init__(self, runner: Runnable, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        self.input_count = len(inputs)
        self.output_count = len(outputs)
        self._runner = runner
        self._inputs = [(i, value.dtype.numpy) for i, value in enumerate(inputs)]
        self._dtypes = [value.dtype.numpy for value in outputs]
        # Cache of each output's last shape, as tuple and C array, and its size in bytes.
        # Each entry is replaced as one tuple, so that threads never see a partial update.
        self._shapes: list[tuple[tuple[int, ...] | None, Any, int]]
        self._shapes = [(None, ffi.NULL, 0)] * len(outputs)
        self.direct = DirectSlot(runner) if isinstance(runner, DirectRunner) else None

    def compute(self, call: Call) -> None:
        """Runs the cluster once; propagates the runner's exceptions."""
        tensors = call.inputs
        inputs = [_input(tensors[i], dtype) for i, dtype in self._inputs]
        stop = TerminationProbe()
        if self.direct is not None:
            self.direct.note_uses()
        self._runner(inputs, lambda index, shape: self._allocate(call, index, shape), stop)
        if self.direct is not None:
            self.direct.offer()

    def _allocate(self, call: Call, index: int, shape: tuple[int, ...]) -> Array:
        dtype = self._dtypes[index]
        known, dims, size = self._shapes[index]
        if known != shape:
            dims, size = ffi.new("int64_t[]", shape), prod(shape) * dtype.itemsize
            self._shapes[index] = (shape, dims, size)
        data = lib.make_output(call, index, dims, len(shape))
        if data:
            return np.ndarray(shape, dtype, ffi.buffer(data, size))
        status, call.status = call.status, ffi.NULL
        check(status)
        return np.empty(shape, dtype)


def _input(tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    shape = ffi.unpack(tensor.dims, tensor.rank) if tensor.rank else ()
    size = tensor.bytes
    return np.ndarray(shape, dtype, ffi.buffer(tensor.data, size) if size else b"")
