"""One judge of results: what is near enough by kind, what shows nothing, and who is further off."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from ep_nnapi.diagnostics.output_kinds import Kind, Traits
from ep_nnapi.diagnostics.output_traits import traits_of
from ep_nnapi.diagnostics.run_and_compare import compared
from ep_nnapi.diagnostics.verdict import (
    LessAccurate,
    ReferenceOutputs,
    Verdict,
    differences_of,
    verdict_of,
)
from ep_nnapi.diagnostics.verdict_text import sentences
from tests.ops.test_quantization import one
from tests.products import computed, exact, saturating

RAMP = np.linspace(0.0, 1.0, 11, dtype=np.float32)


def difference(got, want, traits: Traits | None = None):
    (found,) = differences_of([{"y": np.asarray(got)}], [{"y": np.asarray(want)}], traits)
    return found


def verdict(got, want, reference):
    runs = [[{"y": np.asarray(a, np.float32)}] for a in (got, want, reference)]
    found = differences_of(*runs[:2])
    return verdict_of(*runs[:2], found, lambda: ReferenceOutputs(runs[2], "float64"))


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_what_is_near_is_relative_to_the_spread(size: float) -> None:
    want = RAMP * np.float32(size)
    assert not difference(want + np.float32(0.9e-4 * size), want).exceeds
    assert difference(want + np.float32(1.2e-4 * size), want).exceeds


def test_rounding_of_large_values_is_no_difference() -> None:
    want = np.float32(1000) + RAMP * np.float32(1e-3)
    step = np.spacing(np.float32(1000))
    assert not difference(want + 2 * step, want).exceeds
    assert difference(want + 20 * step, want).exceeds


def test_float16_has_a_tolerance_of_its_own() -> None:
    want = RAMP.astype(np.float16)
    assert not difference(want + np.float16(4.4e-4), want).exceeds  # less than its epsilon
    assert difference(want + np.float16(0.05), want).exceeds
    assert not difference(RAMP + np.float32(1e-3), RAMP, Traits(half=True)).exceeds


def test_quantized_outputs_may_be_one_quantum_apart() -> None:
    stored = np.arange(4, dtype=np.uint8)  # a spread of 3: one quantum is a third of it
    assert not difference(stored + np.uint8(1), stored, Traits(quantized=True)).exceeds
    assert difference(stored + np.uint8(2), stored, Traits(quantized=True)).exceeds
    dequantized = Traits(quantized=True, steps={"y": 0.1})
    assert not difference(RAMP + np.float32(0.099), RAMP, dequantized).exceeds
    assert difference(RAMP + np.float32(0.11), RAMP, dequantized).exceeds


def test_integers_are_equal() -> None:
    assert not difference([3, 4], [3, 4]).exceeds
    assert difference([3, 5], [3, 4]).exceeds


def test_boxes_may_change_places() -> None:
    boxes = np.random.default_rng(0).uniform(0, 300, (5, 4)).astype(np.float32)
    traits = Traits(boxes=frozenset(("y",)))
    assert not difference(boxes[::-1], boxes, traits).exceeds
    assert difference(boxes[::-1], boxes).exceeds
    assert difference(boxes + np.float32(1), boxes, traits).exceeds
    assert difference(boxes[:4], boxes, traits).absolute is None


@pytest.mark.parametrize("value", [0.0, 7.0, np.nan, np.inf])
def test_one_value_throughout_shows_nothing(value: float) -> None:
    same = np.full(4, value, np.float32)
    found = verdict(same, same, same)
    assert found.shows_nothing
    assert not found.negative
    assert sentences(found)[0].startswith("This comparison proves nothing: y")
    other = np.float32([1, 2, 3, 4])
    assert verdict(other, same, other).less_accurate is not LessAccurate.NONE


def test_who_is_further_off() -> None:
    off, near = RAMP + np.float32(0.1), RAMP + np.float32(0.01)
    assert verdict(off, near, RAMP).less_accurate is LessAccurate.NNAPI
    assert verdict(near, off, RAMP).less_accurate is LessAccurate.CPU
    assert verdict(off, RAMP - np.float32(0.1), RAMP).less_accurate is LessAccurate.ALIKE
    assert (
        verdict(off, near, RAMP + np.float32(9)).less_accurate is LessAccurate.UNKNOWN
    )  # agrees with neither


def test_who_misses_a_constant() -> None:
    """Its spread is 0, so no error is relative to it: the constant itself is what near means."""
    right, off = np.full(4, 2, np.float32), np.float32([2, 2, 2, 2.5])
    found = verdict(off, right, right)
    assert (found.less_accurate, found.errors) == (LessAccurate.NNAPI, None)
    assert sentences(found)[1].endswith("NNAPI is further off.")
    assert verdict(right, off, right).less_accurate is LessAccurate.CPU
    assert verdict(off, off + 9, np.zeros(4, np.float32)).less_accurate is LessAccurate.UNKNOWN


def test_only_nnapi_or_nobody_is_negative() -> None:
    assert [s for s in LessAccurate if Verdict(less_accurate=s).negative] == [
        LessAccurate.NNAPI,
        LessAccurate.UNKNOWN,
    ]


def test_json_is_strict() -> None:
    got, want = np.float32([np.nan, 1]), np.float32([0, np.inf])
    found = verdict(got, want, want)
    data = [found.to_json(), *(d.to_json() for d in found.differences)]
    json.dumps(data, allow_nan=False)
    assert found.differences[0].to_json()["relative"] is None


def products() -> onnx.ModelProto:
    weights = np.random.default_rng(1).integers(-127, 128, (64, 8)).astype(np.int8)
    given = [0, np.float32(0.02), np.uint8(0), weights, np.float32(0.01), np.int8(0)]
    return one("QLinearMatMul", [(np.uint8, (4, 64))], [*given, np.float32(0.4), np.uint8(128)], 2)


def test_a_cpu_that_saturates_is_the_wrong_side() -> None:
    model = products()
    feeds = {"x0": np.random.default_rng(2).integers(128, 256, (4, 64)).astype(np.uint8)}
    right, wrong = ([{"y": computed(model, feeds, s)[0]}] for s in (exact, saturating))
    content = model.SerializeToString()
    assert traits_of(content).kind("y", right[0]["y"]) is Kind.QUANTIZED
    assert compared(content, [feeds], (right, right), None).less_accurate is LessAccurate.NONE
    assert compared(content, [feeds], (right, wrong), None).less_accurate is LessAccurate.CPU
    assert compared(content, [feeds], (wrong, right), None).less_accurate is LessAccurate.NNAPI
