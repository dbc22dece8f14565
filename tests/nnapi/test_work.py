"""Work of models."""

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.sizes import Trace
from ep_nnapi.nnapi.spec import BOOL8, F32, I32
from ep_nnapi.nnapi.work import most_work, work
from tests.ort_devices.networks import Network


def convolution(size: int) -> Model:
    """3 x 3, from 4 channels to 8: 36 products for each of 8 x size x size results."""
    net = Network()
    x = net.add(Operand(F32, (1, size, size, 4)))
    return net.model([x], [net.conv(x, 8, Operand(F32, (1, size, size, 8)))])


def depthwise() -> Model:
    net = Network()
    x = net.add(Operand(F32, (1, 5, 5, 4)))
    weights, bias = net.tensor(np.ones((1, 3, 3, 4)), F32), net.tensor(np.ones(4), F32)
    rest = [net.scalar(n) for n in (1, 1, 1, 1, 0)]  # SAME, strides, multiplier, activation
    y = Operand(F32, (1, 5, 5, 4))
    return net.model([x], [net.operation(spec.DEPTHWISE_CONV_2D, [x, weights, bias, *rest], y)])


def gather(rows: int = 0) -> Model:
    """Its constant counts, and its output's unknown size as 1."""
    net = Network()
    table, index = net.tensor(np.ones((7, 3)), F32), net.add(Operand(I32, (2,)))
    out = Operand(F32, (rows, 3))
    return net.model([index], [net.operation(spec.GATHER, [table, net.scalar(0), index], out)])


def product(rows: int) -> Model:
    net = Network()
    a, b = (net.add(Operand(F32, shape)) for shape in ((2, rows, 7), (2, 7, 4)))
    flags = [net.scalar(False) for _ in range(2)]
    out = Operand(F32, (2, rows, 4))
    return net.model([a, b], [net.operation(spec.BATCH_MATMUL, [a, b, *flags], out)])


def unknown_rank() -> Model:
    net = Network()
    x, w, bias = net.add(Operand(F32, (1, 5))), net.add(Operand(F32)), net.tensor(np.ones(2), F32)
    out = Operand(F32, (1, 2))
    inputs = [x, w, bias, net.scalar(0)]
    return net.model([x, w], [net.operation(spec.FULLY_CONNECTED, inputs, out)])


def normalization() -> Model:
    net = Network()
    x = net.add(Operand(F32, (1, 2, 2, 3)))
    rest = [net.scalar(n) for n in (1.0, 0.0, 1e-5)]
    layout = net.scalar(False)
    y = Operand(F32, (1, 2, 2, 3))
    return net.model([x], [net.operation(spec.INSTANCE_NORMALIZATION, [x, *rest, layout], y)])


def loop() -> Model:
    """Its models count once."""
    operand = Operand(BOOL8, (6,))
    inner = Network()
    flag = inner.add(operand)
    body = inner.model([flag], [inner.operation(spec.LOGICAL_NOT, [flag], operand)])
    net = Network()
    x = net.add(operand)
    models = [net.add(Operand(OperandCode.MODEL, value=body)) for _ in range(2)]
    return net.model([x], [net.operation(spec.WHILE, [*models, x], operand)])


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
