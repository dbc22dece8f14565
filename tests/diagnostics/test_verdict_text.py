"""Sentences about a comparison: the largest difference, and who is less accurate."""

from __future__ import annotations

from math import inf

import pytest

from ep_nnapi.diagnostics.output_kinds import Kind
from ep_nnapi.diagnostics.verdict import Difference, LessAccurate, Verdict
from ep_nnapi.diagnostics.verdict_text import sentences


def difference(name: str, absolute: float | None, spread: float = 2.0) -> Difference:
    return Difference(name, Kind.FLOAT32, absolute, 2.0, spread, 1e-4)


def test_within_the_tolerance_one_sentence_says_it() -> None:
    found = (difference("a", 0.0), difference("b", 1e-5))
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
def test_beyond_the_tolerance_the_errors_of_both_are_named(
    less_accurate: LessAccurate, ends: str
) -> None:
    verdict = Verdict((difference("a", 0.5),), less_accurate, (0.25, 0.125), "float64")
    first, second = sentences(verdict)
    assert first == "0.25 of its spread in a: beyond the tolerance of 0.0001"
    assert second == f"Against float64, NNAPI is off by 0.25 and the CPU by 0.125: {ends}"


def test_without_a_reference_nobody_is_named() -> None:
    verdict = Verdict((difference("a", 0.5),), LessAccurate.UNKNOWN)
    assert sentences(verdict)[1].startswith("No more exact computation is possible")


def test_outputs_that_prove_nothing_are_named() -> None:
    constant, other = difference("a", 0.0, 0.0), difference("b", 0.0)
    assert sentences(Verdict((constant,)))[0].startswith("This comparison proves nothing: a holds")
    assert "proves nothing: a holds" in sentences(Verdict((constant, other)))[-1]


def test_another_shape_meets_no_tolerance() -> None:
    found = difference("a", None)
    assert found.relative == inf
    assert "a has another shape" in sentences(Verdict((found,), LessAccurate.NNAPI))[0]


def test_nothing_compared_nothing_said() -> None:
    assert sentences(Verdict()) == []


def test_a_constant_that_is_missed_has_no_spread_to_relate_to() -> None:
    (sentence, _) = sentences(Verdict((difference("a", 0.5, spread=0.0),), LessAccurate.UNKNOWN))
    assert sentence.startswith("a is 0.5 off where one value is expected throughout: no tolerance")
