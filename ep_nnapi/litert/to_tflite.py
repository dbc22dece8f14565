"""Conversion of NNAPI models to LiteRT flatbuffers, and the operations that can be converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ep_nnapi.litert.composites import builtin, lower
from ep_nnapi.litert.flat_graph import FlatGraph, Split
from ep_nnapi.litert.flat_operator import FlatTensor
from ep_nnapi.litert.lowering import LOWERINGS
from ep_nnapi.litert.operation import FlatLowering, FlatOp, TensorScope, is_signed, parameters
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernel import NamedOperation, named_operations
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.shapes.operands import Dims, ShapeError
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import Size
from ep_nnapi.nnapi.spec import F16, F32
from ep_nnapi.nnapi.validate import execution_order
from ep_nnapi.ort_devices.graph import Inexpressible, require
from ep_nnapi.ort_devices.scope import Perm, inverse, is_coded, permuted
from ep_nnapi.ort_devices.to_onnx import FEATURE_LEVEL, operand_dims


@dataclass(frozen=True, slots=True)
class FlatPort:
    """One input or output.

    dtype, shape   of the tensor in the flatbuffer
    operand        position among the NNAPI model's inputs or outputs
    perm           axis i of the operand is axis `perm[i]` of the tensor; None: the same layout
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    operand: int
    perm: Perm | None = None

    def signed(self, scope: TensorScope, index: int) -> bool:
        """True if the tensor of a quantized operand is int8."""
        if is_coded(scope.operand(index)):
            return self.dtype == np.int8
        return is_signed(scope.operand(index).type)

    def outside(self, scope: TensorScope, index: int) -> FlatTensor:
        """The tensor in the flatbuffer for the operand `index`."""
        found = parameters(scope.operand(index), signed=self.signed(scope, index))
        return FlatTensor(self.dtype, self.shape, found)


def enter(scope: TensorScope, ports: Sequence[FlatPort]) -> dict[str, int]:
    """Add the inputs, and define the operands that they become; returns the tensors by name.

    A name may occur twice, for operands in two layouts.
    """
    named: dict[str, int] = {}
    for port in ports:
        index = scope.model.inputs[port.operand]
        signed = port.signed(scope, index)
        if port.name not in named:
            named[port.name] = scope.graph.tensor(port.outside(scope, index), port.name)
            scope.graph.sizes.enter(named[port.name], port.shape)
        value = named[port.name]
        if port.perm is not None:
            value = scope.graph.transposed(value, port.perm)
        wanted = scope.described(index, signed=signed)
        scope.define(index, _like(scope.graph, value, wanted), signed=signed)
    return named


def leave(scope: TensorScope, ports: Sequence[FlatPort]) -> dict[str, int]:
    """Add what the outputs need; returns the tensors by name. Several may be of one operand."""
    named: dict[str, int] = {}
    for port in ports:
        index = scope.model.outputs[port.operand]
        signed = port.signed(scope, index)
        value = scope.value(index, signed=signed)
        wanted = port.outside(scope, index)
        if port.perm is not None:
            inner = replace(scope.graph.tensors[value], shape=permuted(port.shape, port.perm))
            value = _like(scope.graph, value, inner)
            value = scope.graph.transposed(value, inverse(port.perm))
        value = _like(scope.graph, value, wanted)
        if value in named.values():
            value = _copied(scope.graph, value)
        scope.graph.rename(value, port.name)
        named[port.name] = value
    return named


def _like(graph: FlatGraph, value: int, wanted: FlatTensor) -> int:
    """The tensor with the type and the shape that are wanted."""
    given = graph.tensors[value]
    if given.dtype != wanted.dtype:
        made = graph.tensor(replace(given, dtype=wanted.dtype, parameters=None))
        graph.operator("CAST", [value], [made])
        value = made
    return value if given.shape == wanted.shape else graph.reshaped(value, wanted.shape)


def _copied(graph: FlatGraph, value: int) -> int:
    return graph.reshaped(value, graph.tensors[value].shape)


def _if(op: FlatOp) -> None:
    """Runs one of two submodels. Source: NDK ANEURALNETWORKS_IF."""
    inputs = [op.scope.value(i) for i in op.indexes("inputs")]
    fields = {
        "thenSubgraphIndex": _submodel(op, "then_model", inputs),
        "elseSubgraphIndex": _submodel(op, "else_model", inputs),
    }
    outputs = [op.scope.computed(i) for i in op.indexes("outputs")]
    op.graph.operator("IF", [op.tensor("condition"), *inputs], outputs, fields)


def _while(op: FlatOp) -> None:
    """Runs a submodel on its own results while another one returns true.

    LiteRT's returns all that it is given: also the state, and what no run of the submodel changes.
    There is no limit of time. Source: NDK ANEURALNETWORKS_WHILE.
    """
    inputs = [op.scope.value(i) for i in op.indexes("inputs")]
    fields = {
        "condSubgraphIndex": _submodel(op, "condition_model", inputs),
        "bodySubgraphIndex": _submodel(op, "body_model", inputs, returns_rest=True),
    }
    outputs = [op.scope.computed(i) for i in op.indexes("outputs")]
    rest = [op.graph.tensor(op.graph.tensors[i]) for i in inputs[len(outputs) :]]
    op.graph.operator("WHILE", inputs, [*outputs, *rest], fields)


def _submodel(op: FlatOp, name: str, given: Sequence[int], *, returns_rest: bool = False) -> int:
    """Add a graph of a submodel; returns its number.

    given          tensors that it will be given
    returns_rest   True if it also returns the inputs that have no output in their place
    """
    model = op.operand(name).value
    assert isinstance(model, Model)
    graph, number = op.graph.inner()
    operations = named_operations(model, FEATURE_LEVEL)
    scope = TensorScope(graph, model, operand_dims(model, operations))
    try:
        for index, outer in zip(model.inputs, given, strict=True):
            wanted = scope.described(index, signed=scope.own_form(index))
            alike = wanted == op.graph.tensors[outer]
            require(alike, f"operand {index} has another type or shape than what it is given")
            graph.inputs.append(scope.entered(index))
        _lower_all(scope, operations)
        graph.outputs += [_apart(graph, scope.value(index)) for index in model.outputs]
    except (Inexpressible, ShapeError) as reason:
        raise Inexpressible(f"in {name}, {reason}") from None
    if returns_rest:
        graph.outputs += graph.inputs[len(graph.outputs) :]
    return number


def _apart(graph: FlatGraph, value: int) -> int:
    """The tensor, or a copy of one that is an input or output already, or a constant."""
    return _copied(graph, value) if graph.is_end(value) else value


_CONTROL_FLOW: Mapping[OperationSpec, FlatLowering] = {spec.IF: _if, spec.WHILE: _while}


def obstacles(model: Model) -> tuple[str, ...]:
    """For each operation, the reason why LiteRT does not compute it exactly; "" if it does."""
    operations = named_operations(model, FEATURE_LEVEL)
    dims = operand_dims(model, operations)
    every = [size for known in dims.values() for size in known if isinstance(size, Size)]
    opened = {size.expression: size for size in every}
    return tuple(_obstacle(model, dims, named, tuple(opened.values())) for named in operations)


def _obstacle(
    model: Model, dims: Mapping[int, Dims], named: NamedOperation, opened: tuple[int, ...]
) -> str:
    """The reason of one operation; `opened`: sizes that the whole model's tensors have."""
    scope = TensorScope(FlatGraph(), model, {**dims})
    scope.graph.sizes.enter(scope.graph.vector(len(opened)), opened)
    try:
        for index in named.operation.inputs:
            if model.operands[index].value is None:
                scope.computed(index)
        _lower(scope, named)
        for index in named.operation.outputs:
            scope.value(index)
    except (Inexpressible, ShapeError) as reason:
        return str(reason)
    return ""


def _lower(scope: TensorScope, named: NamedOperation) -> None:
    found = lowering(named.operation.spec, named.code)
    if found is None:
        of = f" of {named.code.name}" if named.code else ""
        raise Inexpressible(f"LiteRT has no {named.operation.spec}{of}")
    found(FlatOp(scope, named))


def lowering(row: OperationSpec, code: OperandCode | None) -> FlatLowering | None:
    """The lowering of an operation for a type of its signature's type variable T, if it has one."""
    of = F32 if code is F16 else code
    return LOWERINGS.get((row, of)) or LOWERINGS.get((row, None)) or _CONTROL_FLOW.get(row)


def _lower_all(scope: TensorScope, operations: Sequence[NamedOperation]) -> None:
    every = [(c, found) for c in scope.model.composites if (found := builtin(scope, c))]
    last = {c.members[-1]: (c, found) for c, found in every}
    inside = {n for c, _ in every for n in c.members}
    for n in execution_order(scope.model):
        if n in last:
            lower(scope, *last[n])
        elif n not in inside:
            _lower(scope, operations[n])


def convert(
    model: Model,
    inputs: Sequence[FlatPort] | None = None,
    outputs: Sequence[FlatPort] | None = None,
) -> memoryview:
    """The flatbuffer of a model.

    inputs, outputs   names, types and layouts of its inputs and outputs; default: i0, i1, … and
                      o0, o1, … as they are in the model
    Raises Inexpressible or ShapeError if an operation has an obstacle.
    """
    return FlatGraph.build(*_lowered(model, inputs, outputs))


def convert_split(
    model: Model,
    inputs: Sequence[FlatPort] | None = None,
    outputs: Sequence[FlatPort] | None = None,
) -> Split:
    """The same without weights, which may lie anywhere behind the flatbuffer, in one file with it.

    So programs of several kinds can share them.
    """
    return FlatGraph.split(*_lowered(model, inputs, outputs))


def _lowered(
    model: Model, inputs: Sequence[FlatPort] | None, outputs: Sequence[FlatPort] | None
) -> tuple[FlatGraph, dict[str, int], dict[str, int]]:
    operations = named_operations(model, FEATURE_LEVEL)
    scope = TensorScope(FlatGraph(), model, operand_dims(model, operations))
    given = _ports(scope, model.inputs, "i") if inputs is None else inputs
    named = enter(scope, given)
    _lower_all(scope, operations)
    wanted = _ports(scope, model.outputs, "o") if outputs is None else outputs
    return scope.graph, named, leave(scope, wanted)


def _ports(scope: TensorScope, indexes: Sequence[int], prefix: str) -> list[FlatPort]:
    return [
        FlatPort(f"{prefix}{n}", np.dtype(scope.operand(i).type.numpy), scope.shape(i), n)
        for n, i in enumerate(indexes)
    ]
