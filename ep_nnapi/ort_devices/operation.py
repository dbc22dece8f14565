"""One NNAPI operation as the lowerings to ONNX see it: operands by name, nodes to add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np
from onnx import TensorProto

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import FuseCode, OperandCode
from ep_nnapi.nnapi.host.kernel import NamedOperation
from ep_nnapi.nnapi.host.kernels.elementwise import activation_range
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.nnapi.shapes.operands import Scalar
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.sizes import Size, are_ones, now
from ep_nnapi.ort_devices.graph import CONTRIB, Attribute, Inexpressible, require
from ep_nnapi.ort_devices.scope import (
    OperandFacts,
    Perm,
    Scope,
    Shape,
    identity,
    is_coded,
    zero_point,
)


@frozen
class Kernels:
    """Kernels that some execution providers lack, or compute wrongly.

    int8_weights   quantized weights are int8, which is faster with VNNI and saturates without it;
                   else uint8
    fused          single nodes for sequences (LSTM, GRU) and for groups of operations, which
                   `fusions` finds; the CPU provider has kernels for all of them
    """

    int8_weights: bool = False
    fused: bool = False


_TENSORS = 7
"""With the other side of a node at most eight: WebGPU promises shaders so many buffers, and its
provider finds out at a run that it needs more."""

PORTABLE = Kernels()
"""What every provider computes right."""


class OperandAccess:
    """Access to the operands of an operation by name, for lowerings."""

    __slots__ = ()
    scope: OperandFacts
    named: NamedOperation

    def index(self, name: str) -> int:
        """Index of the operand of that name, an input or an output, which must not be repeated."""
        found = self.named.inputs.get(name, self.named.outputs.get(name))
        if not isinstance(found, int):
            raise Inexpressible(f"operand {name} is missing")
        return found

    def indexes(self, name: str) -> tuple[int, ...]:
        """Indexes of the operands of a repeated name, or of one."""
        found = self.named.inputs.get(name, self.named.outputs.get(name, ()))
        return found if isinstance(found, tuple) else (found,)

    def given(self, name: str) -> bool:
        """True if the optional operand `name` is given."""
        return name in self.named.inputs

    def operand(self, name: str) -> Operand:
        """Type and quantization of an operand."""
        return self.scope.operand(self.index(name))

    @property
    def coded(self) -> bool:
        """True if the output is an 8-bit quantized tensor."""
        return is_coded(self.operand("output"))

    def rank(self, name: str) -> int:
        """Rank of an operand."""
        return self.scope.rank(self.index(name))

    def shape(self, name: str) -> Shape:
        """Shape of an operand."""
        return self.scope.shape(self.index(name))

    def constant(self, name: str) -> Array:
        """Elements of a constant operand; Inexpressible if it is not constant."""
        return self._constant_operand(name).array

    def _constant_operand(self, name: str) -> Operand:
        """A constant operand; raises Inexpressible if it is not constant."""
        return _constant(name, self.operand(name))

    def ints(self, name: str) -> tuple[int, ...]:
        """Elements of a constant integer tensor in row-major order."""
        return self.sized(name) or tuple(int(i) for i in self.constant(name).reshape(-1))

    def sized(self, name: str) -> tuple[int, ...]:
        """The same of an operand of which some elements are a `Size`; () for any other."""
        value = self.operand(name).value
        return value.numbers if isinstance(value, Data) else ()

    def scalar(self, name: str, default: Scalar | None = None) -> Scalar:
        """Value of a constant scalar; `default` if it is left out."""
        if default is not None and not self.given(name):
            return default
        return self._constant_operand(name).item

    def scalars(self) -> dict[str, Scalar]:
        """All scalar operands by name."""
        given = self.named.inputs.items()
        read = [(name, self.scope.operand(i)) for name, i in given if isinstance(i, int)]
        scalars = [(name, operand) for name, operand in read if not operand.type.tensor]
        return {name: _constant(name, scalar).item for name, scalar in scalars}

    def number(self, name: str, default: int | None = None) -> int:
        """Value of a constant integer scalar."""
        found = self.scalar(name, default)
        return found if isinstance(found, Size) else int(found)

    def axis(self, name: str, rank: int, default: int | None = None) -> int:
        """Value of a scalar that names an axis, counted from the front."""
        axis = self.number(name, default)
        require(-rank <= axis < rank, f"axis {axis} of a tensor of rank {rank}")
        return axis % rank


def _constant(name: str, operand: Operand) -> Operand:
    """The operand; raises Inexpressible if it is not constant."""
    if not isinstance(operand.value, Data):
        raise Inexpressible(f"operand {name} is not constant")
    return operand


@frozen
class Op(OperandAccess):
    """An operation being lowered; `kernels`: what the provider has kernels for."""

    scope: Scope
    named: NamedOperation
    kernels: Kernels = PORTABLE

    def real(self, name: str, perm: Perm | None = None) -> str:
        """The ONNX value of an operand as float32 numbers (integers and booleans as they are)."""
        return self.scope.value(self.index(name), perm, real=True)

    def stored(self, name: str, perm: Perm | None = None) -> str:
        """The ONNX value of an operand's elements as these devices store them."""
        return self.scope.value(self.index(name), perm, real=False)

    def node(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        """Add an ONNX node with one output; returns the output's name."""
        return self.scope.graph.node(op_type, *inputs, domain="", **attributes)

    def reshape(self, value: str, sizes: Sequence[int]) -> str:
        """Return `value` in another shape, see `OnnxGraph.reshape`."""
        return self.scope.graph.reshape(value, sizes)

    def joined(self, parts: Sequence[str], axis: int) -> str:
        """Concatenate; of portable nodes none has more than `_TENSORS` inputs."""
        while len(parts) > _TENSORS and not self.kernels.fused:
            parts = [self.node("Concat", *parts[:_TENSORS], axis=axis), *parts[_TENSORS:]]
        return self.node("Concat", *parts, axis=axis)

    def divided(self, value: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Split into parts of these sizes; of portable nodes none has more than `_TENSORS`."""
        if len(sizes) <= _TENSORS or self.kernels.fused:
            graph = self.scope.graph
            return graph.many("Split", len(sizes), value, self.sizes(sizes), axis=axis)
        ends = zip(sizes, accumulate(sizes), strict=True)
        cuts = [([end - size], [end], [axis]) for size, end in ends]
        return [self.node("Slice", value, *map(self.sizes, cut)) for cut in cuts]

    def contrib(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        """Add a node of ONNX Runtime's own domain."""
        return self.scope.graph.node(op_type, *inputs, domain=CONTRIB, **attributes)

    def checked(self, value: str, conditions: Sequence[str], message: str) -> str:
        """Return `value`; a run fails with `message` unless the conditions' elements are all true.

        ONNX has no assertion: the value is gathered from a tensor that has it at index 0, and the
        index is 1 where a condition is false. The message is the node's name, which the error has.
        """
        wrong = self.array(0, np.int32)
        for condition in conditions:
            false = self.node("Cast", self.node("Not", condition), to=TensorProto.INT32)
            wrong = self.node("Max", wrong, self.node("ReduceMax", false, keepdims=0))
        only = self.node("Unsqueeze", value, self.sizes([0]))
        found = self.node("Gather", only, wrong, axis=0)
        self.scope.graph.nodes[-1].name = message
        return found

    def array(self, value: object, dtype: type[np.generic] = np.float32) -> str:
        """Name of a small constant."""
        return self.scope.graph.constants.array(np.array(value, dtype))

    def sizes(self, values: Sequence[int]) -> str:
        """Name of an int64 constant [n]: shapes, axes and the like."""
        return self.scope.graph.ints(values)

    def deliver(self, value: str, perm: Perm | None = None, output: str = "output") -> None:
        """Define an output by real numbers; a quantized one is quantized at once."""
        index = self.index(output)
        operand = self.scope.operand(index)
        if is_coded(operand):
            value = self.scope.quantized(value, operand)
        self.scope.define(index, value, perm, real=False)

    def keep(self, value: str, perm: Perm | None = None, output: str = "output") -> None:
        """Define an output by its elements as these devices store them."""
        self.scope.define(self.index(output), value, perm, real=False)

    def finish(self, value: str, perm: Perm | None = None) -> None:
        """Deliver real numbers after the operation's fused activation."""
        if not self.coded:
            value = self.activated(value)
            self.keep(value, perm)
            return
        self.clamp(self.scope.quantized(value, self.operand("output")), perm)

    def clamp(self, value: str, perm: Perm | None = None) -> None:
        """Deliver stored numbers after the fused activation, as a clip in the quantized range."""
        output = self.operand("output")
        zero = zero_point(output)
        low, high = (
            min(255.0, max(0.0, end / output.scale + zero))
            for end in activation_range(self.number("activation", FuseCode.NONE))
        )
        if (round(low), round(high)) != (0, 255):
            ends = (self.array(round(end), np.uint8) for end in (low, high))
            value = self.node("Clip", value, *ends)
        self.keep(value, perm)

    def activated(self, value: str) -> str:
        """Float or integer numbers after the operation's fused activation."""
        integers = self.operand("output").type.numpy.kind == "i"
        dtype = np.int32 if integers else np.float32
        return self.scope.graph.activated(value, self.number("activation", FuseCode.NONE), dtype)

    def layout(self, *names: str) -> Perm:
        """The layout in which an element-wise operation on these operands needs no transposes.

        Transposed layouts come from convolutions. One is kept if all of the largest operands that
        are not constant have the output's rank and this layout; smaller ones are transposed to it.
        """
        indexes = [i for name in names for i in self.indexes(name)]
        computed = self._largest([i for i in indexes if not self.scope.constant(i)])
        rank = max(self.scope.rank(i) for i in indexes)
        plain = identity(rank)
        if any(self.scope.rank(i) != rank or self.scope.has(i, plain) for i in computed):
            return plain
        return self.scope.layout(computed[0]) if computed else plain

    def _largest(self, indexes: Sequence[int]) -> list[int]:
        """Those of the operands that have the most elements, or that may have."""
        if len(indexes) < 2:
            return [*indexes]
        dims = {i: self.scope.dims.get(i) or () for i in indexes}
        sizes = {i: prod([now(n) if n else 0 for n in each]) for i, each in dims.items()}
        known = [size for size in sizes.values() if size]
        return [i for i, size in sizes.items() if size in (0, max(known, default=0))]

    def _number(self, index: int) -> str | None:
        """The value of rank 0 of an operand, unless all others have rank 0 as well."""
        others = (i for i in self.named.operation.inputs if self.scope.operand(i).type.tensor)
        numbers = self.scope.numbers
        return numbers.get(index) if any(i not in numbers for i in others) else None

    def broadcast(self, name: str, perm: Perm, *, real: bool = True) -> str:
        """An operand of an element-wise operation in the layout `perm` of its result."""
        index = self.index(name)
        shape = self.scope.shape(index)
        missing = len(perm) - len(shape)
        if perm == identity(len(perm)) or are_ones(shape):
            return self._number(index) or self.scope.value(index, real=real)
        if not missing:
            return self.scope.value(index, perm, real=real)
        value = self.scope.value(index, real=real)
        wide = self.reshape(value, (1,) * missing + shape)
        return self.node("Transpose", wide, perm=perm)


BINARY = ("input1", "input2")
"""Names of the tensors of operations on two."""

Lowering: TypeAlias = Callable[[Op], None]
"""Lowers an operation to ONNX."""

_Op = TypeVar("_Op")
"""An operation as the lowerings of one table see it."""


LoweringTable: TypeAlias = Mapping[tuple[OperationSpec, OperandCode | None], Callable[[_Op], None]]
"""Lowerings by operation and type of the signature's type variable T; None: any type."""


def row(
    spec: OperationSpec, lower: Callable[[_Op], None], *codes: OperandCode
) -> LoweringTable[_Op]:
    """The table of one lowering, for these types; none for all types."""
    return {(spec, code): lower for code in codes or (None,)}


def table(*rows: LoweringTable[_Op]) -> LoweringTable[_Op]:
    """All rows together; each operation and type may occur only once."""
    found: dict[tuple[OperationSpec, OperandCode | None], Callable[[_Op], None]] = {}
    for (spec, code), lower in (item for each in rows for item in each.items()):
        if (spec, code) in found:
            types = code.name if code is not None else "any type"
            raise ValueError(f"{spec} has two lowerings for {types}")
        found[spec, code] = lower
    return found
