"""Calls on threads: what they return or raise, and one that does not come back."""

import time
from threading import Event
from weakref import ref

import pytest

from ep_nnapi.collection import paused_collection
from ep_nnapi.nnapi.deadline import called_for


def test_a_call_that_comes_back_gives_its_result() -> None:
    assert called_for(60, lambda: 5).result() == 5


@pytest.mark.parametrize("kind", [ValueError, TimeoutError, KeyboardInterrupt])
def test_its_exception_is_raised(kind: type[BaseException]) -> None:
    """Also one that means something else: a call may end with a TimeoutError of its own."""

    def call() -> None:
        raise kind("no")

    called = called_for(60, call)
    assert called.done()
    with pytest.raises(kind, match="no"):
        called.result()


def test_what_it_raised_is_freed_without_the_garbage_collector() -> None:
    """As are the frames that it has, and a session that one of these has."""

    class Own(Exception):
        pass

    def call() -> None:
        raise Own

    with paused_collection():
        called = called_for(60, call)
        try:
            called.result()
        except Own as error:
            raised = ref(error)
        del called
        until = time.monotonic() + 10
        while raised() is not None and time.monotonic() < until:
            time.sleep(0.01)  # the thread is about to end
        assert raised() is None


def test_a_call_that_does_not_come_back_is_not_done() -> None:
    may_end = Event()
    called = called_for(0.01, may_end.wait)
    assert not called.done()
    may_end.set()
    assert called.result(60)
