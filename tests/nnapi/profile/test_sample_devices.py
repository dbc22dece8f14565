"""The rules of the sample devices."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.profile.sample_devices import RULES
from tests.nnapi.profile.make import I32, Q8, add, scalar, tensor, use

IMAGE, QUANTIZED = tensor(1, 4, 4, 2), tensor(1, 4, 4, 2, code=Q8)


def pool(filter_size: int, stride: int):
    window = [scalar(v) for v in (1, stride, stride, filter_size, filter_size, 0)]
    return use("MAX_POOL_2D", [IMAGE, *window], IMAGE)


def mean(*axes: int):
    indexes = tensor(len(axes), code=I32, value=list(axes))
    return use("MEAN", [IMAGE, indexes, scalar(1)], tensor(1, 1, 1, 2))


def softmax(beta: float):
    return use("SOFTMAX", [IMAGE, scalar(beta)], IMAGE)


@pytest.mark.parametrize(
    ("device", "asked", "supported"),
    [
        ("sample-float", add(), True),
        ("sample-float", use("RELU", [QUANTIZED], QUANTIZED), False),
        ("sample-quant", add(), False),
        ("sample-quant", use("RELU", [QUANTIZED], QUANTIZED), True),
        ("sample-minimal", add(), True),
        ("sample-minimal", use("RELU", [IMAGE], IMAGE), False),
        ("sample-float-engine", pool(1, 1), True),
        ("sample-float-engine", pool(1, 2), False),
        ("sample-float-engine", pool(2, 2), True),
        ("sample-float-engine", mean(1, 2), True),
        ("sample-float-engine", mean(1, 3), False),
        ("sample-float-engine", softmax(1.0), True),
        ("sample-float-engine", softmax(2.0), False),
        ("sample-float-engine", use("EXP", [IMAGE], IMAGE), False),
    ],
)
def test_rules(device: str, asked, supported: bool):
    assert RULES[device](asked) is supported
