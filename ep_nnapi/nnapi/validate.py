"""Validation of models by the rules of ANeuralNetworksModel_finish, operand by operand first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import heapify, heappop, heappush

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, OperandCode
from ep_nnapi.nnapi.errors import Reject, SpecError
from ep_nnapi.nnapi.expressions import Expression
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Data, Model, Operand, Operation, Requirements
from ep_nnapi.nnapi.sizes import Size, is_symbolic

UNKNOWN_RANK_LEVEL = 3
"""Feature level that introduced tensors of unknown rank."""

MAX_BYTES = 2**32 - 1
"""Largest operand, in bytes: lengths are 32-bit in the NDK."""

ZERO_POINTS: Mapping[OperandCode, range] = {
    OperandCode.TENSOR_QUANT8_ASYMM: range(256),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: range(-128, 128),
    OperandCode.TENSOR_QUANT16_ASYMM: range(65536),
}
"""Legal zero points by type; other types have none."""
_NO_ZERO_POINTS = range(1)
_MODEL, _BIAS = OperandCode.MODEL, OperandCode.TENSOR_INT32
_PER_CHANNEL = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL


def check_operand(index: int, operand: Operand, feature_level: int) -> int:
    """Return the feature level `operand` needs; raise SpecError if illegal at `feature_level`.

    Source: NeuralNetworksTypes.h, OperandCode and ANeuralNetworksOperandType.
    """
    level = operand.type.level
    if operand.type.tensor and not operand.dimensions:
        level = max(level, UNKNOWN_RANK_LEVEL)
    if level > feature_level:
        raise _illegal(
            operand, index, f"needs feature level {level}, the target has {feature_level}"
        )
    check_type(operand, index)
    check_value(operand, index)
    return level


def check_type(operand: Operand, index: int | None = None) -> None:
    """Raise SpecError unless dimensions, scale and zero point are legal for the type.

    Dimensions may be unknown. Source: NeuralNetworks.h, ANeuralNetworksModel_addOperand.
    """
    check_shape(operand, index)
    _check_scale(operand, index)
    zero_points = ZERO_POINTS.get(operand.type, _NO_ZERO_POINTS)
    if operand.zero_point not in zero_points:
        takes = f"{zero_points[0]} to {zero_points[-1]}" if len(zero_points) > 1 else "0"
        raise _illegal(operand, index, f"has zero point {operand.zero_point}, it takes {takes}")


def describe(operand: Operand, index: int | None = None) -> str:
    """Type and shape: "TENSOR_FLOAT32 [1, 0, 4]", unknown rank as "[?]"; after an index, if any."""
    if index is not None:
        return f"operand {index} ({describe(operand)})"
    if not operand.type.tensor:
        return operand.type.name
    return f"{operand.type.name} {list(operand.dimensions) or '[?]'}"


def _illegal(operand: Operand, index: int | None, what: str) -> SpecError:
    return SpecError(f"{describe(operand, index)} {what}")


def check_shape(operand: Operand, index: int | None = None) -> None:
    """Raise SpecError for dimensions of a scalar, and for those of more than 4 GB."""
    if not operand.type.tensor:
        if operand.dimensions:
            what = f"is a scalar with dimensions {list(operand.dimensions)}"
            raise _illegal(operand, index, what)
        return
    size = operand.type.numpy.itemsize
    passed, key = None, None
    if is_symbolic(operand.dimensions):
        passed = next(d.trace.passed for d in operand.dimensions if isinstance(d, Size))
        key = size, tuple(map(Expression.of, operand.dimensions))
        if key in passed:
            return
    for dim in operand.dimensions:
        if dim < 0:
            raise _illegal(operand, index, "has a negative dimension")
        size *= dim or 1
    if size > MAX_BYTES:
        raise _illegal(operand, index, f"takes more than {MAX_BYTES} bytes")
    if passed is not None:
        passed[key] = None


def _check_scale(operand: Operand, index: int | None) -> None:
    scale, code = operand.scale, operand.type
    if code is _BIAS:
        legal, takes = scale >= 0, "a scale >= 0"
    elif code.quantized and code is not _PER_CHANNEL:
        legal, takes = scale > 0, "a scale > 0"
    else:
        legal, takes = scale == 0, "none"
    if not legal:
        raise _illegal(operand, index, f"has scale {scale:g}, it takes {takes}")


def check_value(operand: Operand, index: int | None = None) -> None:
    """Raise SpecError unless the value is one of the operand's type, and of its size."""
    _check_channels(operand, index)
    value = operand.value
    if isinstance(value, Model) != (operand.type is _MODEL):
        named = describe(operand, index)
        raise SpecError(f"{named}: models, and only models, are values of MODEL operands")
    if not isinstance(value, Data):
        return
    if not operand.known:
        raise _illegal(operand, index, "is a constant of unknown shape")
    wanted = operand.type.numpy.itemsize * operand.size
    if value.size != wanted:
        raise _illegal(operand, index, f"takes {wanted} bytes, its constant has {value.size}")


def _check_channels(operand: Operand, index: int | None) -> None:
    channels = operand.channels
    if operand.type is not _PER_CHANNEL:
        if channels is not None:
            raise _illegal(operand, index, "takes no scales per channel")
        return
    if channels is None:
        raise _illegal(operand, index, "has no scales per channel")
    if not 0 <= channels.dim < len(operand.dimensions):
        raise _illegal(operand, index, f"has scales along dimension {channels.dim}")
    count = operand.dimensions[channels.dim]
    if count != len(channels.scales) or count == 0:
        raise _illegal(operand, index, f"has {len(channels.scales)} scales for {count} channels")
    if not all(scale > 0 for scale in channels.scales):
        raise _illegal(operand, index, "has a scale that is not > 0")


def check_control_flow(operation: Operation, operands: Sequence[Operand]) -> None:
    """Raise SpecError if the operands of an IF or WHILE do not match its submodels.

    Other operations pass. The operation must already match its spec row.
    Source: ANEURALNETWORKS_IF, ANEURALNETWORKS_WHILE.
    """
    if operation.spec.name not in ("IF", "WHILE"):
        return
    inputs = [operands[i] for i in operation.inputs]
    outputs = [operands[i] for i in operation.outputs]
    if operation.spec.name == "IF":
        _check_condition("IF.condition", inputs[0])
        for name, branch in (("then_model", inputs[1]), ("else_model", inputs[2])):
            model = _submodel(f"IF.{name}", branch)
            _check_all(f"IF.{name} inputs", _ends(model, model.inputs), inputs[3:])
            _check_all(f"IF.{name} outputs", _ends(model, model.outputs), outputs)
    else:
        _check_while(inputs, outputs)


def _check_while(inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
    """Raise SpecError unless the submodels of a WHILE match its operands.

    Body inputs: loop outputs, internal state, constant inputs. Body outputs: the first two.
    """
    condition = _submodel("WHILE.condition_model", inputs[0])
    body = _submodel("WHILE.body_model", inputs[1])
    given = inputs[2:]
    _check_all("WHILE.condition_model inputs", _ends(condition, condition.inputs), given)
    if len(condition.outputs) != 1:
        raise SpecError(f"WHILE.condition_model has {len(condition.outputs)} outputs, it takes 1")
    _check_condition("WHILE.condition_model output", *_ends(condition, condition.outputs))
    taken, returned = _ends(body, body.inputs), _ends(body, body.outputs)
    _check_all("WHILE.body_model inputs", taken, given)
    if not len(outputs) <= len(returned) <= len(taken):
        raise SpecError(
            f"WHILE.body_model has {len(returned)} outputs, it takes {len(outputs)} to {len(taken)}"
        )
    _check_all("WHILE.body_model outputs", returned[: len(outputs)], outputs)
    _check_all("WHILE.body_model outputs", returned, taken[: len(returned)])


def _submodel(name: str, operand: Operand) -> Model:
    if not isinstance(operand.value, Model):
        raise SpecError(f"{name} has no model")
    return operand.value


def _ends(model: Model, indexes: Sequence[int]) -> list[Operand]:
    return [model.operands[i] for i in indexes]


def _check_condition(name: str, operand: Operand) -> None:
    if operand.type is not OperandCode.TENSOR_BOOL8 or operand.dimensions != (1,):
        raise SpecError(f"{name} is {describe(operand)}, it takes TENSOR_BOOL8 [1]")


def _check_all(name: str, inner: Sequence[Operand], outer: Sequence[Operand]) -> None:
    if len(inner) != len(outer):
        raise SpecError(f"{name}: the model has {len(inner)}, the operation has {len(outer)}")
    for n, (a, b) in enumerate(zip(inner, outer, strict=True)):
        if not compatible(a, b):
            raise SpecError(f"{name}: number {n} is {_quantized(a)} and must fit {_quantized(b)}")


def _quantized(operand: Operand) -> str:
    if operand.channels is not None:
        return f"{describe(operand)} with {operand.channels}"
    if operand.scale == 0:
        return describe(operand)
    return f"{describe(operand)} of scale {operand.scale:g} from {operand.zero_point}"


def compatible(a: Operand, b: Operand) -> bool:
    """Return True if types, quantization parameters and all known dimensions are equal."""
    if (a.type, a.scale, a.zero_point, a.channels) != (b.type, b.scale, b.zero_point, b.channels):
        return False
    if not a.dimensions or not b.dimensions:
        return True
    sizes = zip(a.dimensions, b.dimensions, strict=False)
    same_rank = len(a.dimensions) == len(b.dimensions)
    return same_rank and all(x == y or 0 in (x, y) for x, y in sizes)


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
    waiting = {*producer}
    for operation in model.operations:
        if not waiting.isdisjoint(operation.inputs):
            break
        waiting.difference_update(operation.outputs)
    else:  # they are in order, as in the models of this package
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
