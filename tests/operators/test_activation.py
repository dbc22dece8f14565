"""Activation functions against ONNX's reference and float64 formulas."""

import numpy as np
import pytest
from scipy import special

from ep_nnapi.nnapi.errors import Reason
from tests.cases import each
from tests.oracle import FL, accepts, emitted, f16, f32, i32, matches, node, on_cpu, rejects


def number(value, dtype=np.float32):
    return np.array(value, dtype)


RANGES = {
    "0 and up": (0.0, None, ["RELU"]),
    "-1 to 1": (-1.0, 1.0, ["RELU1"]),
    "0 to 6": (0.0, 6.0, ["RELU6"]),
    "0 to the greatest": (0.0, 3.4028234663852886e38, ["RELU"]),
    "general": (-0.5, 1.5, ["MAXIMUM", "MINIMUM"]),
    "up to": (None, 1.5, ["MINIMUM"]),
    "from": (-0.5, None, ["MAXIMUM"]),
    "unbounded": (None, None, ["RESHAPE"]),
    "0 to infinity": (0.0, np.inf, ["RELU"]),
    "from the least": (-3.4028234663852886e38, None, ["RESHAPE"]),
    "reversed": (1.0, -1.0, ["MAXIMUM", "MINIMUM"]),
}


@pytest.mark.parametrize(("low", "high", "operations"), RANGES.values(), ids=RANGES)
def test_clip_11_matches(low, high, operations):
    bounds = [None if b is None else number(b) for b in (low, high)]
    case = node("Clip", f32(2, 30, low=-9, high=9), *bounds, opset=12)
    assert emitted(case, FL[8]) == operations
    matches(case, FL[8])


@pytest.mark.parametrize(("low", "high", "operations"), RANGES.values(), ids=RANGES)
def test_clip_6_matches(low, high, operations):
    attributes = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
    case = node("Clip", f32(2, 30, low=-9, high=9), opset=6, **attributes)
    assert emitted(case, FL[8]) == operations
    matches(case, FL[8])


@each("bounds", [(None, number(4)), (number(-3), None), (None, None), (number(0), None)])
def test_clip_without_a_bound_keeps_infinities(bounds):
    """As ONNX's evaluator does; ONNX Runtime's kernel makes the greatest finite numbers of them."""
    case = node("Clip", f32(5), *bounds, opset=13)
    matches(case, FL[8], feeds={"x0": [-np.inf, -5, 0, np.inf, np.nan]})


def test_clip_by_computed_bounds_matches():
    case = node("Clip", f32(2, 30), f32(low=-1, high=0), f32(low=0, high=1))
    assert emitted(case, FL[8]) == ["MAXIMUM", "MINIMUM"]
    matches(case, FL[3])
    matches(node("Clip", f32(2, 3, 1, 2, 2), f32(), number(1)), FL[3])


def test_clip_of_other_types_matches():
    low, high = number(-3, np.int32), number(4, np.int32)
    matches(node("Clip", i32(2, 30), low, high), FL[3])
    matches(node("Clip", i32(2, 30), number(0, np.int32), number(6, np.int32)), FL[3])
    halves = node("Clip", f16(2, 30), number(-0.5, np.float16), number(0.5, np.float16))
    matches(halves, FL[3])


def test_clip_levels():
    accepts(node("Clip", f32(3), number(0), number(6)), FL[1])
    general = node("Clip", f32(3), number(0), number(5))
    accepts(general, FL[3])
    rejects(general, FL[2], Reason.LEVEL, "MAXIMUM")


SLOPES = {
    "one": ((2, 3, 4, 5), (1,)),
    "scalar": ((2, 3, 4, 5), ()),
    "channels": ((2, 3, 4, 5), (3, 1, 1)),
    "all": ((2, 3, 4, 5), (2, 3, 4, 5)),
    "last": ((2, 3), (3,)),
    "rank 5": ((2, 3, 2, 2, 2), (3, 1, 1, 1)),
}


@pytest.mark.parametrize(("shape", "slope"), SLOPES.values(), ids=SLOPES)
@pytest.mark.parametrize("target", [FL[1], FL[8]], ids=["composed", "PRELU"])
def test_prelu_matches(shape, slope, target):
    slopes = np.random.default_rng(0).uniform(-1, 2, slope).astype(np.float32)
    matches(node("PRelu", f32(*shape), slopes), target)
    matches(node("PRelu", f32(*shape), f32(*slope)), target)


@pytest.mark.parametrize("target", [FL[1], FL[8]], ids=["composed", "PRELU"])
def test_prelu_with_slopes_of_more_elements_is_refused(target):
    """ONNX's inference gives the output the input's shape; ONNX Runtime's kernel enlarges it."""
    case = node("PRelu", f32(1), f32(2))
    rejects(case, target, Reason.SHAPE, "slopes [2] do not broadcast to [1]")


def test_prelu_is_one_operation_where_the_level_has_it():
    case = node("PRelu", f32(2, 3), f32(3))
    assert emitted(case, FL[3]) == ["PRELU"]
    assert "PRELU" not in emitted(case, FL[2])
    assert emitted(node("LeakyRelu", f32(2, 3)), FL[3]) == ["PRELU"]


def test_hard_sigmoid_of_a_sixth_needs_no_product():
    assert emitted(node("HardSigmoid", f32(3), alpha=1 / 6), FL[1]) == ["ADD", "MUL"]
    matches(node("HardSigmoid", f32(99, low=-5, high=5), alpha=1 / 6), FL[1], atol=2e-7)


@pytest.mark.parametrize("bound", [(0,), (2,)])
def test_clip_to_other_than_one_number_is_refused(bound):
    case = node("Clip", f32(2, 3), np.zeros(bound, np.float32))
    rejects(case, FL[8], Reason.SHAPE, "it must be one number")


def test_gelu_beyond_4():
    numbers = np.linspace(-1e4, 1e4, 200_001, dtype=np.float32)
    wide = numbers.astype(np.float64)
    reference = [(wide * special.ndtr(wide)).astype(np.float32)]
    for opset in (20, 21):
        case = node("Gelu", f32(len(numbers)), opset=opset)
        matches(case, FL[1], atol=4e-7, rtol=2e-7, reference=reference, feeds={"x0": numbers})


def test_gelu_by_tanh_matches():
    matches(node("Gelu", f32(2, 300, low=-9, high=9), approximate="tanh"), FL[1], atol=1e-6)


def test_swish_matches():
    numbers = np.linspace(-30, 30, 1001, dtype=np.float32)
    wide = numbers.astype(np.float64)
    reference = [(wide / (1 + np.exp(-1.5 * wide))).astype(np.float32)]
    case = node("Swish", f32(1001), opset=24, alpha=1.5)
    matches(case, FL[1], atol=1e-6, rtol=1e-6, reference=reference, feeds={"x0": numbers})


def test_softplus_as_the_cpu_provider_has_it():
    matches(
        node("Softplus", f32(2, 50, low=-90, high=90)), FL[8], atol=1e-6, rtol=1e-6, oracle=on_cpu
    )
