"""Means on the device host-cpu: as a pool where that is as accurate as ReduceMean."""

import numpy as np
import pytest

from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.lowering.reduction import MOST_POOLED
from tests.ort_devices.expressions import Expression, operators

EDGE = round(MOST_POOLED**0.5)
FAR = 50.0  # from 0, in steps of 1: rounding errors of a running sum add up
ACCURATE = 3e-6  # relative; 2e-6 and 1.4e-6 measured, 1.6e-5 for a pool of 512 x 512


def mean_of(*shape: int) -> Expression:
    net = Expression(shape)
    net.y = net.mean(net.x, (2, 3))
    return net


@pytest.mark.parametrize("size", [EDGE, EDGE + 1, 512])
def test_the_mean_of_an_image_is_accurate(size: int):
    net = mean_of(1, 16, size, size)
    model = net.ends(net.y)
    assert operators(model)["GlobalAveragePool"] == (size == EDGE)
    assert operators(model)["ReduceMean"] == (size != EDGE)
    x = net.random.normal(FAR, 1, (1, 16, size, size)).astype(np.float32)
    runtime = HostRuntime((CpuDevice(threads=1),))
    (got,) = runtime.compile(model, runtime.devices()[0]).run([x])
    want = x.mean((2, 3), np.float64, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=ACCURATE)
