"""Arguments of kernels: constants are converted once, all others at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.codec import decode, is_coded
from ep_nnapi.nnapi.host.kernel import Function, Kernel
from ep_nnapi.nnapi.host.named_operation import NamedOperation
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes import ShapeError

Values: TypeAlias = Sequence[object] | Mapping[int, object]
"""Operand values by index: an array, a prepared model, or None if omitted."""
Fetch: TypeAlias = Callable[[Values], object]


class Arguments:
    """A kernel's arguments by name, dequantized and packed; constant ones are precomputed."""

    def __init__(self, kernel: Kernel, op: NamedOperation, constants: Mapping[int, object]) -> None:
        self._required = kernel.required
        fixed: dict[str, object] = (
            {"types": op.types} if "types" in kernel.special_parameters else {}
        )
        self._fetches: list[tuple[str, Fetch]] = []
        self.coded: dict[str, Operand] = {}
        for name, index in op.inputs.items():
            types = op.types.many(name)
            if isinstance(index, int):
                fetch, constant = _fetch_operand(index, types[0], kernel.real), index in constants
            else:
                fetch = _fetch_several(index, types, kernel.real, constants)
                constant = constants.keys() >= {*index}
            if constant:
                fixed[name] = fetch(constants)
            elif kernel.real and isinstance(index, int) and _is_coded_tensor(types[0]):
                self.coded[name] = types[0]
                self._fetches.append((name, partial(_fetch_value, index)))
            else:
                self._fetches.append((name, fetch))
        self._fixed = fixed
        self._packed_at_run: list[tuple[str, Function, frozenset[str]]] = []
        self._unpacked: dict[str, object] = {}
        if kernel.pack:
            self._prepare_packing(kernel, op)

    def _prepare_packing(self, kernel: Kernel, op: NamedOperation) -> None:
        """Packs the arguments that depend on constants only; the others are packed at each run."""
        known = {"types": op.types, **self._fixed}
        packs = {
            name: (pack, kernel.pack_parameters[name] & {*op.inputs, "types"})
            for name, pack in kernel.pack.items()
        }
        ready = {name for name, (_, names) in packs.items() if names <= known.keys()}
        self._packed_at_run = [(name, *packs[name]) for name in packs if name not in ready]
        names_at_run = {n for _, _, names in self._packed_at_run for n in names}
        self._unpacked = {n: known[n] for n in names_at_run & known.keys()}
        for name in ready:
            pack, names = packs[name]
            self._fixed[name] = pack(**{n: known[n] for n in names})

    def of(self, values: Values) -> dict[str, object]:
        """The arguments for a run with these operand values."""
        given = self.stored(values)
        for name, operand in self.coded.items():
            if name in given:
                given[name] = decode(as_array(given[name]), operand)
        if self._packed_at_run:
            source = {**given, **self._unpacked}
            for name, pack, names in self._packed_at_run:
                given[name] = pack(**{n: source[n] for n in names if n in source})
        return given

    def stored(self, values: Values) -> dict[str, object]:
        """The arguments before those in `coded` are decoded and non-constant ones are packed."""
        given = dict(self._fixed)
        for name, fetch in self._fetches:
            value = fetch(values)
            if value is not None:
                given[name] = value
            elif name in self._required:
                raise ShapeError(f"operand {name} is missing, its value is required")
        return given


def _is_coded_tensor(operand: Operand) -> bool:
    return operand.type.tensor and is_coded(operand)


def _fetch_several(
    indexes: tuple[int, ...],
    types: tuple[Operand, ...],
    real: bool,
    constants: Mapping[int, object],
) -> Fetch:
    """A function that gets a repeated argument, in part constant, from the values of a run."""
    each = [_fetch_operand(i, t, real) for i, t in zip(indexes, types, strict=True)]
    for n, i in enumerate(indexes):
        if i in constants:
            each[n] = partial(_fetch_constant, each[n](constants))
    return partial(_fetch_tuple, each)


def _fetch_operand(index: int, operand: Operand, real: bool) -> Fetch:
    if operand.type is OperandCode.MODEL:
        return partial(_fetch_value, index)
    if not operand.type.tensor:
        return partial(_fetch_scalar, index)
    if real and is_coded(operand):
        return partial(_real, index, operand)
    return partial(_fetch_value, index)


def _fetch_tuple(fetches: Sequence[Fetch], values: Values) -> object:
    return tuple(fetch(values) for fetch in fetches)


def _fetch_constant(value: object, values: Values) -> object:
    return value


def _fetch_value(index: int, values: Values) -> object:
    return values[index]


def _fetch_scalar(index: int, values: Values) -> object:
    return as_array(values[index]).item()


def _real(index: int, operand: Operand, values: Values) -> object:
    return _decoded(values[index], operand)


def _decoded(value: object, operand: Operand) -> Array | None:
    return None if value is None else decode(as_array(value), operand)


def as_array(value: object) -> Array:
    """Return an operand value of a run as an array."""
    return np.asarray(value)
