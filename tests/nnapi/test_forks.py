"""Locks and pools are made anew in a forked process."""

import os
from threading import Event, Thread

import pytest

from ep_nnapi.nnapi.forks import ForkableLock, keep_in_children, renew_after_fork
from tests.programs import in_child


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


class Owner:
    """Counts the objects that were released."""

    released = 0

    def __init__(self) -> None:
        keep_in_children(self)

    def __del__(self) -> None:
        Owner.released += 1


def test_a_forked_process_releases_its_own_sessions_alone() -> None:
    Owner.released = 0
    owners = [Owner(), Owner()]

    def check() -> int:
        own = Owner()
        owners.clear()
        del own
        return Owner.released

    assert in_child(check) == 1
    owners.pop()
    assert Owner.released == 1


def test_a_process_forked_from_a_forked_one_keeps_the_sessions_of_both() -> None:
    Owner.released = 0
    owners = [Owner()]

    def check() -> int:
        owners.append(Owner())
        return in_child(lambda: owners.clear() or Owner.released)

    assert in_child(check) == 0
