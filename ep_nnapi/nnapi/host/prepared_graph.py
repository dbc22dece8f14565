"""Prepared models: kernel binding, constant folding and execution."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.codes import FINISH, OperandCode, ResultCode, failure
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS, Run
from ep_nnapi.nnapi.host.execution_plan import (
    ExecutionPlan,
    ScheduledStep,
    Shape,
    infer_step,
    plan_execution,
    shape_input,
    static_shape,
    timed_operation,
)
from ep_nnapi.nnapi.host.kernel import NamedOperation, named_operations, without_data
from ep_nnapi.nnapi.host.kernel_call import as_array, bind
from ep_nnapi.nnapi.host.kernels.table import find
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.runtime import RunOptions, check_output, delivered
from ep_nnapi.nnapi.shapes.operands import ShapeError, ShapeOperand, Tensor
from ep_nnapi.nnapi.validate import execution_order

_MAX_PLANS = 8
"""Number of plans, one per set of input shapes, that a model caches."""

_MAX_FOLDED_BYTES = 1 << 24
"""Size limit, in bytes, of constant-folded results, in addition to four times the bytes that the
step reads: dequantizing 8-bit constants to float32 needs that much."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """Options and shared state for preparing a model and its submodels.

    emulate_float16   float32 results are rounded to float16, as the relaxed flag allows
    """

    feature_level: int
    emulate_float16: bool = False
    _graphs: dict[int, PreparedGraph] = field(default_factory=dict)

    def graph(self, model: Model) -> PreparedGraph:
        """Return `model` prepared; a submodel used several times is prepared once."""
        if id(model) not in self._graphs:
            self._graphs[id(model)] = PreparedGraph(model, self)
        return self._graphs[id(model)]


class PreparedGraph:
    """A model ready to run, with weights packed once for the kernels.

    Each set of input shapes has a plan: the memory that temporaries share, and the steps to skip.
    Thread-safe: concurrent executions have separate blocks of memory.

    steps   the operations that are not constant-folded, in execution order
    """

    def __init__(self, model: Model, preparation: Preparing) -> None:
        """Bind kernels and fold constants."""
        self._emulate_float16 = preparation.emulate_float16
        self._operands = without_data(model.operands)
        self.steps: list[ScheduledStep] = []
        self._inputs, self._outputs = model.inputs, model.outputs
        with _no_warnings():
            constants = self._bind(model, preparation)
        self._shape_inputs = {i: shape_input(value) for i, value in constants.items()}
        self._plans: dict[tuple[Shape | None, ...], ExecutionPlan] = {}

    def _bind(self, model: Model, preparation: Preparing) -> dict[int, object]:
        """Add the steps; returns all constants, including constant-folded results."""
        constants = {i: self._constant(o, preparation) for i, o in enumerate(model.operands)}
        constants = {i: value for i, value in constants.items() if value is not None}
        operations = named_operations(model, preparation.feature_level, self._operands)
        outputs = frozenset(model.outputs)
        for n in execution_order(model):
            step = _step(operations[n], constants)
            inside = outputs.isdisjoint(step.outputs)
            folded = self._fold(step, constants) if inside else None
            if folded is None:
                self.steps.append(step)
            else:
                constants.update(zip(step.outputs, folded, strict=True))
        return constants

    def _constant(self, operand: Operand, preparation: Preparing) -> object:
        if isinstance(operand.value, Model):
            return preparation.graph(operand.value)
        if not isinstance(operand.value, Data):
            return None
        return self._rounded(operand.array, operand)

    def _rounded(self, array: Array, operand: Operand) -> Array:
        if self._emulate_float16 and operand.type is OperandCode.TENSOR_FLOAT32:
            return array.astype(np.float16).astype(np.float32)
        return array

    def _fold(self, step: ScheduledStep, constants: Mapping[int, object]) -> list[Array] | None:
        """Fold a step: its outputs if all inputs are constants; None if not, or if it fails.

        Outputs of unknown shape count as one element.
        """
        if not all(isinstance(constants.get(i), np.ndarray) for i in step.inputs):
            return None
        values = {i: as_array(constants[i]) for i in step.inputs}
        operands = [self._operands[i] for i in step.outputs]
        try:
            facts = {i: shape_input(value) for i, value in values.items()}
            shapes = [*map(static_shape, infer_step(step, self._operands, facts.__getitem__))]
            places = [*zip(shapes, operands, strict=True)]
            size = sum(prod(shape or ()) * o.type.numpy.itemsize for shape, o in places)
            if size > _MAX_FOLDED_BYTES + 4 * sum(value.nbytes for value in values.values()):
                return None
            outs = [_destination(None, shape, operand) for shape, operand in places]
            results = step.bound(values, outs, Run())
            return [self._rounded(r, o) for r, o in zip(results, operands, strict=True)]
        except ShapeError:  # the run reports it
            return None

    def execute(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> list[Array]:
        """Run the model, as `device.PreparedModel`."""
        with CONCURRENT_RUNS, _no_warnings():
            return self.run(inputs, outputs, Run.start(options))

    def run(self, inputs: Arrays, outputs: Arrays, run: Run) -> list[Array]:
        """Run the steps and return the outputs; `run` may be that of an enclosing model.

        Raises ShapeError, or RuntimeFailure if the run's deadline has passed.
        """
        plan = self._plan(inputs)
        borrowed = plan.acquire(self._operands)
        values: list[Array | None] = [None] * len(self._operands)
        for i, array in borrowed.items():
            values[i] = array
        for i, given in zip(self._inputs, inputs, strict=True):
            values[i] = None if given is None else self._rounded(given, self._operands[i])
        for i, out in zip(self._outputs, outputs, strict=False):
            values[i] = out
        try:
            ended = time.perf_counter_ns() if run.on_operation else 0
            for n, step in enumerate(self.steps):
                if n not in plan.skipped:
                    run.check()
                    self._run_step(step, values, plan, run)
                    if run.on_operation:
                        # Each begins where the one before ended: no time of the run is left out.
                        done = timed_operation(step, self._operands, values, ended)
                        ended = done.end_ns
                        run.on_operation(done)
                    for i in plan.releases[n]:
                        values[i] = None
        finally:
            plan.release(borrowed)
        return [_present(values[i]) for i in self._outputs]

    def _plan(self, inputs: Arrays) -> ExecutionPlan:
        """The plan for inputs of these shapes, cached; concurrent runs may compute it twice."""
        key = tuple(None if a is None else a.shape for a in inputs)
        found = self._plans.get(key)
        if found is None:
            given = {
                i: None if shape is None else Tensor(shape)
                for i, shape in zip(self._inputs, key, strict=True)
            }
            found = plan_execution(
                self.steps, self._operands, {**given, **self._shape_inputs}, self._outputs
            )
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = found
        return found

    def _run_step(
        self, step: ScheduledStep, values: list[Array | None], plan: ExecutionPlan, run: Run
    ) -> None:
        """Execute one operation and store its outputs in `values`."""
        shapes = [plan.shapes.get(i) for i in step.outputs]
        if None in shapes:
            shapes = self._shapes(step, values)
        source = values[step.inputs[0]] if step.view else None  # None also for a constant
        if source is not None and shapes[0] is not None and step.outputs[0] not in self._outputs:
            values[step.outputs[0]] = source.reshape(shapes[0])
            return
        outs = [
            _destination(values[i], shape, self._operands[i])
            for i, shape in zip(step.outputs, shapes, strict=True)
        ]
        results = step.bound(values, outs, run)
        for i, result in zip(step.outputs, results, strict=True):
            values[i] = self._store_result(result, values[i], self._operands[i])

    def _shapes(self, step: ScheduledStep, values: Arrays) -> list[Shape | None]:
        """Infer the outputs' shapes at run time, when all inputs have values."""

        def fact(index: int) -> ShapeOperand:
            known, value = self._shape_inputs.get(index), values[index]
            return known if known is not None or value is None else shape_input(value)

        return [static_shape(dims) for dims in infer_step(step, self._operands, fact)]

    def _store_result(self, result: Array, given: Array | None, operand: Operand) -> Array:
        """Copy a result to the caller's array, if any, and round it if float16 is emulated."""
        result = delivered(result, given)
        if self._emulate_float16:
            np.copyto(result, self._rounded(result, operand))
        return result


def _no_warnings() -> np.errstate:
    """Disable numpy warnings: NNAPI follows IEEE 754, so infinity and NaN are valid results."""
    return np.errstate(all="ignore")


def _step(op: NamedOperation, constants: Mapping[int, object]) -> ScheduledStep:
    kernel = find(op.operation.spec, op.code)
    if kernel is None:
        code = "these types" if op.code is None else op.code.name
        raise failure(
            FINISH,
            ResultCode.BAD_DATA,
            f"nnapi-reference has no {op.operation.spec} of {code}",
        )
    return ScheduledStep(op, bind(kernel, op, constants), kernel.view)


def _destination(given: Array | None, shape: Shape | None, operand: Operand) -> Array | None:
    """The destination array of an output; None if its shape is unknown."""
    if shape is None:
        return None
    check_output(given, shape)
    return np.empty(shape, operand.type.numpy) if given is None else given


def _present(value: Array | None) -> Array:
    if value is None:
        raise ShapeError("an optional operand is omitted whose value the run needs")
    return value
