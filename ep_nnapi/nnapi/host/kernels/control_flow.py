"""Kernels of IF and WHILE, which run referenced models."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.concurrent_runs import Run, missed_deadline
from ep_nnapi.nnapi.host.kernel import Types, stored
from ep_nnapi.nnapi.shapes.operands import ShapeError

if TYPE_CHECKING:
    from ep_nnapi.nnapi.host.prepared_graph import PreparedGraph


def if_(
    condition: Array,
    then_model: PreparedGraph,
    else_model: PreparedGraph,
    inputs: tuple[object, ...] = (),
    *,
    types: Types,
    run: Run,
) -> tuple[Array, ...]:
    """Returns the outputs of the branch selected by `condition`."""
    branch = then_model if condition.item() else else_model
    return tuple(branch.run(_arrays(inputs, types), (), run))


def while_(
    condition_model: PreparedGraph,
    body_model: PreparedGraph,
    inputs: tuple[object, ...],
    *,
    types: Types,
    run: Run,
) -> tuple[Array, ...]:
    """Runs the body on its own results while the condition model returns true.

    inputs   loop-carried outputs and state, which the body updates, then loop-invariant inputs
    Raises RuntimeFailure (MISSED_DEADLINE_TRANSIENT) when the loop exceeds its timeout.
    Source: NDK ANEURALNETWORKS_WHILE, ANeuralNetworksExecution_setLoopTimeout.
    """
    began = time.monotonic_ns()
    values = _arrays(inputs, types)
    while condition_model.run(values, (), run)[0].item():
        if time.monotonic_ns() - began > run.loop_timeout_ns:
            raise missed_deadline(f"WHILE ran longer than {run.loop_timeout_ns} ns")
        run.check()
        changed = body_model.run(values, (), run)
        values = (*changed, *values[len(changed) :])
    # copies: a loop of no iterations would otherwise return the caller's own arrays
    return tuple(_copied(value) for value in values[: len(types.many("outputs"))])


def _arrays(inputs: tuple[object, ...], types: Types) -> tuple[Array | None, ...]:
    """Returns the inputs of a referenced model; scalars become arrays of rank 0."""
    if not inputs:
        return ()
    return tuple(
        None if value is None else np.asarray(value, operand.type.numpy)
        for value, operand in zip(inputs, types.many("inputs"), strict=True)
    )


def _copied(value: Array | None) -> Array:
    if value is None:
        raise ShapeError("an input is omitted that a loop of no iterations returns")
    return value.copy()


KERNELS = (stored(spec.IF, if_), stored(spec.WHILE, while_))
