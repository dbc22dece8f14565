"""Answers that follow from recorded samples."""

from __future__ import annotations

import pytest

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.profile.answers import Answer, Conditions, Profile
from ep_nnapi.nnapi.profile.form import form_of
from ep_nnapi.nnapi.runtime import Device
from tests.nnapi.profile.make import add


def traits(text: str) -> frozenset[str]:
    return frozenset(text.split())


BASE = traits("stride=1 filter=2 layout=no")
ASKED = {
    BASE: True,
    traits("stride=2 filter=2 layout=no"): True,
    traits("stride=1 filter=1 layout=no"): True,
    traits("stride=2 filter=1 layout=no"): False,  # both together
    traits("stride=1 filter=2 layout=yes"): False,
    traits("stride=2 filter=2 layout=yes"): False,  # follows from the one before
}


def test_declined_sets_are_the_smallest():
    found = Conditions.of(ASKED, BASE)
    assert found.declined == (traits("layout=yes"), traits("stride=2 filter=1"))
    assert found.supported == traits("stride=1 stride=2 filter=1 filter=2 layout=no")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("stride=1 filter=2 layout=no", Answer.SUPPORTED),
        ("stride=2 filter=2 layout=no", Answer.SUPPORTED),
        ("stride=2 filter=1 layout=no", Answer.DECLINED),
        ("stride=1 filter=1 layout=yes", Answer.DECLINED),
        ("stride=3 filter=2 layout=no", Answer.NOT_RECORDED),
        ("stride=3 filter=2 layout=yes", Answer.DECLINED),
    ],
)
def test_an_operation_is_supported_unless_a_check_fails(asked: str, answer: Answer):
    assert Conditions.of(ASKED, BASE).answer(traits(asked)) is answer


def test_the_exact_answer_comes_first_and_an_unknown_group_has_none():
    device = Device("d", DeviceCode.ACCELERATOR, "1", 8)
    use = add()
    form = form_of(use)
    group = (form.operation, form.types, form.ranks)
    conditions = Conditions(form.traits, ())

    def answer(groups, exact) -> Answer:
        return Profile(device, 8, groups, exact).answer(use, form)

    assert answer({group: conditions}, {}) is Answer.SUPPORTED
    assert answer({group: None}, {}) is Answer.DECLINED
    assert answer({}, {}) is Answer.NOT_RECORDED
    assert answer({group: conditions}, {use.digest: False}) is Answer.DECLINED
    assert answer({group: None}, {use.digest: True}) is Answer.SUPPORTED
