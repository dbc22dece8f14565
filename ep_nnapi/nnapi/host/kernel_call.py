"""Kernel calls: prepare the arguments, call the function, store the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile
from math import prod
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.host.codec import decode, encode, is_coded
from ep_nnapi.nnapi.host.concurrent_runs import Run
from ep_nnapi.nnapi.host.kernel import Kernel, KernelFunction, NamedOperation, indexes
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes.operands import ShapeError

KernelOperands: TypeAlias = Sequence[object] | Mapping[int, object]
"""Operand values by index: an array, a prepared model, or None if omitted."""
Fetch: TypeAlias = Callable[[KernelOperands], object]


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
            places = indexes(index)
            operand = op.operands[places[0]]
            coded = kernel.real and operand.type.tensor and is_coded(operand)  # never several
            each = [_fetch_operand(i, op.operands[i]) for i in places]
            fetch = each[0] if isinstance(index, int) else _fetch_several(places, each, constants)
            if constants.keys() >= {*places}:
                found = fetch(constants)
                fixed[name] = decode(as_array(found), operand) if coded else found
                continue
            self._fetches.append((name, fetch))
            if coded:
                self.coded[name] = operand
        self._fixed = fixed
        self._packed_at_run: list[tuple[str, KernelFunction, frozenset[str]]] = []
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

    def of(self, values: KernelOperands) -> dict[str, object]:
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

    def stored(self, values: KernelOperands) -> dict[str, object]:
        """The arguments before those in `coded` are decoded and non-constant ones are packed."""
        given = dict(self._fixed)
        for name, fetch in self._fetches:
            value = fetch(values)
            if value is not None:
                given[name] = value
            elif name in self._required:
                raise ShapeError(f"operand {name} is missing, its value is required")
        return given


def _fetch_several(
    places: Sequence[int], each: Sequence[Fetch], constants: Mapping[int, object]
) -> Fetch:
    """A function that gets a repeated argument, in part constant, from the values of a run."""
    known = {i: fetch(constants) for i, fetch in zip(places, each, strict=True) if i in constants}
    left = [*zip(places, each, strict=True)]
    return lambda values: tuple([known[i] if i in known else get(values) for i, get in left])


def _fetch_operand(index: int, operand: Operand) -> Fetch:
    if operand.type.tensor or operand.type is OperandCode.MODEL:
        return itemgetter(index)
    return lambda values: as_array(values[index]).item()


def as_array(value: object) -> Array:
    """Return an operand value of a run as an array."""
    return np.asarray(value)


Outs: TypeAlias = Arrays
"""Destination array of each output; None if its shape is unknown."""


class KernelCall:
    """A kernel's function with its argument conversion and result storage."""

    def __init__(self, kernel: Kernel, op: NamedOperation, constants: Mapping[int, object]) -> None:
        self.function: KernelFunction = kernel.function
        self._special_parameters = kernel.special_parameters
        self.arguments = Arguments(kernel, op, constants)
        self._real = kernel.real
        self._single = [*map(type, op.outputs.values())] == [int]
        self._types = [op.operands[i] for at in op.outputs.values() for i in indexes(at)]
        self.types = [*self._types, *self.arguments.coded.values()]

    def __call__(self, values: KernelOperands, outs: Outs, run: Run) -> list[Array]:
        """Compute the outputs, as `BoundKernel`."""
        given = self.arguments.of(values)
        if "run" in self._special_parameters:
            given["run"] = run
        if "out" not in self._special_parameters:
            result = self.function(**given)
            results = [result] if self._single else list(_arrays(result))
        else:
            results = [self._target(o, t) for o, t in zip(outs, self._types, strict=True)]
            self.function(**given, out=results[0] if self._single else tuple(results))
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


def _arrays(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


_BLOCK = 1 << 15
"""Elements per block: decoded, computed and encoded together."""


class LookupTable:
    """An elementwise function of one 8-bit input as a table of its 256 results."""

    def __init__(
        self,
        call: KernelCall,
        index: int,
        operand: Operand,
        result: Operand,
        constants: Mapping[int, object],
    ) -> None:
        every = np.arange(256, dtype=np.uint8)
        values = {**constants, index: every.view(operand.type.numpy)}
        (self._results,) = call(values, [np.empty(256, result.type.numpy)], Run())
        self._index = index

    def __call__(self, values: KernelOperands, outs: Outs, run: Run) -> list[Array]:
        """Compute the outputs, as `BoundKernel`."""
        bits = as_array(values[self._index]).view(np.uint8)
        if outs[0] is None:
            return [self._results[bits]]
        return [np.take(self._results, bits, out=outs[0], mode="clip")]


class BlockwiseCall:
    """An elementwise function, computed in blocks so that decoded values stay in the CPU cache."""

    def __init__(self, call: KernelCall, output: Operand) -> None:
        self._call = call
        self._output = output

    def __call__(self, values: KernelOperands, outs: Outs, run: Run) -> list[Array]:
        """Compute the outputs, as `BoundKernel`."""
        out = outs[0]
        given = self._call.arguments.stored(values)
        tensors = {n: v for n, v in given.items() if isinstance(v, np.ndarray)}
        width = None if out is None else row_width(out.shape, [t.shape for t in tensors.values()])
        if out is None or not width or not out.size:
            return self._call(values, outs, run)
        target = out.reshape(-1, width)
        rows = {n: t.reshape(-1, min(t.size, width)) for n, t in tensors.items()}
        step = max(1, _BLOCK // width)
        for start in range(0, len(target), step):
            self._compute(given, rows, target[start : start + step], slice(start, start + step))
        return [out]

    def _compute(
        self, given: dict[str, object], rows: Mapping[str, Array], out: Array, block: slice
    ) -> None:
        coded = self._call.arguments.coded
        for name, tensor in rows.items():
            part = tensor if len(tensor) == 1 else tensor[block]
            given[name] = decode(part, coded[name]) if name in coded else part
        real = np.empty(out.shape, np.float32) if is_coded(self._output) else out
        self._call.function(**given, out=real)
        if real is not out:
            encode(real, self._output, out)


def row_width(shape: tuple[int, ...], inputs: Sequence[tuple[int, ...]]) -> int | None:
    """Width of rows into which `shape` splits such that each input fills one row or all rows.

    None if there is no such width, for other broadcasting patterns.

    >>> row_width((2, 3, 4), [(2, 3, 4), (4,)]), row_width((2, 3, 4), [(2, 1, 4), (4,)])
    (4, None)
    """
    size, width = prod(shape), 0
    for dims in inputs:
        kept = tuple(dropwhile(lambda d: d == 1, dims))
        if prod(dims) not in (1, size):
            if kept != shape[len(shape) - len(kept) :] or width not in (0, prod(kept)):
                return None
            width = prod(kept)
    return width or 1


BoundKernel: TypeAlias = Callable[[KernelOperands, Outs, Run], list[Array]]
"""A kernel bound to an operation: computes and returns the outputs, each written to its array in
`outs`, if not None; thread-safe, runs may call it concurrently."""


def bind(kernel: Kernel, op: NamedOperation, constants: Mapping[int, object]) -> BoundKernel:
    """Bind `kernel` to the operation `op`; `constants` are known values by operand index."""
    call = KernelCall(kernel, op, constants)
    if kernel.pointwise and op.types["input"].type.numpy.itemsize == 1:
        (index,) = indexes(op.inputs["input"])
        if set(op.operation.inputs) - constants.keys() == {index}:
            return LookupTable(call, index, op.types["input"], op.types["output"], constants)
    if kernel.elementwise and any(is_coded(o) for o in call.types):
        return BlockwiseCall(call, call.types[0])
    return call
