"""Validation of whole models by the rules of ANeuralNetworksModel_finish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heapify, heappop, heappush

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL
from ep_nnapi.nnapi.control_flow import check_control_flow
from ep_nnapi.nnapi.errors import Reject, SpecError
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Model, Operand, Operation, Requirements
from ep_nnapi.nnapi.operand import check_operand

_MAX_DEPTH = 64
"""Limit for nested submodels: well above real models, well below the recursion limit."""


def validate(model: Model, feature_level: int) -> None:
    """Raise SpecError unless `model` is legal at `feature_level`; the message names the cause.

    Operations may be in any order that `execution_order` can sort.
    """
    _Validator(feature_level).check(model)


def required_level(model: Model) -> int:
    """Return the lowest feature level at which `model` is legal; raise SpecError if none is."""
    return _Validator(HIGHEST_LEVEL).check(model).level


def check_operation(operation: Operation, operands: Sequence[Operand], feature_level: int) -> int:
    """Return the feature level `operation` needs, by ANeuralNetworksModel_addOperation's rules.

    Raises SpecError if an index is out of range, if the operands do not match the spec row at
    `feature_level`, or if operands of IF or WHILE do not match the submodels.
    """
    _check_indexes(operation, operands)
    try:
        match = operation.match(operands, feature_level)
    except Reject as reject:
        raise SpecError(reject.detail) from reject
    check_control_flow(operation, operands)
    return match.level


def _check_indexes(operation: Operation, operands: Sequence[Operand]) -> None:
    for index in (*operation.inputs, *operation.outputs):
        if not 0 <= index < len(operands):
            raise SpecError(f"{operation.spec} names operand {index} of {len(operands)}")


def execution_order(model: Model) -> tuple[int, ...]:
    """Indexes of the operations in topological order; of those ready, the lowest index first.

    Raises SpecError if the operations have a cycle.
    Cost: O((operations + operands read) log operations).
    """
    producer = {i: n for n, op in enumerate(model.operations) for i in op.outputs}
    in_order = all(
        producer.get(i, -1) < n for n, op in enumerate(model.operations) for i in op.inputs
    )
    if in_order:  # as the models of this package are
        return tuple(range(len(model.operations)))
    waits = [{producer[i] for i in op.inputs if i in producer} for op in model.operations]
    readers: list[list[int]] = [[] for _ in waits]
    for n, sources in enumerate(waits):
        for source in sources:
            readers[source].append(n)
    ready = [n for n, sources in enumerate(waits) if not sources]
    heapify(ready)
    order: list[int] = []
    while ready:
        n = heappop(ready)
        order.append(n)
        for reader in readers[n]:
            waits[reader].discard(n)
            if not waits[reader]:
                heappush(ready, reader)
    if len(order) < len(waits):
        stuck = sorted(set(range(len(waits))) - set(order))
        named = ", ".join(f"{n} ({model.operations[n].spec})" for n in stuck[:8])
        raise SpecError(f"operations form a cycle: {named}")
    return tuple(order)


@frozen
class _Validator:
    """Validation of a model and its submodels, each of them once."""

    feature_level: int

    def check(self, model: Model, depth_above: int = 0) -> Requirements:
        """Check a model nested in `depth_above` others; raises SpecError."""
        for found in model.validated:
            if found.level <= self.feature_level:
                return found
        found = self._check(model, depth_above)
        model.validated.append(found)
        return found

    def _check(self, model: Model, depth_above: int) -> Requirements:
        if not model.operations:
            raise SpecError("a model takes at least one operation")
        levels = [check_operand(i, o, self.feature_level) for i, o in enumerate(model.operands)]
        depth = 0
        for index, operand in enumerate(model.operands):
            if isinstance(operand.value, Model):
                _check_depth(depth_above + 1)
                with _inside(f"in the model of operand {index}"):
                    inner = self.check(operand.value, depth_above + 1)
                levels.append(inner.level)
                depth = max(depth, inner.depth + 1)
        _check_depth(depth)
        _check_ends(model)
        levels += (self._check_operation(model, n) for n in range(len(model.operations)))
        _check_writers(model)
        execution_order(model)
        return Requirements(max(levels), depth)

    def _check_operation(self, model: Model, n: int) -> int:
        operation = model.operations[n]
        try:
            _check_indexes(operation, model.operands)
            match = model.match(n, self.feature_level)
            check_control_flow(operation, model.operands)
        except (Reject, SpecError) as error:
            detail = error.detail if isinstance(error, Reject) else error
            raise SpecError(f"operation {n}: {detail}") from error
        return match.level


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise SpecError(f"models are nested more than {_MAX_DEPTH} deep")


@contextmanager
def _inside(where: str) -> Iterator[None]:
    """Prefix the messages of SpecErrors raised in the block with `where`."""
    try:
        yield
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from error


def _check_ends(model: Model) -> None:
    """Raise SpecError unless inputs and outputs are distinct operands without a value."""
    seen: dict[int, str] = {}
    for kind, indexes in (("input", model.inputs), ("output", model.outputs)):
        for index in indexes:
            if not 0 <= index < len(model.operands):
                raise SpecError(
                    f"model {kind} {index} is no operand, there are {len(model.operands)}"
                )
            if index in seen:
                raise SpecError(f"operand {index} is listed as {seen[index]} and again as {kind}")
            if model.operands[index].value is not None:
                raise SpecError(f"operand {index} has a value and is listed as {kind}")
            seen[index] = kind


def _check_writers(model: Model) -> None:
    """Raise SpecError unless each operand without a value is an input or written exactly once."""
    writer: dict[int, int] = {}
    given = set(model.inputs)
    for n, operation in enumerate(model.operations):
        for index in operation.outputs:
            what = "is an input" if index in given else "has a value"
            if index in given or model.operands[index].value is not None:
                raise SpecError(f"operation {n} writes operand {index}, which {what}")
            if index in writer:
                raise SpecError(f"operations {writer[index]} and {n} both write operand {index}")
            writer[index] = n
    for index, operand in enumerate(model.operands):
        if operand.value is None and index not in writer and index not in given:
            raise SpecError(f"operand {index} is never written")
