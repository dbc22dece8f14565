"""Operands of an NNAPI model as ONNX values: layouts, number formats and shapes.

An operand has one or more ONNX values, which differ in two respects:

perm    the value is the operand transposed by this permutation. Convolutions take NCHW in ONNX. The
        result of one stays in NCHW, and a transpose is added only where a reader needs another
        layout; so none stands between two convolutions.
real    real numbers in float32, or the elements as stored. Float16 is computed in float32, and
        stored elements of TENSOR_QUANT8_ASYMM_SIGNED are uint8, with a zero point greater by 128:
        ONNX Runtime's kernels for uint8 are at least as fast on all processors, and exact on all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Composite, Data, Model, Operand
from ep_nnapi.nnapi.shapes.operands import Dims
from ep_nnapi.nnapi.sizes import Size
from ep_nnapi.ort_devices.graph import Inexpressible, OnnxGraph, require

Perm: TypeAlias = tuple[int, ...]
Shape: TypeAlias = tuple[int, ...]
TO_NCHW: Perm = (0, 3, 1, 2)
TO_NHWC: Perm = (0, 2, 3, 1)

Q8, Q8S = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
_HALVES = (OperandCode.TENSOR_FLOAT16, OperandCode.FLOAT16)
_FLIP = np.uint8(128)


def zero_point(operand: Operand) -> int:
    """Zero point of the elements as these devices store them."""
    return operand.zero_point + (128 if operand.type is Q8S else 0)


def is_coded(operand: Operand) -> bool:
    """True for 8-bit quantized tensors that are computed on."""
    return operand.type in (Q8, Q8S)


def converted(array: Array, code: OperandCode) -> Array:
    """An operand's elements as these devices store them."""
    if code in _HALVES:
        return array.astype(np.float32)
    return array.view(np.uint8) ^ _FLIP if code is Q8S else array


@lru_cache(256)
def identity(rank: int) -> Perm:
    """The permutation that changes nothing."""
    return tuple(range(rank))


@lru_cache(256)
def inverse(perm: Perm) -> Perm:
    """The permutation that undoes `perm`."""
    return tuple(perm.index(i) for i in range(len(perm)))


def composed(first: Perm, second: Perm) -> Perm:
    """The permutation of `x.transpose(first).transpose(second)`."""
    return tuple(first[i] for i in second)


class OperandFacts:
    """Types and shapes of the operands of a model that is being lowered.

    dims   sizes of the operands whose ranks are known, None for a size that only a run finds
    """

    __slots__ = ()
    model: Model
    dims: dict[int, Dims]

    def shape(self, index: int) -> Shape:
        """Shape of an operand; raises Inexpressible if it is unknown or has no elements."""
        found = self.dims.get(index, (None,))
        sizes = tuple([size for size in found if size])
        if len(sizes) < len(found):
            require(None not in found, f"the shape of operand {index} is unknown")
            raise Inexpressible(f"operand {index} has no elements")
        return sizes

    def rank(self, index: int) -> int:
        """Rank of an operand; raises Inexpressible if it is unknown or there are no elements."""
        found = self.dims.get(index)
        if found is None:
            raise Inexpressible(f"the shape of operand {index} is unknown")
        if 0 in found:
            raise Inexpressible(f"operand {index} has no elements")
        return len(found)

    def operand(self, index: int) -> Operand:
        """The operand of that index."""
        return self.model.operands[index]

    def constant(self, index: int) -> bool:
        """True if the operand is a constant of the model."""
        return isinstance(self.operand(index).value, Data)

    def axes(self, index: int, rank: int) -> Shape:
        """The axes in a constant operand, sorted; none if it is not constant."""
        if not self.constant(index):
            return ()
        return tuple(sorted(int(axis) % rank for axis in self.operand(index).array.reshape(-1)))


@dataclass(slots=True)
class Scope(OperandFacts):
    """Operands of a model in an ONNX graph."""

    graph: OnnxGraph
    model: Model
    dims: dict[int, Dims]
    _values: dict[int, dict[tuple[Perm, bool], str]] = field(default_factory=dict)
    numbers: dict[int, str] = field(default_factory=dict)
    _composites: dict[int, list[Composite]] = field(default_factory=dict)

    def composites_of(self, index: int) -> Sequence[Composite]:
        """The composites that read an operand."""
        if not self._composites:
            for composite in self.model.composites:
                for index_read in dict.fromkeys(p.operand for p in composite.inputs if p):
                    if isinstance(index_read, int):
                        self._composites.setdefault(index_read, []).append(composite)
        return self._composites.get(index, ())

    def perms(self, index: int) -> list[Perm]:
        """The layouts in which an operand that is not constant is available."""
        return [perm for perm, _ in self._values.get(index, {})]

    def has(self, index: int, perm: Perm) -> bool:
        """True if an operand is available in the layout `perm`."""
        return perm in self.perms(index)

    def layout(self, index: int) -> Perm:
        """A layout in which an operand needs no transpose: its own one, if it is available."""
        plain, found = identity(self.rank(index)), self.perms(index)
        return plain if plain in found or not found else found[0]

    def define(self, index: int, value: str, perm: Perm | None = None, *, real: bool) -> None:
        """Record the ONNX value of an operand."""
        at = identity(self.rank(index)) if perm is None else perm
        self._values.setdefault(index, {})[at, real or not is_coded(self.operand(index))] = value
        sizes = [size for size in self.dims.get(index, ()) if size]
        if len(sizes) == len(at):
            self.graph.shapes.setdefault(value, permuted(sizes, at))

    def value(self, index: int, perm: Perm | None = None, *, real: bool) -> str:
        """The ONNX value of an operand in a layout, as real numbers or as stored.

        Adds nodes where there is none yet.
        """
        operand = self.operand(index)
        at = identity(self.rank(index)) if perm is None else perm
        real = real or not is_coded(operand)
        known = self._values.setdefault(index, {})
        if (at, real) not in known:
            known[at, real] = self._made(index, at, real=real)
        return known[at, real]

    def _made(self, index: int, perm: Perm, *, real: bool) -> str:
        operand, known = self.operand(index), self._values[index]
        if isinstance(operand.value, Data):
            if real and is_coded(operand):
                return self._dequantized(self.value(index, perm, real=False), operand)
            return self._constant(operand, perm)
        if (perm, not real) in known:
            other = known[perm, not real]
            return self._dequantized(other, operand) if real else self.quantized(other, operand)
        require(bool(known), f"operand {index} is not computed")
        alike = [have for have, is_real in known if is_real == real]
        have = (*alike, *(have for have, _ in known))[0]
        between = self.value(index, have, real=real)  # converted in the layout there is
        return self.graph.node("Transpose", between, perm=composed(inverse(have), perm))

    def owned(self, operand: Operand) -> str:
        """A constant that only a composite has, as these devices store it."""
        return self._constant(operand, identity(len(operand.dimensions)))

    def define_number(self, index: int, value: str) -> None:
        """Record the ONNX value of an operand [1] by one of rank 0."""
        self.numbers[index] = value
        self.define(index, self.graph.reshape(value, (1,)), real=False)

    def _constant(self, operand: Operand, perm: Perm) -> str:
        if isinstance(operand.value, Data) and operand.value.numbers:
            return self._computed(operand.value.numbers, operand, perm)

        def make() -> Array:
            return converted(operand.elements, operand.type).transpose(perm)

        return self.graph.constants.lazy((id(operand.value), perm, operand.type), make)

    def _computed(self, numbers: Sequence[int], operand: Operand, perm: Perm) -> str:
        """Integers some of which only a run knows."""
        require(perm == identity(len(perm)), "sizes are transposed")
        dtype = helper.np_dtype_to_tensor_dtype(operand.type.numpy)
        value = self.graph.cast(self.graph.ints(numbers), dtype, exact_from=TensorProto.INT64)
        self.graph.shapes[value] = (len(numbers),)
        return self.graph.reshape(value, operand.dimensions or ())

    def stacked(self, indexes: Sequence[int], zeros: int = 0) -> str:
        """Constant operands one below the other, then that many zeros, after an axis of size 1."""
        operands = [self.operand(index) for index in indexes]

        def make() -> Array:
            parts = [converted(o.array, o.type) for o in operands]
            return np.concatenate([*parts, np.zeros(zeros, np.float32)] if zeros else parts)[None]

        key = ("stacked", *(id(o.value) for o in operands), zeros)
        return self.graph.constants.lazy(key, make)

    def _dequantized(self, value: str, operand: Operand) -> str:
        return self.graph.node("DequantizeLinear", value, *self.quantization(operand))

    def quantized(self, value: str, operand: Operand) -> str:
        """Quantize real numbers to an operand's type, as these devices store it."""
        return self.graph.node("QuantizeLinear", value, *self.quantization(operand))

    def quantization(self, operand: Operand) -> tuple[str, str]:
        """Names of the constants that hold an operand's scale and zero point."""
        constants = self.graph.constants
        return (
            constants.array(np.array(operand.scale, np.float32)),
            constants.array(np.array(zero_point(operand), np.uint8)),
        )

    def declare(self, index: int, name: str) -> ValueInfoProto:
        """The declaration of an operand in a graph's inputs or outputs, with its own type."""
        dtype = helper.np_dtype_to_tensor_dtype(self.operand(index).type.numpy)
        dims = self.dims.get(index)
        declared = dims and [str(d.expression) if isinstance(d, Size) else d for d in dims]
        return helper.make_tensor_value_info(name, dtype, declared)

    def enter(self, index: int, name: str) -> None:
        """Define an operand by an input of the graph, which has the operand's own type."""
        self.graph.sizes.enter(name, self.dims.get(index, ()))
        code = self.operand(index).type
        if code in _HALVES:
            name = self.graph.node("Cast", name, to=TensorProto.FLOAT)
        elif code is Q8S:
            name = self.as_unsigned(name)
        self.define(index, name, real=False)

    def leave(self, index: int) -> str:
        """The value of an operand in the operand's own type, for an output of the graph."""
        if self.constant(index):
            constant = self.graph.constants.array(self.operand(index).array)
            return self.graph.node("Identity", constant)
        value, code = self.value(index, real=False), self.operand(index).type
        if code in _HALVES:
            return self.graph.node("Cast", value, to=TensorProto.FLOAT16)
        if code is Q8S:
            return self.graph.node("Cast", self._flipped(value), to=TensorProto.INT8)
        return self.graph.output(value)

    def as_unsigned(self, value: str) -> str:
        """Numbers in int8 as uint8, greater by 128."""
        return self._flipped(self.graph.node("Cast", value, to=TensorProto.UINT8))

    def _flipped(self, value: str) -> str:
        """Stored numbers with the highest bit flipped: int8 to uint8 and back."""
        return self.graph.node("BitwiseXor", value, self.graph.constants.array(np.array(_FLIP)))


def permuted(sizes: Sequence[int], perm: Perm) -> Shape:
    """Sizes of a tensor after it is transposed."""
    return tuple([sizes[i] for i in perm])
