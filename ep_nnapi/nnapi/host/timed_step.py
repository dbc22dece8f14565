"""Measuring single operations of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from math import prod

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.execution_plan import ScheduledStep
from ep_nnapi.nnapi.model import Omitted, Operand
from ep_nnapi.nnapi.runtime import TimedOperation


def timed_operation(
    step: ScheduledStep,
    operands: Sequence[Operand],
    values: Sequence[Array | None],
    start_ns: int,
) -> TimedOperation:
    """Return the measurement of a step that began at `start_ns` and ends now.

    values  arrays of the run by operand; None for constants
    """
    end = time.perf_counter_ns()
    operation = step.op.operation
    size = sum(_bytes_of(operands[i], values[i]) for i in {*step.inputs, *step.outputs})
    return TimedOperation(operation.spec.name, operation.origin, size, start_ns, end)


def _bytes_of(operand: Operand, value: Array | None) -> int:
    """Return the size of a tensor; 0 for scalars and omitted operands."""
    if value is not None:
        return value.nbytes if value.ndim or operand.type.tensor else 0
    return _constant_bytes(operand.type, operand.dimensions, operand.value is Omitted.NO_VALUE)


@lru_cache(maxsize=4096)
def _constant_bytes(type_: OperandCode, dimensions: tuple[int, ...], omitted: bool) -> int:
    return 0 if omitted or not type_.tensor else prod(dimensions) * type_.numpy.itemsize
