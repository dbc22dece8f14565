"""Flaws: what follows from trials that are right and others that are not."""

import pytest

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.profile.flaws import (
    ANY_TYPES,
    Defect,
    Flaw,
    flaw_of,
    flaws_of,
    of_operation,
)
from ep_nnapi.nnapi.profile.form import Form


def traits(text: str) -> frozenset[str]:
    return frozenset(text.split())


NONE = traits("")
WRONG, WORSE = Flaw(NONE, Defect.WRONG, 0.5, 1e-5), Flaw(NONE, Defect.WRONG, None)
HANGS = Flaw(NONE, Defect.HANGS, detail="no end after 10 s")
BASE = traits("stride=1 filter=2 ranks=4")


def flawed(*causes: str) -> set[frozenset[str]]:
    return set(map(traits, causes))


def test_what_differs_from_a_right_one_is_the_cause() -> None:
    found = flaws_of(
        [
            (BASE, None),
            (traits("stride=2 filter=2 ranks=4"), WRONG),
            (traits("stride=1 filter=1 ranks=4"), None),
            (traits("stride=1 filter=3 ranks=4"), None),
            (traits("stride=2 filter=1 ranks=4"), WORSE),  # follows from the first one
        ]
    )
    assert {flaw.traits for flaw in found} == flawed("stride=2")


def test_other_values_or_sizes_of_the_same_form_make_it_wrong() -> None:
    right = [(traits(f"stride={n} filter=2 ranks=4"), None) for n in (2, 3, 4)]
    (found,) = flaws_of([(BASE, None), (BASE, WRONG), *right])
    assert found.traits == traits("stride=1")


def test_if_fewer_are_right_than_not_none_is() -> None:
    """Of one element, what is wrong is right by chance."""
    others = [(traits(f"stride={n} filter=2 ranks=4"), WRONG) for n in (2, 3)]
    (found,) = flaws_of([(BASE, None), *others])
    assert found.traits == NONE
    assert flaws_of([(BASE, None)]) == ()
    assert flaws_of([(BASE, WRONG), (BASE, HANGS), (BASE, WORSE)]) == (HANGS,)


def test_an_operation_of_which_nothing_is_right_has_one_flaw() -> None:
    assert of_operation("ADD", {"T": (WRONG,), "Q": (WORSE,)}) == {("ADD", ANY_TYPES): (WORSE,)}
    some = Flaw(traits("stride=2"), Defect.HANGS)
    assert of_operation("MUL", {"T": (some,)}) == {("MUL", "T"): (some,)}
    assert of_operation("MUL", {"T": (HANGS,), "Q": ()}) == {("MUL", "T"): (HANGS,)}
    assert of_operation("MUL", {"T": ()}) == {}


def test_an_operation_has_the_flaws_of_its_traits_and_ranks() -> None:
    flaws = {("ADD", "T"): (Flaw(traits("a=1 ranks=4"), Defect.WRONG, 1.0),)}
    assert flaw_of(flaws, Form("ADD", "T", "4", traits("a=1 b=1"))) is not None
    assert flaw_of(flaws, Form("ADD", "T", "2", traits("a=1 b=1"))) is None
    assert flaw_of(flaws, Form("ADD", "Q", "4", traits("a=1 b=1"))) is None
    assert flaw_of({("ADD", ANY_TYPES): (HANGS,)}, Form("ADD", "Q", "4", NONE)) == HANGS
    assert flaw_of({}, Form("ADD", "Q", "4", NONE)) is None


@pytest.mark.parametrize(
    ("flaw", "reason", "sentence"),
    [
        (WRONG, Reason.ACCURACY, "npu computes ADD wrongly: an error of 0.5, above 1e-05"),
        (
            WORSE,
            Reason.ACCURACY,
            "npu computes ADD wrongly: results that are no numbers or of another shape",
        ),
        (HANGS, Reason.DRIVER, "npu hangs in ADD (no end after 10 s)"),
        (
            Flaw(NONE, Defect.DIES, detail="SIGSEGV"),
            Reason.DRIVER,
            "npu ends its process in ADD (SIGSEGV)",
        ),
        (
            Flaw(NONE, Defect.FAILS),
            Reason.DRIVER,
            "npu fails in ADD, which it says it supports",
        ),
    ],
)
def test_sentences(flaw: Flaw, reason: Reason, sentence: str) -> None:
    assert (flaw.reason, flaw.sentence("npu", "ADD")) == (reason, sentence)
