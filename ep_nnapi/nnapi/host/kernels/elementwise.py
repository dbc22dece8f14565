"""Kernels of element-wise binary operations, with broadcasting."""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.kernel import elementwise, stored
from ep_nnapi.nnapi.host.kernels.fused_activation import activate
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8S


def add(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Sum with fused activation. Source: NDK ANEURALNETWORKS_ADD."""
    np.add(input1, input2, out=out)
    activate(out, activation)


def sub(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Difference with fused activation. Source: NDK ANEURALNETWORKS_SUB."""
    np.subtract(input1, input2, out=out)
    activate(out, activation)


def mul(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Product with fused activation. Source: NDK ANEURALNETWORKS_MUL."""
    np.multiply(input1, input2, out=out)
    activate(out, activation)


def div(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Quotient with fused activation. Source: NDK ANEURALNETWORKS_DIV."""
    np.divide(input1, input2, out=out)
    activate(out, activation)


def div_integers(input1: Array, input2: Array, activation: int, *, out: Array) -> None:
    """Quotient rounded towards minus infinity. Source: NDK ANEURALNETWORKS_DIV."""
    np.floor_divide(input1, input2, out=out)
    activate(out, activation)


def power(base: Array, exponent: Array, *, out: Array) -> None:
    """Power. Source: NDK ANEURALNETWORKS_POW."""
    np.power(base, exponent, out=out)


def maximum(input1: Array, input2: Array, *, out: Array) -> None:
    """Element-wise maximum. Source: NDK ANEURALNETWORKS_MAXIMUM."""
    np.maximum(input1, input2, out=out)


def minimum(input1: Array, input2: Array, *, out: Array) -> None:
    """Element-wise minimum. Source: NDK ANEURALNETWORKS_MINIMUM."""
    np.minimum(input1, input2, out=out)


def prelu(input: Array, alpha: Array, *, out: Array) -> None:
    """Parametric ReLU: x, or alpha * x where negative. Source: NDK ANEURALNETWORKS_PRELU."""
    np.multiply(input, alpha, out=out)
    np.copyto(out, input, where=input >= 0)


def equal(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 == input2, per element. Source: NDK ANEURALNETWORKS_EQUAL."""
    np.equal(input1, input2, out=out)


def not_equal(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 != input2, per element. Source: NDK ANEURALNETWORKS_NOT_EQUAL."""
    np.not_equal(input1, input2, out=out)


def less(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 < input2, per element. Source: NDK ANEURALNETWORKS_LESS."""
    np.less(input1, input2, out=out)


def less_equal(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 <= input2, per element. Source: NDK ANEURALNETWORKS_LESS_EQUAL."""
    np.less_equal(input1, input2, out=out)


def greater(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 > input2, per element. Source: NDK ANEURALNETWORKS_GREATER."""
    np.greater(input1, input2, out=out)


def greater_equal(input1: Array, input2: Array, *, out: Array) -> None:
    """input1 >= input2, per element. Source: NDK ANEURALNETWORKS_GREATER_EQUAL."""
    np.greater_equal(input1, input2, out=out)


def logical_and(input1: Array, input2: Array, *, out: Array) -> None:
    """Logical AND. Source: NDK ANEURALNETWORKS_LOGICAL_AND."""
    np.logical_and(input1, input2, out=out)


def logical_or(input1: Array, input2: Array, *, out: Array) -> None:
    """Logical OR. Source: NDK ANEURALNETWORKS_LOGICAL_OR."""
    np.logical_or(input1, input2, out=out)


def select(condition: Array, input1: Array, input2: Array, *, out: Array) -> None:
    """Selects input1 where true, else input2. Source: NDK ANEURALNETWORKS_SELECT."""
    np.copyto(out, input2)
    np.copyto(out, input1, where=condition)


_DATA = (F32, F16, Q8, Q8S)
KERNELS = (
    elementwise(spec.ADD, add, *_DATA),
    stored(spec.ADD, add, I32),
    elementwise(spec.SUB, sub, *_DATA),
    stored(spec.SUB, sub, I32),
    elementwise(spec.MUL, mul, *_DATA),
    stored(spec.MUL, mul, I32),
    elementwise(spec.DIV, div, F32, F16, Q8S),
    stored(spec.DIV, div_integers, I32),
    elementwise(spec.POW, power, F32, F16),
    elementwise(spec.MAXIMUM, maximum, *_DATA),
    stored(spec.MAXIMUM, maximum, I32),
    elementwise(spec.MINIMUM, minimum, *_DATA),
    stored(spec.MINIMUM, minimum, I32),
    elementwise(spec.PRELU, prelu, *_DATA),
    elementwise(spec.EQUAL, equal, *_DATA),
    stored(spec.EQUAL, equal, I32, BOOL8),
    elementwise(spec.NOT_EQUAL, not_equal, *_DATA),
    stored(spec.NOT_EQUAL, not_equal, I32, BOOL8),
    elementwise(spec.LESS, less, *_DATA),
    stored(spec.LESS, less, I32, BOOL8),
    elementwise(spec.LESS_EQUAL, less_equal, *_DATA),
    stored(spec.LESS_EQUAL, less_equal, I32, BOOL8),
    elementwise(spec.GREATER, greater, *_DATA),
    stored(spec.GREATER, greater, I32, BOOL8),
    elementwise(spec.GREATER_EQUAL, greater_equal, *_DATA),
    stored(spec.GREATER_EQUAL, greater_equal, I32, BOOL8),
    stored(spec.LOGICAL_AND, logical_and, BOOL8),
    stored(spec.LOGICAL_OR, logical_or, BOOL8),
    elementwise(spec.SELECT, select, *_DATA),
    stored(spec.SELECT, select, I32),
)
