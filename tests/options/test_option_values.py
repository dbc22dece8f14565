"""Values of options: lower-case names as users write them, the NDK's where it has them."""

from __future__ import annotations

import inspect
from enum import StrEnum

import pytest

from ep_nnapi.nnapi.codes import PreferenceCode, PriorityCode
from ep_nnapi.options import option_values
from ep_nnapi.options.option_values import Fallback, Preference, Priority
from ep_nnapi.options.table import parse, to_strings
from tests.refusal import refused

KINDS = {
    name: kind
    for name, kind in vars(option_values).items()
    if inspect.isclass(kind) and issubclass(kind, StrEnum) and kind is not StrEnum
}
OPTIONS = {
    "fallback": "Fallback",
    "dynamic_shapes": "DynamicShapes",
    "partitioning": "Partitioning",
    "relaxed": "Relaxed",
    "preference": "Preference",
    "priority": "Priority",
    "spinning": "Spinning",
}


def test_every_kind_belongs_to_an_option() -> None:
    assert set(OPTIONS.values()) == set(KINDS)


@pytest.mark.parametrize("option", OPTIONS)
def test_values_are_their_names_and_are_read_back(option: str) -> None:
    for value in KINDS[OPTIONS[option]]:
        assert value == value.name.lower()
        given = parse({option: str(value)})
        assert getattr(given, option) is value
        assert to_strings(given).get(option, str(getattr(parse({}), option))) == value


@pytest.mark.parametrize("option", OPTIONS)
def test_other_values_are_refused_with_those_that_there_are(option: str) -> None:
    refused({option: "other"}, option, "other", *KINDS[OPTIONS[option]])


@pytest.mark.parametrize(
    ("kind", "codes"), [(Preference, PreferenceCode), (Priority, PriorityCode)]
)
def test_the_ndks_names(kind: type[StrEnum], codes: type) -> None:
    """PRIORITY_DEFAULT of the NDK is another name of MEDIUM."""
    assert {value.name for value in kind} == {code.name for code in codes}


def test_a_failed_cluster_runs_elsewhere_unless_told_otherwise() -> None:
    assert parse({}).fallback is not Fallback.NONE
