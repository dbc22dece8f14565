"""Models with optional inputs on host-cpu."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import Compilation
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.ort_devices.device import CpuDevice
from tests.ort_devices.networks import Network

BATCHES, SIZE, UNITS, MEMORY = 2, 3, 4, 5
SEED = 7


def filters(bias: tuple[int, ...]) -> Model:
    """SVDF whose bias is an input of these dimensions."""
    net = Network(SEED)
    x = net.add(Operand(F32, (BATCHES, SIZE)))
    feature = net.tensor(net.random.standard_normal((UNITS, SIZE)), F32)
    time = net.tensor(net.random.standard_normal((UNITS, MEMORY)), F32)
    b = net.add(Operand(F32, bias))
    state = net.add(Operand(F32, (BATCHES, UNITS * MEMORY)))
    scalars = [net.scalar(1), net.scalar(0)]
    states = Operand(F32, (BATCHES, UNITS * MEMORY))
    first = net.operation(
        spec.SVDF, [x, feature, time, b, state, *scalars], states, Operand(F32, (BATCHES, UNITS))
    )
    return net.model([x, b, state], [first, first + 1])


def compiled(model: Model, device: object) -> Compilation:
    runtime = HostRuntime((device,))
    return runtime.compile(model, runtime.devices()[0])


def feeds(*, bias: bool) -> list[np.ndarray | None]:
    random = np.random.default_rng(SEED)
    shapes = ((BATCHES, SIZE), (UNITS,), (BATCHES, UNITS * MEMORY))
    x, b, state = (random.standard_normal(s).astype(np.float32) for s in shapes)
    return [x, b if bias else None, state]


@pytest.mark.parametrize(
    ("dimensions", "bias"),
    [((UNITS,), True), ((UNITS,), False), ((0,), False)],
    ids=["given", "left out", "left out as its dimensions let expect"],
)
def test_optional_inputs_may_be_left_out(dimensions, bias):
    model = filters(dimensions)
    ours, theirs = (
        compiled(model, device).run(feeds(bias=bias)) for device in (CpuDevice(), ReferenceDevice())
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, 0, 1e-5)  # sums of 5 products in another order


def test_an_input_of_unknown_size_is_refused_when_it_is_given():
    with pytest.raises(RuntimeFailure, match="the shape of operand 3 is unknown"):
        compiled(filters((0,)), CpuDevice()).run(feeds(bias=True))


def test_required_inputs_may_not_be_left_out():
    given = feeds(bias=True)
    given[0] = None
    with pytest.raises(RuntimeFailure, match="input 0 is missing, its value is required"):
        compiled(filters((UNITS,)), CpuDevice()).run(given)
