"""Work of models."""

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.nnapi.spec import BOOL8, F32, I32
from ep_nnapi.nnapi.work import most_work, work
from tests.nnapi.build import one
from tests.ort_devices.networks import Network


def convolution(size: int) -> Model:
    """3 x 3, from 4 channels to 8: 36 products for each of 8 x size x size results."""
    net = Network(Operand(F32, (1, size, size, 4)))
    return net.model(net.conv(*net.inputs, 8, Operand(F32, (1, size, size, 8))))


def depthwise() -> Model:
    x, rest = Operand(F32, (1, 5, 5, 4)), (1, 1, 1, 1, 0)  # SAME, strides, multiplier, activation
    return one(spec.DEPTHWISE_CONV_2D, [x, np.ones((1, 3, 3, 4)), np.ones(4), *rest], [x])


def gather(rows: int = 0) -> Model:
    """Its constant counts, and its output's unknown size as 1."""
    given = np.ones((7, 3)), 0, Operand(I32, (2,))
    return one(spec.GATHER, given, [Operand(F32, (rows, 3))])


def product(rows: int) -> Model:
    a, b, out = (Operand(F32, shape) for shape in ((2, rows, 7), (2, 7, 4), (2, rows, 4)))
    return one(spec.BATCH_MATMUL, [a, b, False, False], [out])


def unknown_rank() -> Model:
    inputs = Operand(F32, (1, 5)), Operand(F32), np.ones(2), 0
    return one(spec.FULLY_CONNECTED, inputs, [Operand(F32, (1, 2))])


def normalization() -> Model:
    x = Operand(F32, (1, 2, 2, 3))
    return one(spec.INSTANCE_NORMALIZATION, [x, 1.0, 0.0, 1e-5, False], [x])


def loop() -> Model:
    """Its models count once."""
    operand = Operand(BOOL8, (6,))
    body = one(spec.LOGICAL_NOT, [operand], [operand])
    return one(spec.WHILE, [body, body, operand], [operand])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda: convolution(5), 36 * 8 * 25),
        (depthwise, 9 * 100),
        (gather, 3 + 21 + 1),
        (loop, 3 * 6),
    ],
)
def test_work(model: Callable[[], Model], expected: int) -> None:
    assert work(model()) == expected


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda: convolution(5), 36 * 8 * 25),
        (depthwise, 9 * 100),
        (lambda: gather(2), 6 + 21 + 1 + 2),
        (lambda: product(5), 40 * 7),
        (normalization, 12 * (12 + 4)),  # each element with every other one
        (gather, inf),
        (unknown_rank, inf),
        (loop, inf),
    ],
)
def test_most_work(model: Callable[[], Model], expected: float) -> None:
    assert most_work(model()) == expected


def test_sizes_of_symbols_count_as_they_are_now() -> None:
    trace = Trace()
    assert most_work(product(trace.size("rows", 5))) == 40 * 7
    assert not trace.conditions
