"""Execution plans of prepared models: inferred shapes, memory layout, release of temporaries."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.host.kernel import NamedOperation, indexes, mapped
from ep_nnapi.nnapi.host.kernel_call import BoundKernel
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.model import Omitted, Operand
from ep_nnapi.nnapi.runtime import TimedOperation
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import Dims, Pending, ShapeError, ShapeOperand, Tensor, unify
from ep_nnapi.nnapi.validate import MAX_BYTES

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class StepsAlive:
    """A temporary's size in bytes and its lifetime: first and last step, inclusive."""

    key: int
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """The offset of each temporary by key, and the total size in bytes."""

    offsets: Mapping[int, int]
    size: int


def assign_offsets(lifetimes: Iterable[StepsAlive]) -> MemoryLayout:
    """Assign offsets such that no two temporaries alive in the same step overlap.

    Greedy: largest first (of equal sizes, the earliest), each at the lowest offset that is free
    during its lifetime. Cost: quadratic in the number of extents.

    >>> assign_offsets([StepsAlive(0, 64, 0, 1), StepsAlive(1, 64, 1, 2), StepsAlive(2, 32, 2, 3)])
    MemoryLayout(offsets={0: 0, 1: 64, 2: 0}, size=128)
    """
    placed: list[tuple[int, int, StepsAlive]] = []
    for extent in sorted(lifetimes, key=lambda e: (-e.size, e.first, e.key)):
        offset = 0
        for start, end, other in placed:
            alive = other.first <= extent.last and extent.first <= other.last
            if alive and start < offset + extent.size and offset < end:
                offset = -(-end // ALIGNMENT) * ALIGNMENT
        insort(placed, (offset, offset + extent.size, extent), key=itemgetter(0))
    offsets = dict(sorted((extent.key, start) for start, _, extent in placed))
    return MemoryLayout(offsets, max((end for _, end, _ in placed), default=0))


def block(size: int) -> Array:
    """Allocate `size` bytes, aligned for vector instructions."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


Shape: TypeAlias = tuple[int, ...]


@immutable
class ScheduledStep:
    """One operation of a prepared model.

    view   the result may share the input's memory
    """

    op: NamedOperation
    bound: BoundKernel
    view: bool

    @property
    def inputs(self) -> tuple[int, ...]:
        """Indexes of the input operands."""
        return tuple([i for index in self.op.inputs.values() for i in indexes(index)])

    @property
    def outputs(self) -> tuple[int, ...]:
        """Indexes of the output operands."""
        return self.op.operation.outputs


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Execution plan of a model for one set of input shapes.

    shapes     shapes of computed operands that are known before a run
    offsets    offsets in the memory block, for temporaries placed there
    size       bytes of the memory block
    skipped    numbers of steps that need not run: views within the memory block
    releases   for each step, temporaries outside the block that are not used after it
    """

    shapes: Mapping[int, Shape]
    offsets: Mapping[int, int]
    size: int
    skipped: frozenset[int]
    releases: tuple[tuple[int, ...], ...]
    _free_blocks: list[Mapping[int, Array]] = field(default_factory=list)

    def acquire(self, operands: Sequence[Operand]) -> Mapping[int, Array]:
        """Arrays of the temporaries in a memory block, for one run; return with `release`."""
        try:
            return self._free_blocks.pop()
        except IndexError:
            memory = block(self.size)
        return {
            i: _view(memory, offset, self.shapes[i], operands[i])
            for i, offset in self.offsets.items()
        }

    def release(self, arrays: Mapping[int, Array]) -> None:
        """Make arrays from `borrow` available to other runs."""
        self._free_blocks.append(arrays)


def _view(memory: Array, offset: int, shape: Shape, operand: Operand) -> Array:
    dtype = operand.type.numpy
    return memory[offset : offset + prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def plan_execution(
    steps: Sequence[ScheduledStep],
    operands: Sequence[Operand],
    known: Mapping[int, ShapeOperand],
    outputs: Sequence[int],
) -> ExecutionPlan:
    """Make a plan from known constants and input shapes; `outputs` are the model's outputs."""
    shapes = _infer_all(steps, operands, known)
    last = {i: n for n, step in enumerate(steps) for i in (*step.outputs, *step.inputs)}
    temporaries = {o for step in steps for o in step.outputs} - {*outputs}
    storage: dict[int, int] = {}  # a view shares its input's memory, so extend the input's lifetime
    for step in steps:
        owner = storage.get(step.inputs[0], step.inputs[0]) if step.view else None
        if owner in temporaries and step.outputs[0] in temporaries:
            storage[step.outputs[0]] = owner
            last[owner] = max(last[owner], last[step.outputs[0]])
    layout = assign_offsets(
        StepsAlive(out, prod(shapes[out]) * operands[out].type.numpy.itemsize, n, last[out])
        for n, step in enumerate(steps)
        for out in step.outputs
        if out in temporaries and out in shapes and not step.view
    )
    offsets = dict(layout.offsets)
    offsets |= {i: offsets[h] for i, h in storage.items() if h in offsets and i in shapes}
    skipped = frozenset(n for n, s in enumerate(steps) if s.view and s.outputs[0] in offsets)
    releases: list[list[int]] = [[] for _ in steps]
    for i in temporaries - offsets.keys():
        releases[last[i]].append(i)
    return ExecutionPlan(shapes, offsets, layout.size, skipped, tuple(map(tuple, releases)))


def _infer_all(
    steps: Sequence[ScheduledStep], operands: Sequence[Operand], known: Mapping[int, ShapeOperand]
) -> dict[int, Shape]:
    """Infer the shapes of computed operands that do not depend on data of the run."""
    facts = dict(known)
    shapes: dict[int, Shape] = {}
    for step in steps:
        try:
            found = infer_step(step, operands, lambda i: facts.get(i, Tensor(None)))
        except ShapeError:  # the run reports it, if it reaches the step
            continue
        for index, dims in zip(step.outputs, found, strict=True):
            facts[index] = Tensor(dims)
            if dims is not None and None not in dims:
                shapes[index] = tuple(size or 0 for size in dims)
    return shapes


def infer_step(
    step: ScheduledStep, operands: Sequence[Operand], fact: Callable[[int], ShapeOperand]
) -> list[Dims | None]:
    """Merge inferred and declared output dimensions; raises ShapeError if they differ."""

    def known(index: int) -> ShapeOperand:
        value = fact(index)
        scalar = not operands[index].type.tensor
        return Pending.PENDING if scalar and isinstance(value, Tensor) else value

    given = mapped(step.op.inputs, known)
    found = infer(step.op.operation.spec, given, len(step.outputs))
    outputs = [operands[index] for index in step.outputs]
    known_now = [merged(dims, operand) for dims, operand in zip(found, outputs, strict=True)]
    for dims, operand in zip(known_now, outputs, strict=True):
        _check_size(dims, operand)
    return known_now


def _check_size(dims: Dims | None, operand: Operand) -> None:
    """Raises ShapeError if a tensor exceeds NNAPI's maximum size, before it is allocated."""
    sizes = [size or 0 for size in dims or ()]
    if prod(sizes) * operand.type.numpy.itemsize > MAX_BYTES:
        raise ShapeError(f"{operand.type.name} {sizes} takes more than {MAX_BYTES} bytes")


def merged(dims: Dims | None, operand: Operand) -> Dims | None:
    """Merge inferred and declared dimensions of one output; raises ShapeError if they differ."""
    if not operand.type.tensor:
        return ()
    if not operand.dimensions:
        return dims
    declared = tuple(size or None for size in operand.dimensions)
    if dims is None:
        return declared
    if len(dims) != len(declared):
        raise ShapeError(f"rank {len(dims)} is declared as rank {len(declared)}")
    return tuple(unify(a, b) for a, b in zip(dims, declared, strict=True))


def static_shape(dims: Dims | None) -> Shape | None:
    """The shape if it is fully known, else None."""
    return None if dims is None or None in dims else tuple(size or 0 for size in dims)


def shape_input(value: object) -> ShapeOperand:
    """A value for shape inference; elements only of int32 tensors, which can hold shapes."""
    if not isinstance(value, np.ndarray):
        return None
    if value.ndim == 0:
        scalar: bool | int | float = value.item()
        return scalar
    return Tensor(value.shape, value if value.dtype == np.int32 else None)


def timed_operation(
    step: ScheduledStep,
    operands: Sequence[Operand],
    values: Arrays,
    start_ns: int,
) -> TimedOperation:
    """Return the measurement of a step that began at `start_ns` and ends now.

    values  arrays of the run by operand; None for constants
    """
    end = time.perf_counter_ns()
    operation = step.op.operation
    tensors = (i for i in {*step.inputs, *step.outputs} if operands[i].type.tensor)
    size = sum(_bytes_of(operands[i], values[i]) for i in tensors)
    return TimedOperation(operation.spec.name, operation.origin, size, start_ns, end)


def _bytes_of(operand: Operand, value: Array | None) -> int:
    """Return the size of a tensor; 0 for omitted operands."""
    if value is not None:
        return value.nbytes
    return 0 if operand.value is Omitted.NO_VALUE else operand.size * operand.type.numpy.itemsize
