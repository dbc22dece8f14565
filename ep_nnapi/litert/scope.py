"""Operands of an NNAPI model as LiteRT tensors, which have the same layouts: NHWC, OHWI.

An 8-bit quantized operand has one or two tensors, of uint8 and of int8, whose zero points differ
by 128: the same real numbers. Only the int8 kernels take weights with scales per channel, only the
uint8 kernels weights with a zero point. A QUANTIZE operator between both only flips a bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ep_nnapi.litert.flat_graph import FlatGraph, Parameters, Tensor
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.shapes import Dims
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, Q8, Q8C, Q8S, Q8Y
from ep_nnapi.ort_devices.scope import OperandFacts, is_coded, require

_KINDS = frozenset((F32, I32, BOOL8, Q8, Q8S, Q8C, Q8Y))
"""Types of operands that LiteRT computes with here."""
_FLIP = np.uint8(128)


def is_signed(code: OperandCode) -> bool:
    """True if elements of this type are int8."""
    return code in (Q8S, Q8C, Q8Y)


def stored(array: Array, code: OperandCode, *, signed: bool) -> Array:
    """An operand's elements as uint8 or int8; those of other types as they are."""
    if code not in (Q8, Q8S) or is_signed(code) == signed:
        return array
    flipped = array.view(np.uint8) ^ _FLIP
    return flipped.view(np.int8) if signed else flipped


@dataclass(slots=True)
class TensorScope(OperandFacts):
    """Operands of a model in a LiteRT graph."""

    graph: FlatGraph
    model: Model
    dims: dict[int, Dims]
    _values: dict[int, dict[bool, int]] = field(default_factory=dict)

    def described(self, index: int, *, signed: bool) -> Tensor:
        """Type, shape and quantization of the operand's tensor; Inexpressible for other types."""
        operand = self.operand(index)
        require(operand.type in _KINDS, f"LiteRT has no kernels for {operand.type.name}")
        dtype = operand.type.numpy
        if is_coded(operand):
            dtype = np.dtype(np.int8 if signed else np.uint8)
        return Tensor(dtype, self.shape(index), parameters(operand, signed=signed))

    def has(self, index: int, *, signed: bool) -> bool:
        """True if the operand has been computed as int8, or else as uint8."""
        return signed in self._values.get(index, {})

    def own_form(self, index: int) -> bool:
        """True if the operand's elements are int8 in NNAPI."""
        return is_signed(self.operand(index).type)

    def define(self, index: int, tensor: int, *, signed: bool | None = None) -> None:
        """Record the tensor of an operand."""
        self._values.setdefault(index, {})[self._form(index, signed)] = tensor

    def value(self, index: int, *, signed: bool | None = None) -> int:
        """The tensor of an operand, by default of its own type; adds a conversion if needed."""
        form = self._form(index, signed)
        known = self._values.setdefault(index, {})
        if form not in known:
            known[form] = self._made(index, signed=form)
        return known[form]

    def _form(self, index: int, signed: bool | None) -> bool:
        if signed is None or not is_coded(self.operand(index)):
            return self.own_form(index)
        return signed

    def _made(self, index: int, *, signed: bool) -> int:
        operand = self.operand(index)
        tensor = self.described(index, signed=signed)
        if isinstance(operand.value, Data):

            def load() -> Array:
                return stored(operand.array, operand.type, signed=signed)

            return self.graph.constant(tensor, (id(operand.value),), load)
        other = self._values[index].get(not signed)
        require(other is not None, f"operand {index} is not computed")
        made = self.graph.tensor(tensor)
        self.graph.operator("QUANTIZE", [other or 0], [made], ("Quantize", {}))
        return made


def parameters(operand: Operand, *, signed: bool) -> Parameters | None:
    """Quantization parameters of an operand's tensor of uint8 or int8; None if it has none."""
    if operand.channels is not None:
        return Parameters(operand.channels.scales, 0, operand.channels.dim)
    if not operand.scale:
        return None
    moved = 128 * (is_signed(operand.type) - signed) if is_coded(operand) else 0
    return Parameters((operand.scale,), operand.zero_point + moved)
