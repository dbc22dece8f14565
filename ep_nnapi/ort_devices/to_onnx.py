"""Conversion of NNAPI models to ONNX models, and the operations that can be converted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from onnx import ValueInfoProto

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reject, RuntimeFailure
from ep_nnapi.nnapi.host.execution_plan import merged
from ep_nnapi.nnapi.host.kernel import NamedOperation, mapped, named_operations
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.model import Composite, Data, Model, Operand
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import Dims, Pending, ShapeError, ShapeOperand, Tensor
from ep_nnapi.nnapi.sizes import plain
from ep_nnapi.nnapi.validate import execution_order
from ep_nnapi.ort_devices.composites import RULES, wholes
from ep_nnapi.ort_devices.graph import Built, Inexpressible, OnnxGraph
from ep_nnapi.ort_devices.lowering import find
from ep_nnapi.ort_devices.opened import Latest
from ep_nnapi.ort_devices.operation import PORTABLE, Kernels, Op
from ep_nnapi.ort_devices.scope import Scope

_SMALL = 1 << 16
"""Bytes of constants of an operation that is computed here."""


def folded(model: Model, operations: list[NamedOperation]) -> Model:
    """Return a model without such operations, whose outputs are constants in it.

    Only operations that have no form in ONNX are computed.
    """
    known: dict[int, Operand] = {}
    for n in execution_order(model):
        if _is_unlowered(operations[n]) and _reads_constants(model, n):
            known |= _computed(model, n)
    if not known:
        return model
    model = _with_constants(model, known)
    return _with_constants(model, dict(_empty(model)))


def _is_unlowered(named: NamedOperation) -> bool:
    return find(named.operation.spec, named.code) is None


def _reads_constants(model: Model, n: int) -> bool:
    values = [model.operands[i].value for i in model.operations[n].inputs]
    data = [value for value in values if isinstance(value, Data)]
    return len(data) == len(values) and sum(each.size for each in data) <= _SMALL


def _computed(model: Model, n: int) -> dict[int, Operand]:
    """The outputs of an operation as nnapi-reference computes them; none if it refuses."""
    operation = model.operations[n]
    alone = replace(
        model, operations=(operation,), inputs=(), outputs=operation.outputs, composites=()
    )
    try:
        prepared = ReferenceDevice().prepare(alone, CompileOptions(precise=True))
        results = prepared.execute((), (), RunOptions())
    except (RuntimeFailure, ShapeError):  # nnapi-reference reports it where it runs the model
        return {}
    pairs = zip(operation.outputs, results, strict=True)
    return {index: _constant(model.operands[index], result) for index, result in pairs}


def _empty(model: Model) -> Iterator[tuple[int, Operand]]:
    """Outputs of operations all of whose outputs have known sizes, and no elements."""
    dims = operand_dims(model, named_operations(model, FEATURE_LEVEL, model.operands))
    for operation in model.operations:
        found = [dims.get(index, (None,)) for index in operation.outputs]
        shapes = [tuple(size for size in each if size is not None) for each in found]
        if all(0 in shape and len(shape) == len(f) for shape, f in zip(shapes, found, strict=True)):
            for index, shape in zip(operation.outputs, shapes, strict=True):
                operand = model.operands[index]
                yield index, _constant(operand, np.zeros(plain(shape), operand.type.numpy))


def _constant(operand: Operand, array: Array) -> Operand:
    return replace(operand, dimensions=array.shape, value=Data.of(array))


def _with_constants(model: Model, known: Mapping[int, Operand]) -> Model:
    operands = tuple(known.get(i, operand) for i, operand in enumerate(model.operands))
    left = tuple(o for o in model.operations if not all(i in known for i in o.outputs))
    return replace(model, operands=operands, operations=left, composites=())


FEATURE_LEVEL = 8
"""The feature level of the devices on ONNX Runtime."""


@frozen
class WholeModel:
    """A whole model lowered, without its weights."""

    model: Model
    kernels: Kernels
    scope: Scope
    inputs: list[ValueInfoProto]
    outputs: list[ValueInfoProto]


def obstacles(
    model: Model, kernels: Kernels = PORTABLE, latest: Latest[WholeModel] | None = None
) -> tuple[str, ...]:
    """For each operation, the reason why ONNX Runtime does not compute it exactly; "" if it does.

    latest   is given the lowered model, to be asked about again and converted as a rule
    Weights are not read.
    """
    latest = latest or Latest()
    known = latest.of(model)
    try:
        if known is None or known.kernels != kernels:
            latest.keep(model, _lower_model(model, kernels))
    except (Inexpressible, ShapeError):
        every = named_operations(model, FEATURE_LEVEL, model.operands)
        dims = operand_dims(model, every)
        return tuple(_obstacle(model, dims, named, kernels) for named in every)
    return ("",) * len(model.operations)


def _obstacle(
    model: Model, dims: Mapping[int, Dims], named: NamedOperation, kernels: Kernels
) -> str:
    scope = Scope(OnnxGraph(), model, {**dims})
    try:
        for index in named.operation.inputs:
            if model.operands[index].value is None:
                scope.shape(index)
                scope.define(index, scope.graph.name(), real=False)
        _lower(scope, named, kernels)
        for index in named.operation.outputs:
            scope.shape(index)
    except (Inexpressible, ShapeError) as reason:
        return str(reason)
    return ""


def convert(
    model: Model, kernels: Kernels = PORTABLE, latest: Latest[WholeModel] | None = None
) -> Built:
    """The ONNX model, with inputs and outputs in the order of the NNAPI model's.

    latest   of `obstacles`, from which the model is taken if it is there

    Raises Inexpressible or ShapeError unless all operations are supported.
    """
    lowered = latest.take(model) if latest is not None else None
    if lowered is None or lowered.kernels != kernels:
        lowered = _lower_model(model, kernels)
    return lowered.scope.graph.build(lowered.inputs, lowered.outputs)


def _lower_model(given: Model, kernels: Kernels) -> WholeModel:
    operations = named_operations(given, FEATURE_LEVEL, given.operands)
    model = folded(given, operations)
    if model is not given:
        operations = named_operations(model, FEATURE_LEVEL, model.operands)
    scope = Scope(OnnxGraph(), model, operand_dims(model, operations))
    inputs: list[ValueInfoProto] = []
    for n, index in enumerate(model.inputs):
        scope.shape(index)
        inputs.append(scope.declare(index, f"input{n}"))
        scope.enter(index, f"input{n}")
    for value, numbers in zip(reversed(inputs), reversed(model.contents), strict=False):
        scope.graph.sizes.enter_contents(value.name, numbers)
    _lower_all(scope, operations, kernels)
    outputs = [scope.declare(index, scope.leave(index)) for index in model.outputs]
    return WholeModel(given, kernels, scope, inputs, outputs)


def _lower_all(scope: Scope, operations: Sequence[NamedOperation], kernels: Kernels) -> None:
    groups = tuple(wholes(scope, kernels)) if kernels.fused else ()
    first = {_first(scope.model, g.composite): g for g in groups}
    inside = {n for g in groups for n in g.composite.members}
    for n in execution_order(scope.model):
        if n in first:
            RULES[first[n].composite.name].lower(first[n])
        elif n not in inside:
            _lower(scope, operations[n], kernels)


def _first(model: Model, composite: Composite) -> int:
    """The first member that computes one of the outputs, before which all inputs are there."""
    outputs = {port.operand for port in composite.outputs if port is not None}
    writes = ((n, model.operations[n].outputs) for n in composite.members)
    return next(n for n, written in writes if not outputs.isdisjoint(written))


def _lower(scope: Scope, named: NamedOperation, kernels: Kernels) -> None:
    lowering = find(named.operation.spec, named.code)
    if lowering is None:
        raise Inexpressible(f"{named.operation.spec} of {named.code.name if named.code else None}")
    lowering(Op(scope, named, kernels))


def operand_dims(model: Model, operations: Sequence[NamedOperation]) -> dict[int, Dims]:
    """Sizes of the operands, as far as they follow from declarations and constants."""
    if model.checked and all(operand.known for operand in model.operands):
        return {i: operand.dimensions for i, operand in enumerate(model.operands)}
    found = {i: dims for i, o in enumerate(model.operands) if (dims := _declared(o)) is not None}
    for named in (operations[n] for n in execution_order(model)):
        facts = mapped(named.inputs, lambda i: _fact(model.operands[i], found.get(i)))
        try:
            inferred = infer(named.operation.spec, facts, len(named.operation.outputs))
        except (ShapeError, Reject):  # the operation is declined for lack of its output's shape
            for index in named.operation.outputs:
                found.pop(index, None)
            continue
        for index, each in zip(named.operation.outputs, inferred, strict=True):
            try:
                sizes = merged(each, model.operands[index])
            except ShapeError:
                found.pop(index, None)
                continue
            if sizes is not None:
                found[index] = sizes
    return found


def _declared(operand: Operand) -> Dims | None:
    """The declared sizes, None for an unknown one; None if the rank is unknown."""
    if operand.known or isinstance(operand.value, Data):
        return operand.dimensions
    return tuple(size or None for size in operand.dimensions) or None


def _fact(operand: Operand, dims: Dims | None) -> ShapeOperand:
    """The facts of an operand from which shapes are inferred."""
    if isinstance(operand.value, Data) and not operand.value.later:
        if operand.type.tensor:
            return Tensor.of(operand.elements, operand.value.numbers)
        return operand.item
    if not operand.type.tensor:
        return Pending.PENDING
    return Tensor(dims)
