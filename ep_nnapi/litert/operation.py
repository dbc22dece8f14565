"""One NNAPI operation as the lowerings to LiteRT see it: operands by name, operators to add.

Operands are LiteRT tensors, which have the same layouts: NHWC, OHWI. An 8-bit quantized operand has
one or two tensors, of uint8 and of int8, whose zero points differ by 128: the same real numbers.
Only the int8 kernels take weights with scales per channel, only the uint8 kernels weights with a
zero point. A QUANTIZE operator between both only flips a bit. Float16 is computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from ep_nnapi.litert.flat_graph import FlatGraph
from ep_nnapi.litert.flat_operator import FlatTensor, OptionValue, Parameters
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.kernel import NamedOperation, indexes, mapped
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.shapes.operands import Dims
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, INT32, Q8, Q8C, Q8S, Q8Y
from ep_nnapi.ort_devices.graph import require
from ep_nnapi.ort_devices.operation import OperandAccess
from ep_nnapi.ort_devices.scope import (
    TO_NCHW,
    TO_NHWC,
    OperandFacts,
    Shape,
    is_coded,
    permuted,
)

_KINDS = frozenset((F32, F16, I32, INT32, BOOL8, Q8, Q8S, Q8C, Q8Y))
"""Types of operands that LiteRT computes with here."""
DATA = (F32, Q8, Q8S)
NUMBERS = (*DATA, I32)
"""Those of most of its operators, which lack float16, and with integers."""
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
    _real: dict[int, Operand] = field(default_factory=dict)

    def operand(self, index: int) -> Operand:
        """The operand of that index, which may be one that `real` has added."""
        return self._real[index] if index in self._real else self.model.operands[index]

    def real(self, index: int, *, computed: bool = True) -> int:
        """The index of a float32 operand for a quantized one; other operands are their own.

        computed   False for an operand that is yet to be computed, from the new one
        """
        operand = self.operand(index)
        if not is_coded(operand):
            return index
        made = len(self.model.operands) + len(self._real)
        self._real[made] = Operand(F32, operand.dimensions)
        self.dims[made] = self.shape(index)
        if computed:
            given = self.value(index, signed=self.has(index, signed=True))
            result = self.described(made, signed=False)
            self.define(made, self._converted("DEQUANTIZE", given, result))
        return made

    def described(self, index: int, *, signed: bool) -> FlatTensor:
        """Type, shape and quantization of the operand's tensor; Inexpressible for other types."""
        operand = self.operand(index)
        require(operand.type in _KINDS, f"LiteRT has no kernels for {operand.type.name}")
        dtype = np.dtype(np.float32) if operand.type is F16 else operand.type.numpy
        if is_coded(operand):
            dtype = np.dtype(np.int8 if signed else np.uint8)
        shape, channels = self.shape(index), operand.channels
        if channels is not None:
            fits = shape[channels.dim] == len(channels.scales)
            require(fits, f"operand {index} has {len(channels.scales)} scales")
        return FlatTensor(dtype, shape, parameters(operand, signed=signed))

    def has(self, index: int, *, signed: bool) -> bool:
        """True if the operand has been computed as int8, or else as uint8."""
        return signed in self._values.get(index, {})

    def own_form(self, index: int) -> bool:
        """True if the operand's elements are int8 in NNAPI."""
        return is_signed(self.operand(index).type)

    def define(self, index: int, tensor: int, *, signed: bool | None = None) -> None:
        """Record the tensor of an operand."""
        self._values.setdefault(index, {})[self._form(index, signed)] = tensor

    def computed(self, index: int) -> int:
        """Add the tensor of an operand of its own type, which an input or operator defines."""
        made = self.graph.tensor(self.described(index, signed=self.own_form(index)))
        self.define(index, made)
        return made

    def entered(self, index: int) -> int:
        """The same for an input, whose open sizes others are made of."""
        made = self.computed(index)
        self.graph.sizes.enter(made, self.shape(index))
        return made

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
        if isinstance(operand.value, Data) and operand.value.numbers:
            return self.graph.ints(operand.value.numbers, self.shape(index))
        if isinstance(operand.value, Data):

            def load() -> Array:
                return stored(operand.array, operand.type, signed=signed)

            held = tensor
            if operand.type is F16:
                held = replace(tensor, dtype=operand.type.numpy)
            value = self.graph.constant(held, (id(operand.value),), load)
            return value if held is tensor else self._converted("DEQUANTIZE", value, tensor)
        other = self._values[index].get(not signed)
        require(other is not None, f"operand {index} is not computed")
        return self._converted("QUANTIZE", other or 0, tensor)

    def quantize(self, source: int, index: int) -> None:
        """Define a quantized operand by one of real numbers."""
        signed = self.own_form(index)
        wanted = self.described(index, signed=signed)
        self.define(index, self._converted("QUANTIZE", self.value(source), wanted), signed=signed)

    def _converted(self, operator: str, value: int, result: FlatTensor) -> int:
        made = self.graph.tensor(result)
        self.graph.operator(operator, [value], [made])
        return made


def parameters(operand: Operand, *, signed: bool) -> Parameters | None:
    """Quantization parameters of an operand's tensor of uint8 or int8; None if it has none."""
    if operand.channels is not None:
        return Parameters(operand.channels.scales, 0, operand.channels.dim)
    if not operand.scale:
        return None
    moved = 128 * (is_signed(operand.type) - signed) if is_coded(operand) else 0
    return Parameters((operand.scale,), operand.zero_point + moved)


@dataclass(frozen=True, slots=True)
class FlatOp(OperandAccess):
    """An operation being lowered to LiteRT operators."""

    scope: TensorScope
    named: NamedOperation

    @property
    def graph(self) -> FlatGraph:
        """The graph under construction."""
        return self.scope.graph

    @property
    def nchw(self) -> bool:
        """True if the operation's images are NCHW; LiteRT's are NHWC."""
        return bool(self.scalar("layout", default=False))

    def signed(self, *names: str) -> bool:
        """True if the operands' int8 tensors are to be used: if there are no uint8 ones."""
        every = [i for name in names for i in self.indexes(name)]
        computed = [i for i in every if not self.scope.constant(i)]
        return bool(computed) and all(self.scope.has(i, signed=True) for i in computed)

    def tensor(self, name: str, *, signed: bool | None = None) -> int:
        """The tensor of an operand."""
        return self.scope.value(self.index(name), signed=signed)

    def described(self, name: str = "output", *, signed: bool) -> FlatTensor:
        """Type, shape and quantization of an operand's tensor."""
        return self.scope.described(self.index(name), signed=signed)

    def out(self, name: str = "output", *, signed: bool = False) -> int:
        """Add the tensor of an output."""
        made = self.graph.tensor(self.described(name, signed=signed))
        self.scope.define(self.index(name), made, signed=signed)
        return made

    def requantized(self, index: int, *, signed: bool) -> int:
        """The tensor of an operand with the output's quantization, if that is quantized."""
        value, output = self.scope.value(index, signed=signed), self.operand("output")
        operand = self.scope.operand(index)
        if not is_coded(output) or operand.quantization == output.quantization:
            return value
        wanted = replace(self.described(signed=signed), shape=self.scope.shape(index))
        return self.computed("QUANTIZE", [value], wanted)

    def same_quantization(self, *names: str) -> None:
        """Raises Inexpressible unless quantized operands have the output's parameters."""
        output = self.operand("output")
        for index in (i for name in names for i in self.indexes(name)):
            require(
                not is_coded(output)
                or self.scope.operand(index).quantization == output.quantization,
                f"operand {index} has another quantization than the output, which LiteRT requires",
            )

    def run(self, operator: str, given: Sequence[str | int], **fields: OptionValue) -> None:
        """Add an operator that computes the operation's output.

        given    its inputs: operands by name, which the output is signed as, and other tensors
        fields   of the options
        """
        signed = self.signed(*[name for name in given if isinstance(name, str)])
        inputs = list[int]()
        for each in given:
            if isinstance(each, int):
                inputs.append(each)
            else:
                inputs += [self.scope.value(i, signed=signed) for i in self.indexes(each)]
        self.graph.operator(operator, inputs, [self.out(signed=signed)], fields)

    def computed(
        self,
        operator: str,
        inputs: Sequence[int],
        result: FlatTensor,
        **fields: OptionValue,
    ) -> int:
        """Add an operator with a result of its own; returns the result."""
        made = self.graph.tensor(result)
        self.graph.operator(operator, inputs, [made], fields)
        return made

    def finish(self, value: int, *, signed: bool = False, output: str = "output") -> None:
        """Define an output by a tensor that has been computed."""
        self.scope.define(self.index(output), value, signed=signed)

    def cast(self, value: int, dtype: type[np.generic]) -> int:
        """Add a conversion of stored numbers."""
        result = FlatTensor(np.dtype(dtype), self.graph.tensors[value].shape)
        return self.computed("CAST", [value], result)

    def image(self, name: str, *, signed: bool) -> int:
        """The tensor of an image in NHWC."""
        value = self.tensor(name, signed=signed)
        return self.graph.transposed(value, TO_NHWC) if self.nchw else value

    def image_shape(self, name: str) -> Shape:
        """The shape of an image in NHWC."""
        return permuted(self.shape(name), TO_NHWC) if self.nchw else self.shape(name)

    def image_output(self, *, signed: bool) -> FlatTensor:
        """The output in NHWC."""
        return replace(self.described(signed=signed), shape=self.image_shape("output"))

    def finish_image(
        self,
        operator: str,
        inputs: Sequence[int],
        *,
        signed: bool,
        **fields: OptionValue,
    ) -> None:
        """Add an operator that computes the output in NHWC, and define the output by it."""
        if not self.nchw:
            self.graph.operator(operator, inputs, [self.out(signed=signed)], fields)
            return
        value = self.computed(operator, inputs, self.image_output(signed=signed), **fields)
        self.finish(self.graph.transposed(value, TO_NCHW), signed=signed)


FlatLowering: TypeAlias = Callable[[FlatOp], None]
"""Lowers an operation to LiteRT."""


def direct(operator: str, op: FlatOp, **fields: str) -> None:
    """Operations of which an operator takes the tensors in the same order.

    fields   names of scalars by those of fields of the operator's options
    """
    tensors = [n for n in op.named.inputs if op.scope.operand(op.indexes(n)[0]).type.tensor]
    op.run(operator, tensors, **{field: op.number(name) for field, name in fields.items()})


def through_float(lower: FlatLowering) -> FlatLowering:
    """A lowering of quantized operations by that of float32 ones, as nnapi-reference computes."""

    def lowered(op: FlatOp) -> None:
        scope, named = op.scope, op.named
        inputs = mapped(named.inputs, scope.real)
        outputs = mapped(named.outputs, lambda i: scope.real(i, computed=False))
        lower(FlatOp(scope, replace(named, inputs=inputs, outputs=outputs, code=F32)))
        for name, index in named.outputs.items():
            for whole, made in zip(indexes(index), indexes(outputs[name]), strict=True):
                if whole != made:
                    scope.quantize(made, whole)

    return lowered
