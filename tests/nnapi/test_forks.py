"""Locks and pools are made anew in a forked process."""

import os
from threading import Event, Thread

import pytest

from ep_nnapi.nnapi.forks import ForkableLock, renew_after_fork


def in_child(check) -> int:
    """Result of `check` in a forked process, which has 60 seconds for it."""
    child = os.fork()
    if not child:
        import signal

        signal.alarm(60)
        os._exit(check())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def held():
    """A lock that another thread holds."""
    lock, holds, leave = ForkableLock(), Event(), Event()

    def hold():
        with lock:
            holds.set()
            leave.wait()

    holder = Thread(target=hold)
    holder.start()
    holds.wait()
    yield lock
    leave.set()
    holder.join()
    assert lock.acquire(blocking=False)


def test_a_lock_that_another_thread_holds_is_free_in_the_child(held):
    def take() -> int:
        with held:
            return 7

    assert in_child(take) == 7
    assert not held.acquire(blocking=False)


def test_a_lock_that_the_forking_thread_holds_is_given_back_on_both_sides():
    lock = ForkableLock()
    with lock:
        child = os.fork()
    if not child:
        os._exit(not lock.acquire(blocking=False))
    assert os.waitpid(child, 0)[1] == 0
    assert lock.acquire(blocking=False)


def test_things_learn_of_a_fork_as_long_as_they_live():
    class Thing:
        forked = 0

        def after_fork(self) -> None:
            self.forked += 1

    thing, gone = Thing(), Thing()
    renew_after_fork(thing)
    renew_after_fork(gone)
    del gone
    assert in_child(lambda: thing.forked) == 1
    assert thing.forked == 0
