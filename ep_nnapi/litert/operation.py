"""One NNAPI operation as the lowerings to LiteRT see it: operands by name, operators to add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ep_nnapi.litert.flat_graph import FlatGraph, Option, Tensor
from ep_nnapi.litert.scope import TensorScope
from ep_nnapi.nnapi.host.named_operation import NamedOperation
from ep_nnapi.ort_devices.operation import OperandAccess
from ep_nnapi.ort_devices.scope import (
    TO_NCHW,
    TO_NHWC,
    Perm,
    is_coded,
    permuted,
    require,
)

Fields: TypeAlias = Mapping[str, Option]


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

    def described(self, name: str = "output", *, signed: bool) -> Tensor:
        """Type, shape and quantization of an operand's tensor."""
        return self.scope.described(self.index(name), signed=signed)

    def out(self, name: str = "output", *, signed: bool = False) -> int:
        """Add the tensor of an output."""
        made = self.graph.tensor(self.described(name, signed=signed))
        self.scope.define(self.index(name), made, signed=signed)
        return made

    def same_quantization(self, *names: str) -> None:
        """Raises Inexpressible unless quantized operands have the output's parameters."""
        output = self.operand("output")
        for index in (i for name in names for i in self.indexes(name)):
            operand = self.scope.operand(index)
            equal = (operand.scale, operand.zero_point) == (output.scale, output.zero_point)
            require(
                equal or not is_coded(output),
                f"operand {index} has another quantization than the output, which LiteRT requires",
            )

    def run(self, operator: str, names: Sequence[str], kind: str = "", **fields: Option) -> None:
        """Add an operator that computes the operation's output.

        names    operands that are its inputs
        kind     name of its options' table without "Options"; "": it has none
        fields   of the options
        """
        signed = self.signed(*names)
        inputs = [self.tensor(name, signed=signed) for name in names]
        options = (kind, fields) if kind else None
        self.graph.operator(operator, inputs, [self.out(signed=signed)], options)

    def computed(
        self, operator: str, inputs: Sequence[int], result: Tensor, kind: str = "", **fields: Option
    ) -> int:
        """Add an operator with a result of its own; returns the result."""
        made = self.graph.tensor(result)
        self.graph.operator(operator, inputs, [made], (kind, fields) if kind else None)
        return made

    def finish(self, value: int, *, signed: bool = False, output: str = "output") -> None:
        """Define an output by a tensor that has been computed."""
        self.scope.define(self.index(output), value, signed=signed)

    def transposed(self, value: int, perm: Perm) -> int:
        """Add a transposition."""
        given = self.graph.tensors[value]
        result = replace(given, shape=permuted(given.shape, perm))
        return self.computed("TRANSPOSE", [value, self.graph.ints(perm)], result, "Transpose")

    def reshaped(self, value: int, shape: Sequence[int]) -> int:
        """Add a change of shape."""
        result = replace(self.graph.tensors[value], shape=tuple(shape))
        sizes = self.graph.ints(shape)
        return self.computed("RESHAPE", [value, sizes], result, "Reshape", newShape=list(shape))

    def image(self, name: str, *, signed: bool) -> int:
        """The tensor of an image in NHWC."""
        value = self.tensor(name, signed=signed)
        return self.transposed(value, TO_NHWC) if self.nchw else value

    def image_output(self, *, signed: bool) -> Tensor:
        """The output in NHWC."""
        found = self.described(signed=signed)
        return replace(found, shape=permuted(found.shape, TO_NHWC)) if self.nchw else found

    def finish_image(
        self, operator: str, inputs: Sequence[int], kind: str, *, signed: bool, **fields: Option
    ) -> None:
        """Add an operator that computes the output in NHWC, and define the output by it."""
        if not self.nchw:
            self.graph.operator(operator, inputs, [self.out(signed=signed)], (kind, fields))
            return
        value = self.computed(operator, inputs, self.image_output(signed=signed), kind, **fields)
        self.finish(self.transposed(value, TO_NCHW), signed=signed)


FlatLowering: TypeAlias = Callable[[FlatOp], None]
"""Lowers an operation to LiteRT."""
