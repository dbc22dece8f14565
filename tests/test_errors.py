"""Rejections, advice and lists of valid names."""

import pytest

from ep_nnapi.errors import ADVICE, valid_names
from ep_nnapi.nnapi.errors import Reason


def test_there_is_advice_for_every_reason():
    assert ADVICE.keys() == set(Reason)


def test_names_are_listed_once_in_order():
    assert valid_names("zzz", ["b", "a", "b"]) == "b, a"
    assert valid_names("zzz", []) == "none"


@pytest.mark.parametrize(("count", "ending"), [(12, "n11"), (13, "n11 and 1 more")])
def test_at_most_twelve_names_are_listed(count: int, ending: str):
    assert valid_names("zzz", (f"n{i}" for i in range(count))).endswith(ending)
