"""Kernel table rows: the operation, the data types and the function that computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter, signature
from typing import TypeAlias

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.signature import OperationSpec

Function: TypeAlias = Callable[..., object]


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
    function: Function
    codes: frozenset[OperandCode]
    real: bool = False
    elementwise: bool = False
    pointwise: bool = False
    view: bool = False
    pack: Mapping[str, Function] = field(default_factory=dict)

    @cached_property
    def special_parameters(self) -> frozenset[str]:
        """The parameters of the function among `out`, `types` and `run`."""
        return parameter_names(self.function) & {"out", "types", "run"}

    @cached_property
    def pack_parameters(self) -> Mapping[str, frozenset[str]]:
        """The parameters of the functions in `pack`, by operand name."""
        return {name: parameter_names(pack) for name, pack in self.pack.items()}

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of operands that are not optional."""
        parameters = signature(self.function).parameters.values()
        return frozenset(
            p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        )


def parameter_names(function: Function) -> frozenset[str]:
    """The names of a function's parameters."""
    parameters = signature(function).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is not Parameter.VAR_KEYWORD)


def real(spec: OperationSpec, function: Function, *codes: OperandCode, **pack: Function) -> Kernel:
    """Return a row for a float32 function; other types are decoded before and encoded after."""
    return Kernel(spec, function, frozenset(codes), real=True, pack=pack)


def elementwise(spec: OperationSpec, function: Function, *codes: OperandCode) -> Kernel:
    """Return a row for an elementwise float32 function with broadcasting, run in blocks."""
    return Kernel(spec, function, frozenset(codes), real=True, elementwise=True)


def pointwise(spec: OperationSpec, function: Function, *codes: OperandCode) -> Kernel:
    """Return a row for a unary elementwise function; 8-bit types use a table of 256 results."""
    return Kernel(spec, function, frozenset(codes), real=True, elementwise=True, pointwise=True)


def stored(
    spec: OperationSpec, function: Function, *codes: OperandCode, **pack: Function
) -> Kernel:
    """Return a row for a function of elements as stored, not decoded; `pack` by operand name."""
    return Kernel(spec, function, frozenset(codes), pack=pack)


def view(spec: OperationSpec, function: Function) -> Kernel:
    """Return a row for a function that only reshapes its input, of any type."""
    return Kernel(spec, function, frozenset(), view=True)


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
