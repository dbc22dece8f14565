"""Kernel calls: prepare the arguments, call the function, store the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.arguments import Arguments, Values
from ep_nnapi.nnapi.host.codec import encode, is_coded
from ep_nnapi.nnapi.host.kernel import Function, Kernel
from ep_nnapi.nnapi.host.named_operation import NamedOperation
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.shapes import ShapeError

Outs: TypeAlias = Sequence[Array | None]
"""Destination array of each output; None if its shape is unknown."""


class KernelCall:
    """A kernel's function with its argument conversion and result storage."""

    def __init__(self, kernel: Kernel, op: NamedOperation, constants: Mapping[int, object]) -> None:
        self.function: Function = kernel.function
        self._special_parameters = kernel.special_parameters
        self.arguments = Arguments(kernel, op, constants)
        self._real = kernel.real
        self._single = [*map(type, op.outputs.values())] == [int]
        self._types = [o for name in op.outputs for o in op.types.many(name)]
        self.types = [*self._types, *self.arguments.coded.values()]

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """Compute the outputs, as `Bound`."""
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
