"""Measuring single operations of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.host.execution_plan import ScheduledStep
from ep_nnapi.nnapi.model import Omitted, Operand
from ep_nnapi.nnapi.runtime import TimedOperation


@contextmanager
def timed(
    step: ScheduledStep,
    operands: Sequence[Operand],
    values: Sequence[Array | None],
    on_operation: Callable[[TimedOperation], None],
) -> Iterator[None]:
    """Measure the block, which runs `step`, and pass the result on; not if it fails.

    values  arrays of the run by operand; None for constants
    """
    start = time.perf_counter_ns()
    yield
    end = time.perf_counter_ns()
    operation = step.op.operation
    size = sum(_bytes_of(operands[i], values[i]) for i in {*step.inputs, *step.outputs})
    on_operation(TimedOperation(operation.spec.name, operation.origin, size, start, end))


def _bytes_of(operand: Operand, value: Array | None) -> int:
    """Return the size of a tensor; 0 for scalars and omitted operands."""
    if not operand.type.tensor or operand.value is Omitted.NO_VALUE:
        return 0
    shape = operand.dimensions if value is None else value.shape
    return prod(shape) * operand.type.numpy.itemsize
