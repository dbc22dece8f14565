"""JSON serialization of an NNAPI model and its border; input is validated as untrusted data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ep_nnapi.graph.value import Array, DType
from ep_nnapi.lowering.border import Border, Crossing
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import (
    ChannelQuantization,
    Data,
    Model,
    Omitted,
    Operand,
    Operation,
)
from ep_nnapi.nnapi.spec import BY_NAME

ALIGNMENT = 64  # bytes: a cache line, and enough for any SIMD load


@dataclass
class ConstantPool:
    """The distinct constants in the order in which they are written.

    size  bytes of all constants, each padded to `ALIGNMENT`
    """

    arrays: list[Array] = field(default_factory=list)
    size: int = 0
    _found: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, data: Array) -> tuple[int, int]:
        """Adds a constant unless present; returns offset and size of its bytes in the pool."""
        if id(data) not in self._found:
            self._found[id(data)] = (self.size, data.size)
            self.arrays.append(data)
            self.size += data.size + (-data.size % ALIGNMENT)
        return self._found[id(data)]


def model_to_json(model: Model, pool: ConstantPool) -> dict[str, Any]:
    """Returns a model as JSON-serializable data; its constants are added to `pool`."""
    return {
        "operands": [_operand_to_json(o, pool) for o in model.operands],
        "operations": [
            [op.spec.name, list(op.inputs), list(op.outputs), list(op.origin)]
            for op in model.operations
        ],
        "inputs": list(model.inputs),
        "outputs": list(model.outputs),
        "relaxed": model.relaxed,
    }


def _operand_to_json(operand: Operand, pool: ConstantPool) -> list[Any]:
    value: object = None
    if isinstance(operand.value, Data):
        value = pool.add(operand.value.bytes)
    elif isinstance(operand.value, Model):
        value = model_to_json(operand.value, pool)
    elif operand.value is not None:
        value = "omitted"
    channels = operand.channels and [operand.channels.dim, list(operand.channels.scales)]
    name, dims = operand.type.name, list(operand.dimensions)
    return [name, dims, operand.scale, operand.zero_point, channels, value]


def model_from_json(found: Mapping[str, Any], weights: Array) -> Model:
    """Returns the model that `model_to_json` serialized, with constants as views of `weights`.

    Raises KeyError, TypeError, ValueError, OverflowError or RecursionError for malformed data.
    """
    return Model(
        tuple(_operand_from_json(o, weights) for o in found["operands"]),
        tuple(
            Operation(BY_NAME[name], _ints(ins), _ints(outs), tuple(map(str, origin)))
            for name, ins, outs, origin in found["operations"]
        ),
        _ints(found["inputs"]),
        _ints(found["outputs"]),
        bool(found["relaxed"]),
    )


def _operand_from_json(found: Sequence[Any], weights: Array) -> Operand:
    name, dims, scale, zero, channels, value = found
    quantized = channels and ChannelQuantization(
        int(channels[0]), tuple(float(s) for s in channels[1])
    )
    code = OperandCode[name]
    return Operand(
        code,
        _ints(dims),
        float(scale),
        int(zero),
        quantized or None,
        _value_from_json(value, weights),
    )


def _value_from_json(value: object, weights: Array) -> Data | Omitted | Model | None:
    if value is None:
        return None
    if value == "omitted":
        return Omitted.NO_VALUE
    if isinstance(value, dict):
        return model_from_json(value, weights)
    if not isinstance(value, list):
        raise TypeError(f"an operand's value is {value!r}")
    offset, size = _ints(value)
    if offset < 0 or size < 0 or offset + size > weights.size:
        raise ValueError("a constant lies outside of the weights")
    return Data(weights[offset : offset + size])


def _ints(found: Sequence[Any]) -> tuple[int, ...]:
    if not all(type(i) is int for i in found):
        raise TypeError(f"{found!r} are no integers")
    return tuple(found)


def crossing_to_json(c: Crossing) -> list[Any]:
    """Returns a tensor's crossing of the border as JSON-serializable data."""
    perm = None if c.perm is None else list(c.perm)
    shape, held = list(c.shape), list(c.nnapi_shape)
    return [c.name, int(c.dtype), shape, c.operand, perm, held, c.nnapi_dtype.str]


def crossing_from_json(found: Sequence[Any]) -> Crossing:
    """Returns the crossing that `crossing_to_json` serialized; raises as `model_from_json`."""
    name, dtype, shape, operand, perm, held, nnapi_dtype = found
    if not isinstance(nnapi_dtype, str) or np.dtype(nnapi_dtype).hasobject:
        raise TypeError(f"{nnapi_dtype!r} is no element type")
    return Crossing(
        str(name),
        DType(dtype),
        _ints(shape),
        int(operand),
        None if perm is None else _ints(perm),
        _ints(held),
        np.dtype(nnapi_dtype),
    )


def check_border(border: Border, model: Model) -> None:
    """Raises ValueError unless every crossing matches its operand's shape, type and layout."""
    sides: tuple[tuple[Sequence[Crossing], Sequence[int]], ...] = (
        (border.inputs, model.inputs),
        (border.outputs, model.outputs),
    )
    for crossings, indexes in sides:
        if {c.operand for c in crossings} != set(range(len(indexes))):
            raise ValueError("the border does not fit the model")
        for c in crossings:
            operand = model.operands[indexes[c.operand]]
            fits = (
                c.nnapi_shape == operand.dimensions
                and c.nnapi_dtype == operand.type.numpy
                and prod(c.shape) == prod(c.nnapi_shape)
                and (c.perm is None or sorted(c.perm) == list(range(len(c.shape))))
            )
            if not fits:
                raise ValueError(f"{c.name} does not fit its operand")
