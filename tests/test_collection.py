"""The collection of reference cycles is off inside the block, and as before after it."""

import gc
from collections.abc import Iterator

import pytest

from ep_nnapi.collection import paused_collection


@pytest.fixture(autouse=True)
def _nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process of a user: the suite's is frozen, and counts nothing."""
    monkeypatch.undo()
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


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


def test_what_stays_is_not_visited_at_once() -> None:
    gc.collect()
    started: list[int] = []
    gc.callbacks.append(count := lambda phase, info: started.append(info["generation"]))
    try:
        with paused_collection():
            kept: list[list[int]] = [[] for _ in range(5 * gc.get_threshold()[0])]
        more: list[list[int]] = [[] for _ in range(gc.get_threshold()[0] // 2)]
    finally:
        gc.callbacks.remove(count)
    assert not started
    assert any(kept[0] is each for each in gc.get_objects(generation=2))
    assert len(more) > 1


def test_frozen_objects_of_the_process_stay_frozen() -> None:
    gc.freeze()
    try:
        with paused_collection():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
