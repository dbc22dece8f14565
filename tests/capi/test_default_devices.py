"""Where compilations run whose client names no device."""

from collections.abc import Callable

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.capi.compilation import COMPILATIONS
from ep_nnapi.nnapi.capi.device import default_devices, runtime, work
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import BOOL8, F32, I32
from ep_nnapi.ort_devices.device import LARGE
from tests.capi.world import World
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


def gather() -> Model:
    """Its constant counts, and its output's unknown size as 1."""
    net = Network()
    table, index = net.tensor(np.ones((7, 3)), F32), net.add(Operand(I32, (2,)))
    out = Operand(F32, (0, 3))
    return net.model([index], [net.operation(spec.GATHER, [table, net.scalar(0), index], out)])


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


def test_large_models_are_tried_on_host_cpu_first() -> None:
    every = runtime().devices()
    names = [[d.name for d in default_devices(m, every)] for m in (convolution(19), convolution(5))]
    assert work(convolution(18)) < LARGE < work(convolution(19))
    assert names == [["host-cpu", "nnapi-reference"], ["nnapi-reference", "host-cpu"]]
    assert default_devices(None, every) == every


def test_compilations_without_a_device_run_where_their_work_belongs(world: World) -> None:
    chosen = []
    for size in (2, LARGE):
        compilation = world.ready(model=world.finished(dims=(size,)), for_device=False)
        chosen.append(COMPILATIONS[compilation]._compiled[0].name)
    assert chosen == ["nnapi-reference", "host-cpu"]
