"""Operations that need no session: constants alone decide their results, or these are empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host.named_operation import NamedOperation
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.nnapi.shapes import Dims, ShapeError
from ep_nnapi.nnapi.validate import execution_order
from ep_nnapi.ort_devices.lowering import find

_SMALL = 1 << 16
"""Bytes of constants of an operation that is computed here."""

Inference = Callable[[Model], Mapping[int, Dims]]
"""Sizes of the operands of a model."""


def folded(model: Model, operations: list[NamedOperation], inference: Inference) -> Model:
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
    dims = inference(model)
    return _with_constants(model, dict(_empty(model, dims)))


def _is_unlowered(named: NamedOperation) -> bool:
    return find(named.operation.spec, named.code) is None


def _reads_constants(model: Model, n: int) -> bool:
    values = [model.operands[i].value for i in model.operations[n].inputs]
    data = [value for value in values if isinstance(value, Data)]
    return len(data) == len(values) and sum(each.bytes.size for each in data) <= _SMALL


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


def _empty(model: Model, dims: Mapping[int, Dims]) -> Iterator[tuple[int, Operand]]:
    """Outputs of operations all of whose outputs have known sizes, and no elements."""
    for operation in model.operations:
        found = [dims.get(index, (None,)) for index in operation.outputs]
        shapes = [tuple(size for size in each if size is not None) for each in found]
        if all(0 in shape and len(shape) == len(f) for shape, f in zip(shapes, found, strict=True)):
            for index, shape in zip(operation.outputs, shapes, strict=True):
                operand = model.operands[index]
                yield index, _constant(operand, np.zeros(shape, operand.type.numpy))


def _constant(operand: Operand, array: Array) -> Operand:
    return replace(operand, dimensions=array.shape, value=Data.of(array))


def _with_constants(model: Model, known: Mapping[int, Operand]) -> Model:
    operands = tuple(known.get(i, operand) for i, operand in enumerate(model.operands))
    left = tuple(o for o in model.operations if not all(i in known for i in o.outputs))
    return replace(model, operands=operands, operations=left, composites=())
