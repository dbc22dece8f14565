"""An option that is refused, and in which words."""

import pytest

from ep_nnapi import OptionError
from ep_nnapi.options.table import parse


def refused(given: dict[str, object], *parts: str) -> None:
    """`parse` refuses in one sentence that has these parts."""
    with pytest.raises(OptionError) as caught:
        parse(given)
    sentence = str(caught.value)
    assert "\n" not in sentence
    for part in parts:
        assert part in sentence
