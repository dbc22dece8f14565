"""Conversion of NNAPI models to LiteRT flatbuffers, and the operations that can be converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ep_nnapi.litert.flat_graph import FlatGraph
from ep_nnapi.litert.lowering import LOWERINGS
from ep_nnapi.litert.operation import FlatOp
from ep_nnapi.litert.ports import Port, enter, leave
from ep_nnapi.litert.scope import TensorScope
from ep_nnapi.nnapi.host.named_operation import NamedOperation, named_operations
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.shapes import Dims, ShapeError
from ep_nnapi.nnapi.validate import execution_order
from ep_nnapi.ort_devices.convert import FEATURE_LEVEL, operand_dims
from ep_nnapi.ort_devices.scope import Inexpressible


def obstacles(model: Model) -> tuple[str, ...]:
    """For each operation, the reason why LiteRT does not compute it exactly; "" if it does."""
    operations = named_operations(model, FEATURE_LEVEL)
    dims = operand_dims(model, operations)
    return tuple(_obstacle(model, dims, named) for named in operations)


def _obstacle(model: Model, dims: Mapping[int, Dims], named: NamedOperation) -> str:
    scope = TensorScope(FlatGraph(), model, {**dims})
    try:
        for index in named.operation.inputs:
            if model.operands[index].value is None:
                own = scope.described(index, signed=scope.own_form(index))
                scope.define(index, scope.graph.tensor(own))
        _lower(scope, named)
        for index in named.operation.outputs:
            scope.value(index)
    except (Inexpressible, ShapeError) as reason:
        return str(reason)
    return ""


def _lower(scope: TensorScope, named: NamedOperation) -> None:
    spec = named.operation.spec
    lowering = LOWERINGS.get((spec, named.code)) or LOWERINGS.get((spec, None))
    if lowering is None:
        raise Inexpressible(f"LiteRT has no {spec} of {named.code.name if named.code else None}")
    lowering(FlatOp(scope, named))


def convert(
    model: Model, inputs: Sequence[Port] | None = None, outputs: Sequence[Port] | None = None
) -> bytearray:
    """The flatbuffer of a model.

    inputs, outputs   names, types and layouts of its inputs and outputs; default: i0, i1, … and
                      o0, o1, … as they are in the model
    Raises Inexpressible or ShapeError if an operation has an obstacle.
    """
    operations = named_operations(model, FEATURE_LEVEL)
    scope = TensorScope(FlatGraph(), model, operand_dims(model, operations))
    given = _ports(scope, model.inputs, "i") if inputs is None else inputs
    named = enter(scope, given)
    for n in execution_order(model):
        _lower(scope, operations[n])
    wanted = _ports(scope, model.outputs, "o") if outputs is None else outputs
    return scope.graph.build(named, leave(scope, wanted))


def _ports(scope: TensorScope, indexes: Sequence[int], prefix: str) -> list[Port]:
    return [
        Port(f"{prefix}{n}", np.dtype(scope.operand(i).type.numpy), scope.shape(i), n)
        for n, i in enumerate(indexes)
    ]
