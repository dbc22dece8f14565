"""Means on the device host-cpu: as a pool where that is as accurate as ReduceMean."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.lowering.reduction import MOST_POOLED
from tests.nnapi.build import one
from tests.ort_devices.expressions import operators
from tests.ort_devices.networks import computed

EDGE = round(MOST_POOLED**0.5)
FAR = 50.0  # from 0, in steps of 1: rounding errors of a running sum add up
ACCURATE = 3e-6  # relative; 2e-6 and 1.4e-6 measured, 1.6e-5 for a pool of 512 x 512


@pytest.mark.parametrize("size", [EDGE, EDGE + 1, 512])
def test_the_mean_of_an_image_is_accurate(size: int):
    ends = (Operand(F32, (1, 16, *sizes)) for sizes in ((size, size), (1, 1)))
    model = one(spec.MEAN, [next(ends), np.array([2, 3]), 1], [*ends])
    assert operators(model)["GlobalAveragePool"] == (size == EDGE)
    assert operators(model)["ReduceMean"] == (size != EDGE)
    x = np.random.default_rng(1).normal(FAR, 1, (1, 16, size, size)).astype(np.float32)
    (got,) = computed(model, CpuDevice(threads=1), [x])
    want = x.mean((2, 3), np.float64, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=ACCURATE)
