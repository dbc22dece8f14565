"""The collection of reference cycles is off inside the block, and as before after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ep_nnapi.collection import paused_collection


@pytest.fixture(params=[True, False], ids=["on", "off"])
def collects(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_collection_is_paused(collects: bool) -> None:
    with paused_collection():
        assert not gc.isenabled()
    assert gc.isenabled() == collects


def test_an_error_ends_the_pause(collects: bool) -> None:
    with pytest.raises(ValueError, match="inside"), paused_collection():
        raise ValueError("inside")
    assert gc.isenabled() == collects
