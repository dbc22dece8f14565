"""Inputs and outputs of a flatbuffer: ONNX tensors, where those of the NNAPI model differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ep_nnapi.litert.flat_graph import FlatGraph, Tensor
from ep_nnapi.litert.scope import TensorScope, is_signed, parameters
from ep_nnapi.ort_devices.scope import Perm, inverse, is_coded, permuted


@dataclass(frozen=True, slots=True)
class Port:
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

    def outside(self, scope: TensorScope, index: int) -> Tensor:
        """The tensor in the flatbuffer for the operand `index`."""
        found = parameters(scope.operand(index), signed=self.signed(scope, index))
        return Tensor(self.dtype, self.shape, found)


def enter(scope: TensorScope, ports: Sequence[Port]) -> dict[str, int]:
    """Add the inputs, and define the operands that they become; returns the tensors by name.

    A name may occur twice, for operands in two layouts.
    """
    named: dict[str, int] = {}
    for port in ports:
        index = scope.model.inputs[port.operand]
        signed = port.signed(scope, index)
        if port.name not in named:
            named[port.name] = scope.graph.tensor(port.outside(scope, index), port.name)
        value = _transposed(scope.graph, named[port.name], port.perm)
        wanted = scope.described(index, signed=signed)
        scope.define(index, _like(scope.graph, value, wanted), signed=signed)
    return named


def leave(scope: TensorScope, ports: Sequence[Port]) -> dict[str, int]:
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
            value = _transposed(scope.graph, value, inverse(port.perm))
        value = _like(scope.graph, value, wanted)
        if value in named.values():
            value = _copied(scope.graph, value)
        scope.graph.rename(value, port.name)
        named[port.name] = value
    return named


def _transposed(graph: FlatGraph, value: int, perm: Perm | None) -> int:
    if perm is None:
        return value
    given = graph.tensors[value]
    made = graph.tensor(replace(given, shape=permuted(given.shape, perm)))
    graph.operator("TRANSPOSE", [value, graph.ints(perm)], [made], ("Transpose", {}))
    return made


def _like(graph: FlatGraph, value: int, wanted: Tensor) -> int:
    """The tensor with the type and the shape that are wanted."""
    given = graph.tensors[value]
    if given.dtype != wanted.dtype:
        made = graph.tensor(replace(given, dtype=wanted.dtype, parameters=None))
        graph.operator("CAST", [value], [made])
        value = made
    return value if given.shape == wanted.shape else _copied(graph, value, wanted.shape)


def _copied(graph: FlatGraph, value: int, shape: Iterable[int] | None = None) -> int:
    given = graph.tensors[value]
    sizes = given.shape if shape is None else tuple(shape)
    made = graph.tensor(replace(given, shape=sizes))
    fields = {"newShape": list(sizes)}
    graph.operator("RESHAPE", [value, graph.ints(sizes)], [made], ("Reshape", fields))
    return made
