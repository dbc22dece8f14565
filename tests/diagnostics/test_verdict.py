"""One judge of results: what is near enough by kind, what shows nothing, and who is further off."""

import json
from dataclasses import replace
from math import inf

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.output_traits import (
    KNOWN,
    OutputKind,
    OutputTraits,
    known_differences,
    traits_of,
)
from ep_nnapi.diagnostics.run_and_compare import compared
from ep_nnapi.diagnostics.verdict import (
    Difference,
    ErrorMeasures,
    LessAccurate,
    ReferenceOutputs,
    Verdict,
    differences_of,
    sentences,
    verdict_of,
)
from ep_nnapi.operators import VARIANTS
from tests.onnx_graph import parsed
from tests.operators.test_conversion import one
from tests.products import computed, exact, saturating

RAMP = np.linspace(0.0, 1.0, 11, dtype=np.float32)


def difference(got, want, traits: OutputTraits | None = None):
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


def test_small_outputs_of_a_sigmoid_have_the_rounding_of_one() -> None:
    want, traits = RAMP * np.float32(1e-5), OutputTraits(up_to_one=frozenset("y"))
    got = want + np.float32(3e-7)
    assert difference(got, want).exceeds
    found = difference(got, want, traits)
    assert not found.exceeds
    assert not found.shows_nothing
    assert sentences(Verdict((found,))) == ["3e-07 in y: no more than rounding explains"]
    assert difference(want + np.float32(6e-7), want, traits).exceeds
    assert difference(want * np.float32(0.02), want * np.float32(0.01), traits).shows_nothing


def test_float16_has_a_tolerance_of_its_own() -> None:
    want = RAMP.astype(np.float16)
    assert not difference(want + np.float16(4.4e-4), want).exceeds  # less than its epsilon
    assert difference(want + np.float16(0.05), want).exceeds
    assert not difference(RAMP + np.float32(1e-3), RAMP, OutputTraits(half=True)).exceeds


@pytest.mark.parametrize("spread", [4, 250])
def test_quantized_outputs_may_be_two_quanta_apart(spread: int) -> None:
    """Whatever their spread: 5 % of a whole range are a dozen quanta, which is wrong."""
    stored = np.arange(spread, dtype=np.uint8)
    assert not difference(stored + np.uint8(2), stored, OutputTraits(quantized=True)).exceeds
    assert difference(stored + np.uint8(3), stored, OutputTraits(quantized=True)).exceeds
    dequantized = OutputTraits(quantized=True, steps={"y": 0.1})
    real = stored * np.float32(0.1)
    assert not difference(real + np.float32(0.2), real, dequantized).exceeds
    found = difference(real + np.float32(0.3), real, dequantized)
    assert found.exceeds
    text = "3 times the quantum 0.1 of y: beyond the tolerance of 2"
    assert sentences(Verdict((found,)))[0] == text
    assert found.to_json()["quantum"] == 0.1
    assert difference(real * 2, real, replace(dequantized, steps={"y": 0.0})).quantum is None


def test_real_numbers_and_classes_of_quantized_layers_have_no_quantum() -> None:
    for values in (RAMP, np.arange(11)):
        found = difference(values, values, OutputTraits(quantized=True))
        assert (found.quantum, found.tolerance) == (None, 0.05)


@pytest.mark.parametrize(("more", "who"), [(2, LessAccurate.ALIKE), (3, LessAccurate.NNAPI)])
def test_errors_that_are_two_quanta_apart_are_alike(more: int, who: LessAccurate) -> None:
    """Against a formula without rounding: 1 and 1 + `more`, to either side."""
    exact = np.linspace(10, 90, 9)
    got, want = ([{"y": (exact + by).astype(np.uint8)}] for by in (-1 - more, 1))
    found = differences_of(got, want, OutputTraits(quantized=True))
    reference = ReferenceOutputs([{"y": exact}], "the formula")
    assert verdict_of(got, want, found, lambda: reference).less_accurate is who


def test_integers_are_equal() -> None:
    assert not difference([3, 4], [3, 4]).exceeds
    assert difference([3, 5], [3, 4]).exceeds


def test_boxes_may_change_places() -> None:
    boxes = np.random.default_rng(0).uniform(0, 300, (5, 4)).astype(np.float32)
    traits = OutputTraits(boxes=frozenset(("y",)))
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
    expected = [LessAccurate.NNAPI, LessAccurate.UNKNOWN]
    assert [s for s in LessAccurate if Verdict(less_accurate=s).negative] == expected


def test_json_is_strict() -> None:
    got, want = np.float32([np.nan, 1]), np.float32([0, np.inf])
    found = verdict(got, want, want)
    data = [found.to_json(), *(d.to_json() for d in found.differences)]
    json.dumps(data, allow_nan=False)
    assert found.differences[0].to_json()["relative"] is None


def products() -> onnx.ModelProto:
    weights = np.random.default_rng(1).integers(-127, 128, (64, 8)).astype(np.int8)
    given = [0, np.float32(0.02), np.uint8(0), weights, np.float32(0.01), np.int8(0)]
    return one(
        "QLinearMatMul", [(np.uint8, (4, 64))], [*given, np.float32(0.4), np.uint8(128)], np.uint8
    )


def test_a_cpu_that_saturates_is_the_wrong_side() -> None:
    model = products()
    feeds = {"x0": np.random.default_rng(2).integers(128, 256, (4, 64)).astype(np.uint8)}
    right, wrong = ([{"y": computed(model, feeds, s)[0]}] for s in (exact, saturating))
    content = model.SerializeToString()
    assert traits_of(content).kind("y", right[0]["y"]) is OutputKind.QUANTIZED
    assert compared(content, [feeds], (right, right), None).less_accurate is LessAccurate.NONE
    assert compared(content, [feeds], (right, wrong), None).less_accurate is LessAccurate.CPU
    assert compared(content, [feeds], (wrong, right), None).less_accurate is LessAccurate.NNAPI


# Sentences about a comparison: the largest difference, and who is less accurate


def verdict_text_difference(name: str, absolute: float | None, spread: float = 2.0) -> Difference:
    return Difference(name, OutputKind.FLOAT32, absolute, 2.0, spread, 1e-4)


def test_within_the_tolerance_one_sentence_says_it() -> None:
    found = (verdict_text_difference("a", 0.0), verdict_text_difference("b", 1e-5))
    assert sentences(Verdict(found)) == ["5e-06 of its spread in b: within the tolerance of 0.0001"]


@pytest.mark.parametrize(
    ("less_accurate", "ends"),
    [
        (LessAccurate.NNAPI, "NNAPI is further off."),
        (LessAccurate.CPU, "the CPU is further off."),
        (LessAccurate.ALIKE, "NNAPI is no further off than the CPU."),
        (LessAccurate.UNKNOWN, "that does not tell which of them is wrong."),
    ],
)
def test_beyond_the_tolerance_the_errors_of_both_are_named(less_accurate: LessAccurate, ends: str):
    verdict = Verdict((verdict_text_difference("a", 0.5),), less_accurate, (0.25, 0.125), "float64")
    first, second = sentences(verdict)
    assert first == "0.25 of its spread in a: beyond the tolerance of 0.0001"
    assert second == f"Against float64, NNAPI is off by 0.25 and the CPU by 0.125: {ends}"


def test_without_a_reference_nobody_is_named() -> None:
    verdict = Verdict((verdict_text_difference("a", 0.5),), LessAccurate.UNKNOWN)
    assert sentences(verdict)[1].startswith("No more exact computation is possible")


def test_outputs_that_prove_nothing_are_named() -> None:
    constant, other = verdict_text_difference("a", 0.0, 0.0), verdict_text_difference("b", 0.0)
    assert sentences(Verdict((constant,)))[0].startswith("This comparison proves nothing: a holds")
    assert "proves nothing: a holds" in sentences(Verdict((constant, other)))[-1]


def test_another_shape_meets_no_tolerance() -> None:
    found = verdict_text_difference("a", None)
    assert found.relative == inf
    assert "a has another shape" in sentences(Verdict((found,), LessAccurate.NNAPI))[0]


def test_nothing_compared_nothing_said() -> None:
    assert sentences(Verdict()) == []


def test_a_constant_that_is_missed_has_no_spread_to_relate_to() -> None:
    (sentence, _) = sentences(
        Verdict((verdict_text_difference("a", 0.5, spread=0.0),), LessAccurate.UNKNOWN)
    )
    assert sentence.startswith("a is 0.5 off where one value is expected throughout: no tolerance")


# Measures of errors against their formulas, over one run and over several


def random_pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    want = rng.standard_normal((3, 5)).astype(np.float32)
    return (want + 0.1 * rng.standard_normal((3, 5))).astype(np.float32), want


@pytest.mark.parametrize("seed", range(3))
def test_formulas(seed: int):
    got, want = random_pair(seed)
    found = ErrorMeasures.of(got, want)
    a, b = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    assert found.maximum == np.abs(a - b).max()
    assert found.mean == pytest.approx(np.abs(a - b).mean(), rel=1e-12)  # float64 rounding
    assert found.cosine == pytest.approx(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), rel=1e-12)
    assert found.decibels == pytest.approx(10 * np.log10((b**2).sum() / ((a - b) ** 2).sum()))


def test_several_runs_are_measured_as_one_array():
    pairs = [random_pair(seed) for seed in range(4)]
    found = ErrorMeasures.over(ErrorMeasures.of(*pair) for pair in pairs)
    got, want = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    whole = ErrorMeasures.of(got, want)
    assert found.to_json() == pytest.approx(whole.to_json(), rel=1e-12)  # float64 rounding


def test_equal_arrays_have_no_noise():
    x = np.array([1.0, np.inf, np.nan, -2.0], np.float32)
    found = ErrorMeasures.of(x.copy(), x)
    assert (found.maximum, found.mean, found.cosine, found.decibels) == (0.0, 0.0, 1.0, inf)


@pytest.mark.parametrize(("beside", "beyond"), [(2.0, False), (2.1, True), (-np.inf, True)])
def test_the_least_number_and_minus_infinity_hide_alike(beside: float, beyond: bool) -> None:
    """ONNX Runtime's attention hides keys by the one, ONNX's definition by the other.

    Neither is part of the spread, to which the numbers beside them relate.
    """
    want = np.array([np.finfo(np.float32).min, 1.0, 2.0], np.float32)
    got = np.array([-np.inf, 1.0, beside], np.float32)
    found = difference(got, want)
    assert (found.spread, found.exceeds) == (1.0, beyond)
    assert (ErrorMeasures.of(got, want).maximum > 0.05) == beyond
    assert difference(-got, -want).exceeds
    half = np.array([np.finfo(np.float16).min, 1.0, 2.0], np.float16)
    assert difference(got.astype(np.float16), half).exceeds == beyond


@pytest.mark.parametrize(
    ("got", "want"),
    [([1.0, np.nan], [1.0, 2.0]), ([1.0, np.inf], [1.0, -np.inf]), ([1.0], [1.0, 2.0])],
    ids=["not a number", "another infinity", "another shape"],
)
def test_what_cannot_be_subtracted_is_infinitely_wrong(got: list[float], want: list[float]):
    found = ErrorMeasures.of(np.array(got), np.array(want))
    assert (found.maximum, found.mean, found.decibels) == (inf, inf, -inf)


@pytest.mark.parametrize(("got", "cosine", "decibels"), [(0.0, 1.0, inf), (1.0, 0.0, -inf)])
def test_zeros_have_no_direction(got: float, cosine: float, decibels: float):
    found = ErrorMeasures.of(np.full(3, got), np.zeros(3))
    assert (found.cosine, found.decibels) == (cosine, decibels)


def test_integers_do_not_overflow():
    found = ErrorMeasures.of(np.array([0, 255], np.uint8), np.array([255, 0], np.uint8))
    assert (found.maximum, found.mean) == (255.0, 255.0)


def test_no_elements_are_no_error():
    none = ErrorMeasures.of(np.empty((0, 3)), np.empty((0, 3)))
    assert (none.maximum, none.mean, none.elements) == (0.0, 0.0, 0)
    assert ErrorMeasures.over([]).maximum == 0.0


INF, NAN = float("inf"), float("nan")


def causes(op_type: str, *numbers: float, half: bool = False) -> str:
    operand = np.array([1.0, *numbers], np.float32)
    return " ".join(k.cause for k in known_differences([op_type], [operand], half=half))


def test_the_list_is_short_and_has_sources() -> None:
    assert len(KNOWN) <= 10
    assert all(k.source for k in KNOWN)
    known = {op_type for _, op_type in VARIANTS}
    assert all(k.op_types <= known for k in KNOWN)


@pytest.mark.parametrize(
    ("op_type", "within", "past", "cause"),
    [
        ("Clip", 3.4e38, INF, "limits an open end to the largest number"),
        ("MaxPool", INF, NAN, "order of NaN"),
        ("CumSum", 1e9, -INF, "zero times infinity"),
        ("Gemm", 1.8e19, 1.9e19, "order of sums"),
        ("Asinh", 1.8e19, 1.9e19, "what computes it overflows"),
        ("Cast", 2147483520.0, 2147483648.0, "the integer of NaN"),
        ("Cast", -1.0, NAN, "the integer of NaN"),
    ],
)
def test_values_at_the_limit_and_past_it(op_type: str, within: float, past: float, cause: str):
    assert cause not in causes(op_type, within)
    assert cause in causes(op_type, past)
    assert cause not in causes("Identity", past)


@pytest.mark.parametrize(("within", "past"), [(255.0, 257.0), (6.2e-5, 6e-5)])
def test_numbers_that_float16_lacks(within: float, past: float) -> None:
    assert not causes("Abs", 0.0, within, half=True)
    assert not causes("Abs", past)
    assert "float16" in causes("Abs", past, half=True)


@pytest.mark.parametrize("past", [2049.0, 1e-3, 1e5])
def test_numbers_that_float16_does_not_tell_apart(past: float) -> None:
    assert "tell apart" not in causes("Equal", 2048.0, -0.0, NAN, INF, half=True)
    assert "tell apart" in causes("Equal", past, half=True)
    assert not causes("Equal", past)


def test_integers_have_none() -> None:
    assert not known_differences(["Gemm"], [np.array([1 << 30])], half=False)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(("number", "told"), [(INF, True), (-INF, True), (NAN, True), (6e4, False)])
def test_numbers_that_are_no_integers(number: float, told: bool, dtype: type) -> None:
    found = known_differences(["Cast"], [np.array([1.0, number], dtype)], half=False)
    assert bool(found) is told


@pytest.mark.parametrize(("number", "told"), [(INF, True), (3e38, False)])
def test_compare_tells_the_cause(number: float, told: bool) -> None:
    """Of Relu as of Clip with a lower end, infinity differs and the largest numbers do not."""
    model = parsed("(float[3] x) => (float[3] y) { y = Clip <min = 0.0> (x) }", 10, 8)
    found = ep_nnapi.compare(
        model.SerializeToString(), {"x": np.array([number, -1, 1], np.float32)}, by_node=True
    )
    (node,) = found.nodes.values()
    assert ("A known difference: ONNX's Clip" in node.verdict.note) == told
    assert found.negative == told
