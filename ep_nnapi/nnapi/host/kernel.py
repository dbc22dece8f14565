"""A kernel's row in a family's table: which operation, which function, for which data types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter, signature
from typing import TypeAlias

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.signature import OperationSpec

Function: TypeAlias = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Types:
    """An operation's operands, without data, by name; what is left out is absent."""

    named: Mapping[str, tuple[Operand, ...]]

    def __getitem__(self, name: str) -> Operand:
        """The only operand of that name."""
        (operand,) = self.named[name]
        return operand

    def __contains__(self, name: str) -> bool:
        return name in self.named

    def many(self, name: str) -> tuple[Operand, ...]:
        """All operands of a name that may repeat."""
        return self.named[name]


@dataclass(frozen=True)
class Kernel:
    """How one operation is computed for some data types.

    codes       what the type variable T of the operation's signature may be; empty: anything
    real        tensors of halves and quantized numbers arrive, and leave, as float32
    elementwise each output element depends on the inputs' elements at its place only
    pointwise   there is one such input, `input`
    view        the result may share the input's memory
    pack        by operand name: what to make of it before the call, once if it is constant
    """

    spec: OperationSpec
    function: Function
    codes: frozenset[OperandCode]
    real: bool = False
    elementwise: bool = False
    pointwise: bool = False
    view: bool = False
    pack: Mapping[str, Function] = field(default_factory=dict)

    @cached_property
    def asks(self) -> frozenset[str]:
        """Which of `out`, `types` and `run` the function takes besides operands."""
        return asked(self.function) & {"out", "types", "run"}

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of operands that cannot be left out."""
        parameters = signature(self.function).parameters.values()
        return frozenset(
            p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        )


def asked(function: Function) -> frozenset[str]:
    """The names of a function's parameters that it can be given."""
    parameters = signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is not Parameter.VAR_KEYWORD)


def real(spec: OperationSpec, function: Function, *codes: OperandCode, **pack: Function) -> Kernel:
    """A row for a function of real numbers, which all types share by decoding and encoding."""
    return Kernel(spec, function, frozenset(codes), real=True, pack=pack)


def elementwise(spec: OperationSpec, function: Function, *codes: OperandCode) -> Kernel:
    """A row for a real function of elements at one place, with broadcasting; it runs in blocks."""
    return Kernel(spec, function, frozenset(codes), real=True, elementwise=True)


def pointwise(spec: OperationSpec, function: Function, *codes: OperandCode) -> Kernel:
    """A row for a real function of one element; 8-bit types become a table of 256 results."""
    return Kernel(spec, function, frozenset(codes), real=True, elementwise=True, pointwise=True)


def stored(
    spec: OperationSpec, function: Function, *codes: OperandCode, **pack: Function
) -> Kernel:
    """A row for a function of the elements as they are stored; `pack` by operand name."""
    return Kernel(spec, function, frozenset(codes), pack=pack)


def view(spec: OperationSpec, function: Function) -> Kernel:
    """A row for a function that only looks at its input in another shape, of any type."""
    return Kernel(spec, function, frozenset(), view=True)


def table(*kernels: Kernel) -> Mapping[tuple[OperationSpec, OperandCode | None], Kernel]:
    """Kernels by operation and type; None stands for every type. A pair may occur once."""
    found: dict[tuple[OperationSpec, OperandCode | None], Kernel] = {}
    for kernel in kernels:
        keys: Iterable[OperandCode | None] = kernel.codes or (None,)
        for code in keys:
            if (kernel.spec, code) in found:
                raise ValueError(f"{kernel.spec} has two kernels for {code}")
            found[kernel.spec, code] = kernel
    return found
