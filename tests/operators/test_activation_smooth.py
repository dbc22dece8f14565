"""Smooth activations against float64 formulas."""

import numpy as np
from scipy import special

from tests.oracle import FL1, FL8, f32, matches, node, on_cpu


def test_gelu_beyond_4():
    numbers = np.linspace(-1e4, 1e4, 200_001, dtype=np.float32)
    wide = numbers.astype(np.float64)
    reference = [(wide * special.ndtr(wide)).astype(np.float32)]
    for opset in (20, 21):
        case = node("Gelu", f32(len(numbers)), opset=opset)
        matches(case, FL1, atol=4e-7, rtol=2e-7, reference=reference, feeds={"x0": numbers})


def test_gelu_by_tanh_matches():
    matches(node("Gelu", f32(2, 300, low=-9, high=9), approximate="tanh"), FL1, atol=1e-6)


def test_swish_matches():
    numbers = np.linspace(-30, 30, 1001, dtype=np.float32)
    wide = numbers.astype(np.float64)
    reference = [(wide / (1 + np.exp(-1.5 * wide))).astype(np.float32)]
    case = node("Swish", f32(1001), opset=24, alpha=1.5)
    matches(case, FL1, atol=1e-6, rtol=1e-6, reference=reference, feeds={"x0": numbers})


def test_softplus_as_the_cpu_provider_has_it():
    matches(
        node("Softplus", f32(2, 50, low=-90, high=90)), FL8, atol=1e-6, rtol=1e-6, oracle=on_cpu
    )
