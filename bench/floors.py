"""Cases of the operations' benchmark, and the least time that numpy takes for their work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.nnapi.spec import F32, Q8

Floor = Callable[[], object]
_RANDOM = np.random.default_rng(20260808)


@dataclass(frozen=True, slots=True)
class Case:
    """An operation with its operands by name: arrays are tensors, the first one is the input."""

    name: str
    row: OperationSpec
    operands: Mapping[str, object]
    floor: Floor
    outputs: tuple[Operand, ...] = (Operand(F32),)


def reals(*shape: int) -> Array:
    """Numbers between 0.1 and 1, which every function takes."""
    return _RANDOM.uniform(0.1, 1, shape).astype(np.float32)


def bytes_(*shape: int) -> Array:
    """Numbers of TENSOR_QUANT8_ASYMM."""
    return _RANDOM.integers(0, 256, shape).astype(np.uint8)


def product(m: int, k: int, n: int) -> Floor:
    """The floor of m * k * n multiplications."""
    a, b, out = reals(m, k), reals(k, n), np.empty((m, n), np.float32)
    return lambda: np.matmul(a, b, out=out)


def each(function: Callable[..., object], size: int) -> Floor:
    """The floor of a function of that many elements."""
    a, out = reals(size), np.empty(size, np.float32)
    return lambda: function(a, out=out)


def copy(size: int, item: int = 4) -> Floor:
    """The floor of moving that many elements."""
    a, out = np.zeros(size * item, np.uint8), np.empty(size * item, np.uint8)
    return lambda: np.copyto(out, a)


def looked_up(size: int) -> Floor:
    """The floor of a function of that many bytes."""
    table, a, out = bytes_(256), bytes_(size), np.empty(size, np.uint8)
    return lambda: np.take(table, a, out=out, mode="clip")


def there_and_back(size: int) -> Floor:
    """The floor of computing with that many bytes: to float32 and back, in the cache."""
    a, real = bytes_(1 << 15), np.empty(1 << 15, np.float32)

    def floor() -> None:
        for _ in range(0, size, a.size):
            np.copyto(real, a)
            np.copyto(a, real, casting="unsafe")

    return floor


def repeated(ufunc: np.ufunc, a: Array, b: Array, times: int) -> Floor:
    """The floor of a function of two arrays, called so often."""
    out = np.empty_like(a)

    def floor() -> None:
        for _ in range(times):
            ufunc(a, b, out=out)

    return floor


SAME = {"padding": 1}
Q_OUT = (Operand(Q8, (), 0.05, 128),)
IMAGE = (1, 56, 56, 144)
PIXELS = 56 * 56 * 144


def strides(step: int) -> dict[str, object]:
    """Strides of a window, and no activation."""
    return {"stride_width": step, "stride_height": step, "activation": 0}
