"""Operands drawn at random, and recipes that make operations of them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode

F32, F16 = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16
I32, BOOL8 = OperandCode.TENSOR_INT32, OperandCode.TENSOR_BOOL8
Q8, Q8S = OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED
SYMM, Q16 = OperandCode.TENSOR_QUANT8_SYMM, OperandCode.TENSOR_QUANT16_ASYMM
FLOATS, BYTES = (F32, F16), (Q8, Q8S)
NUMBERS = (*FLOATS, *BYTES)
DATA = (*NUMBERS, I32)
ZERO_POINTS = {Q8: (0, 255), Q8S: (-128, 127), SYMM: (0, 0), Q16: (0, 0)}
Dims = Sequence[int]


@dataclass(frozen=True)
class Given:
    """An operand as a client declares it.

    numbers   as the client stores them; None: any
    constant  whether a parameter, which always is a constant of the model
    """

    code: OperandCode
    dims: tuple[int, ...] = ()
    scale: float = 0.0
    zero_point: int = 0
    numbers: Any = None
    constant: bool = False

    def like(self, *dims: int) -> "Given":
        """Quantized alike, of other dimensions."""
        return replace(self, dims=dims, numbers=None)

    def array(self, r: random.Random) -> np.ndarray:
        """The numbers, in the type that the client stores."""
        numbers = self.numbers
        if numbers is None and self.code in FLOATS:
            numbers = [r.uniform(-2, 2) for _ in range(prod(self.dims))]
        elif numbers is None:
            low, high = (0, 1) if self.code is BOOL8 else ZERO_POINTS.get(self.code, (0, 255))
            numbers = [r.randint(low, high) for _ in range(prod(self.dims))]
        return np.array(numbers).astype(self.code.numpy).reshape(self.dims)


class Operation(NamedTuple):
    """One operation's operands."""

    inputs: list[Given]
    outputs: list[Given]


class Draw:
    """Random operands."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def size(self, low: int = 1, high: int = 5) -> int:
        return self.r.randint(low, high)

    def dims(self, rank: int) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(rank))

    def chance(self, likely: float = 0.5) -> bool:
        return self.r.random() < likely

    def axis(self, rank: int) -> int:
        return self.r.randint(-rank, rank - 1)

    def tensor(self, code: OperandCode, dims: Dims, numbers: Any = None) -> Given:
        """Of any scale and zero point, if quantized."""
        if code not in ZERO_POINTS:
            return Given(code, tuple(dims), numbers=numbers)
        zero_point = self.r.randint(*ZERO_POINTS[code])
        return Given(code, tuple(dims), self.r.uniform(0.1, 2), zero_point, numbers)

    def real(self, code: OperandCode, low: float, high: float) -> Given:
        """A scalar beside tensors of the type."""
        kind = OperandCode.FLOAT16 if code is F16 else OperandCode.FLOAT32
        return Given(kind, numbers=self.r.uniform(low, high), constant=True)

    def activation(self) -> Given:
        return integer(self.r.randint(0, 3))

    def until(self, make: Callable[[], Operation | None]) -> Operation:
        """The first result, of many trials."""
        return next(made for made in (make() for _ in range(1000)) if made is not None)


def integer(value: int) -> Given:
    return Given(OperandCode.INT32, numbers=value, constant=True)


def flag(value: bool) -> Given:
    return Given(OperandCode.BOOL, numbers=value, constant=True)


def integers(values: Any) -> Given:
    return Given(I32, np.shape(values), numbers=values, constant=True)


Make = Callable[[Draw, OperandCode, int], Operation]


class Recipe(NamedTuple):
    """One operation, on one type and rank."""

    name: str
    code: OperandCode
    rank: int
    make: Make

    def __str__(self) -> str:
        return f"{self.name} {self.code.name} of rank {self.rank}"


def recipes(
    names: str, codes: Sequence[OperandCode], make: Make, ranks: Sequence[int] = (1, 2, 3, 4)
) -> list[Recipe]:
    """One for each name, type and rank."""
    return [Recipe(n, c, r, make) for n in names.split() for c in codes for r in ranks]
