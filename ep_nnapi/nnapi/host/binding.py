"""A kernel bound to one operation of a model: constants converted once, the rest at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.codec import decode, encode, is_coded
from ep_nnapi.nnapi.host.kernel import Function, Kernel, asked
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.host.site import Site, indexes
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.value import Array

Values: TypeAlias = Sequence[object] | Mapping[int, object]
"""What operands are, by index: arrays, None for what is left out, prepared models."""
Outs: TypeAlias = Sequence[Array | None]
Fetch: TypeAlias = Callable[[Values], object]


class Bound(Protocol):
    """A kernel ready to be called in any number of runs at once."""

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """The outputs; `outs` holds the array that receives each whose shape is known."""
        ...


def bind(kernel: Kernel, at: Site, constants: Mapping[int, object]) -> Bound:
    """The kernel for the operation `at`; `constants`, by operand index, are known already."""
    call = Call(kernel, at, constants)
    if kernel.pointwise and at.types["input"].type.numpy.itemsize == 1:
        (index,) = indexes(at.inputs["input"])
        if constants.keys() >= set(at.operation.inputs) - {index}:
            return Lookup(call, index, at.types["input"], at.types["output"], constants)
    return call


class Arguments:
    """A kernel's arguments by name: decoded, packed, and kept where they are constant."""

    def __init__(self, kernel: Kernel, at: Site, constants: Mapping[int, object]) -> None:
        self._required = kernel.required
        fixed: dict[str, object] = {"types": at.types} if "types" in kernel.asks else {}
        self._fetches: list[tuple[str, Fetch]] = []
        for name, index in at.inputs.items():
            fetch = _fetch(index, at.types.many(name), kernel.real, constants)
            if constants.keys() >= set(indexes(index)):
                fixed[name] = fetch(constants)
            else:
                self._fetches.append((name, fetch))
        known = {"types": at.types, **fixed}
        packs = {
            name: (pack, asked(pack) & {*at.inputs, "types"}) for name, pack in kernel.pack.items()
        }
        ready = {name for name, (_, names) in packs.items() if names <= known.keys()}
        self._late = [(name, *packs[name]) for name in packs if name not in ready]
        late_names = {n for _, _, names in self._late for n in names}
        self._unpacked = {n: known[n] for n in late_names & known.keys()}
        for name in ready:
            pack, names = packs[name]
            fixed[name] = pack(**{n: known[n] for n in names})
        self._fixed = fixed

    def of(self, values: Values) -> dict[str, object]:
        """The arguments in a run with these values."""
        given = dict(self._fixed)
        for name, fetch in self._fetches:
            value = fetch(values)
            if value is not None:
                given[name] = value
            elif name in self._required:
                raise ShapeError(f"operand {name} was left out, its value is needed")
        if self._late:
            source = {**given, **self._unpacked}
            for name, pack, names in self._late:
                given[name] = pack(**{n: source[n] for n in names})
        return given


class Call:
    """Calls the function with arguments as it asks for them, and stores what it gives."""

    def __init__(self, kernel: Kernel, at: Site, constants: Mapping[int, object]) -> None:
        self._function: Function = kernel.function
        self._asks = kernel.asks
        self._arguments = Arguments(kernel, at, constants)
        self._real = kernel.real
        self._single = [*map(type, at.outputs.values())] == [int]
        self._types = [o for name in at.outputs for o in at.types.many(name)]

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """As `Bound`."""
        given = self._arguments.of(values)
        if "run" in self._asks:
            given["run"] = run
        if "out" not in self._asks:
            result = self._function(**given)
            results = [result] if self._single else list(_arrays(result))
        else:
            results = [self._target(o, t) for o, t in zip(outs, self._types, strict=True)]
            self._function(**given, out=results[0] if self._single else tuple(results))
        return [self._stored(*each) for each in zip(results, outs, self._types, strict=True)]

    def _target(self, out: Array | None, operand: Operand) -> object:
        if out is not None and self._real and is_coded(operand):
            return np.empty(out.shape, np.float32)
        return out

    def _stored(self, result: object, out: Array | None, operand: Operand) -> Array:
        if result is out and out is not None:
            return out
        array = np.asarray(result)
        if out is not None and array.shape != out.shape:
            raise ShapeError(f"a result of shape {array.shape} is declared as {out.shape}")
        if self._real and is_coded(operand):
            stored = np.empty(array.shape, operand.type.numpy) if out is None else out
            encode(array, operand, stored)
            return stored
        if out is None:
            return np.ascontiguousarray(array, operand.type.numpy).reshape(array.shape)
        np.copyto(out, array)
        return out


class Lookup:
    """A function of one 8-bit element as a table of its 256 results."""

    def __init__(
        self,
        call: Call,
        index: int,
        operand: Operand,
        result: Operand,
        constants: Mapping[int, object],
    ) -> None:
        every = np.arange(256, dtype=np.uint8)
        values = {**constants, index: every.view(operand.type.numpy)}
        (self._results,) = call(values, [np.empty(256, result.type.numpy)], Run())
        self._index = index

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """As `Bound`."""
        bits = _array(values[self._index]).view(np.uint8)
        if outs[0] is None:
            return [self._results[bits]]
        return [np.take(self._results, bits, out=outs[0], mode="clip")]


def _fetch(
    index: int | tuple[int, ...],
    types: tuple[Operand, ...],
    real: bool,
    constants: Mapping[int, object],
) -> Fetch:
    """What takes an argument, constant or not, out of the values of a run."""
    each = [_fetch_one(i, t, real) for i, t in zip(indexes(index), types, strict=True)]
    for n, i in enumerate(indexes(index)):
        if i in constants:
            each[n] = partial(_given, each[n](constants))
    return (lambda values: tuple(f(values) for f in each)) if isinstance(index, tuple) else each[0]


def _given(value: object, values: Values) -> object:
    return value


def _fetch_one(index: int, operand: Operand, real: bool) -> Fetch:
    if operand.type is OperandCode.MODEL:
        return lambda values: values[index]
    if not operand.type.tensor:
        return lambda values: _array(values[index]).item()
    if real and is_coded(operand):
        return lambda values: _decoded(values[index], operand)
    return lambda values: values[index]


def _decoded(value: object, operand: Operand) -> Array | None:
    return None if value is None else decode(_array(value), operand)


def _array(value: object) -> Array:
    return np.asarray(value)


def _arrays(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)
