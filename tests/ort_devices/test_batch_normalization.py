"""Scale and shift of an image's channels, in the layout of convolutions and in others."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Operand
from ep_nnapi.nnapi.spec import F32
from tests.ort_devices.expressions import Expression, differences, operators

ROUNDED = 5e-6
"""Sums of 16 x 9 products of numbers up to 1, added in another order."""
ROUNDED_TWICE = 1e-4
"""Then sums of 16 x 9 products of numbers up to 20: 2880 rounded to 24 bits."""


def scaled(
    channels: int = 16,
    scale: tuple[int, ...] | None = None,
    activation: int = 0,
    *,
    convolved: bool = True,
) -> tuple[Expression, int]:
    """A convolution, a product and a sum with constants, and a convolution."""
    net = Expression((1, 6, 6, channels))
    out = Operand(F32, (1, 6, 6, channels))
    x = net.conv(net.x, channels, out) if convolved else net.x
    product = net.two(spec.MUL, x, net.numbers(*(scale or (1, 1, 1, channels))))
    return net, net.two(spec.ADD, product, net.numbers(channels), activation)


@pytest.mark.parametrize("activation", [0, 1], ids=["plain", "relu"])
def test_it_is_one_node_between_convolutions(activation):
    net, y = scaled(activation=activation)
    model = net.ends(net.conv(y, 16, Operand(F32, (1, 6, 6, 16))))
    found = operators(model)
    assert (found["BatchNormalization"], found["Relu"]) == (1, activation)
    assert found["Mul"] == found["Add"] == 0
    assert differences(model) == pytest.approx([0], abs=ROUNDED_TWICE)


@pytest.mark.parametrize(
    "options",
    [
        {"channels": 15},
        {"scale": (6, 16)},
        {"scale": (1,)},
        {"activation": 3},
        {"convolved": False},
    ],
    ids=["no blocks", "a scale for each column", "one scale", "RELU6", "no convolution"],
)
def test_other_products_and_sums_are_computed_step_by_step(options):
    net, y = scaled(**options)
    model = net.ends(y)
    found = operators(model)
    assert found["BatchNormalization"] == 0
    assert found["Mul"] == found["Add"] == 1
    assert differences(model) == pytest.approx([0], abs=ROUNDED)


def test_a_product_that_others_read_stays():
    net, y = scaled()
    model = net.ends(y, net.operations[-2].outputs[0])
    assert operators(model)["BatchNormalization"] == 0
    assert differences(model) == pytest.approx([0, 0], abs=ROUNDED)
