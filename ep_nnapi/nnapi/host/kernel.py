"""Kernel table rows, and the operations of a model with operands by their names in `spec.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.model import Data, Model, Omitted, Operand, Operation
from ep_nnapi.nnapi.shapes.operands import parameters_of
from ep_nnapi.nnapi.signature import Match, OperationSpec, Params
from ep_nnapi.nnapi.spec import operation_of

KernelFunction: TypeAlias = Callable[..., object]


@immutable
class Types:
    """Types of an operation's operands by name, without data; omitted operands are absent."""

    named: Mapping[str, tuple[Operand, ...]]

    def __getitem__(self, name: str) -> Operand:
        """The operand of that name, which must not be repeated."""
        (operand,) = self.named[name]
        return operand

    def __contains__(self, name: str) -> bool:
        return name in self.named

    def many(self, name: str) -> tuple[Operand, ...]:
        """All operands of that name."""
        return self.named[name]


@dataclass(frozen=True)
class Kernel:
    """Implementation of one operation for some data types.

    codes       supported types of the signature's type variable T; empty: all
    real        float16 and quantized tensors are passed and returned as float32
    elementwise each output element depends only on the inputs' elements at its (broadcast) index
    pointwise   elementwise with one tensor input, `input`
    view        the result may share the input's memory
    pack        by operand name: conversion before the call, done once for constants
    """

    spec: OperationSpec
    function: KernelFunction
    codes: frozenset[OperandCode]
    real: bool = False
    elementwise: bool = False
    pointwise: bool = False
    view: bool = False
    pack: Mapping[str, KernelFunction] = field(default_factory=dict)

    @cached_property
    def special_parameters(self) -> frozenset[str]:
        """The parameters of the function among `out`, `types` and `run`."""
        return parameters_of(self.function).names & {"out", "types", "run"}

    @cached_property
    def pack_parameters(self) -> Mapping[str, frozenset[str]]:
        """The parameters of the functions in `pack`, by operand name."""
        return {name: parameters_of(pack).names for name, pack in self.pack.items()}

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of operands that are not optional."""
        return parameters_of(self.function).required


def real(
    spec: OperationSpec, function: KernelFunction, *codes: OperandCode, **pack: KernelFunction
) -> Kernel:
    """Return a row for a float32 function; other types are decoded before and encoded after."""
    return Kernel(spec, function, frozenset(codes), real=True, pack=pack)


def elementwise(spec: OperationSpec, function: KernelFunction, *codes: OperandCode) -> Kernel:
    """Return a row for an elementwise float32 function with broadcasting, run in blocks."""
    return Kernel(spec, function, frozenset(codes), real=True, elementwise=True)


def pointwise(spec: OperationSpec, function: KernelFunction, *codes: OperandCode) -> Kernel:
    """Return a row for a unary elementwise function; 8-bit types use a table of 256 results."""
    return Kernel(spec, function, frozenset(codes), real=True, elementwise=True, pointwise=True)


def stored(
    spec: OperationSpec, function: KernelFunction, *codes: OperandCode, **pack: KernelFunction
) -> Kernel:
    """Return a row for a function of elements as stored, not decoded; `pack` by operand name."""
    return Kernel(spec, function, frozenset(codes), pack=pack)


def view(spec: OperationSpec, function: KernelFunction) -> Kernel:
    """Return a row for a function that only reshapes its input, of any type."""
    return Kernel(spec, function, frozenset(), view=True)


def rows_of(
    make: Callable[..., Kernel], codes: Iterable[OperandCode], *functions: KernelFunction
) -> tuple[Kernel, ...]:
    """Return the rows of functions that have the names of their operations, all of these types."""
    return tuple(make(operation_of(f), f, *codes) for f in functions)


def table(*kernels: Kernel) -> Mapping[tuple[OperationSpec, OperandCode | None], Kernel]:
    """Index kernels by (operation, type), None for all types; each pair may occur only once."""
    found: dict[tuple[OperationSpec, OperandCode | None], Kernel] = {}
    for kernel in kernels:
        keys: Iterable[OperandCode | None] = kernel.codes or (None,)
        for code in keys:
            if (kernel.spec, code) in found:
                raise ValueError(f"{kernel.spec} has two kernels for {code}")
            found[kernel.spec, code] = kernel
    return found


_T = TypeVar("_T")
Names: TypeAlias = Mapping[str, int | tuple[int, ...]]


@immutable
class NamedOperation:
    """An operation with its operands by name.

    inputs, outputs   operand indexes by name, a tuple for a repeated parameter; omitted operands
                      are absent
    code              type of the signature's type variable T; None if it has none
    operands          those of its model, perhaps `without_data`
    """

    operation: Operation
    inputs: Names
    outputs: Names
    code: OperandCode | None
    operands: Sequence[Operand] = field(repr=False)

    @property
    def types(self) -> Types:
        """Operand types by the same names."""
        named = (*self.inputs.items(), *self.outputs.items())
        return Types({name: tuple([self.operands[i] for i in indexes(at)]) for name, at in named})


def without_data(operands: Sequence[Operand]) -> list[Operand]:
    """The operands without constant data and submodels."""
    return [
        Operand(o.type, o.dimensions, o.scale, o.zero_point, o.channels)
        if isinstance(o.value, (Data, Model))
        else o
        for o in operands
    ]


def named_operations(
    model: Model, feature_level: int, operands: Sequence[Operand] | None = None
) -> list[NamedOperation]:
    """The operations of a model by index; raises Reject if one matches no signature.

    operands   those of the model, `without_data`, if the caller has them
    """
    types = without_data(model.operands) if operands is None else operands
    matches = (model.match(n, feature_level) for n in range(len(model.operations)))
    return [name_operands(*each, types) for each in zip(model.operations, matches, strict=True)]


def name_operands(
    operation: Operation, match: Match, operands: Sequence[Operand]
) -> NamedOperation:
    """Name the operands of an operation; `operands` of its model `without_data`."""
    inputs = {
        name: index
        for name, index in _named(match.inputs, operation.inputs).items()
        if isinstance(index, tuple) or not isinstance(operands[index].value, Omitted)
    }
    outputs = _named(match.outputs, operation.outputs)
    return NamedOperation(operation, inputs, outputs, match.typing.types.get("T"), operands)


def indexes(index: int | tuple[int, ...]) -> tuple[int, ...]:
    """The operand indexes of a name, as a tuple."""
    return index if isinstance(index, tuple) else (index,)


def mapped(names: Names, of: Callable[[int], _T]) -> dict[str, _T | tuple[_T, ...]]:
    """What a function says of each operand, by the same names."""
    return {
        name: tuple(map(of, at)) if isinstance(at, tuple) else of(at) for name, at in names.items()
    }


def _named(form: Params, indexes: Sequence[int]) -> Names:
    found: dict[str, int] = {}
    repeated: dict[str, list[int]] = {}
    for param, index in zip(form, indexes, strict=True):
        if param.many:
            repeated.setdefault(param.name, []).append(index)
        else:
            found[param.name] = index
    return {**found, **{n: tuple(each) for n, each in repeated.items()}} if repeated else found
