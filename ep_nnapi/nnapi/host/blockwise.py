"""Elementwise kernel calls: by a lookup table, or in blocks that fit into the CPU cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from math import prod

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.arguments import Values, as_array
from ep_nnapi.nnapi.host.codec import decode, encode, is_coded
from ep_nnapi.nnapi.host.kernel_call import KernelCall, Outs
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.model import Operand

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

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """Compute the outputs, as `Bound`."""
        bits = as_array(values[self._index]).view(np.uint8)
        if outs[0] is None:
            return [self._results[bits]]
        return [np.take(self._results, bits, out=outs[0], mode="clip")]


class BlockwiseCall:
    """An elementwise function, computed in blocks so that decoded values stay in the CPU cache."""

    def __init__(self, call: KernelCall, output: Operand) -> None:
        self._call = call
        self._output = output

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """Compute the outputs, as `Bound`."""
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
