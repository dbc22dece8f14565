"""While several runs are going, BLAS has one thread; then again what it had."""

import os
from threading import Thread

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from ep_nnapi.nnapi.host.together import TOGETHER, RunsTogether, set_threads


def threads() -> set[int]:
    return {pool["num_threads"] for pool in ThreadpoolController().info()}


@pytest.fixture(autouse=True)
def _three_threads():
    """numpy's BLAS, and scipy's when a test before has loaded it, as if they had three cores."""
    with threadpool_limits(3, user_api="blas"):
        for pool in ThreadpoolController().select(user_api="blas").lib_controllers:
            set_threads(pool, 3)  # so that other threads may set them too
        if threads() != {3}:
            pytest.skip("numpy's BLAS here has no number of threads to set")
        yield


def test_one_run_has_every_core():
    with RunsTogether():
        assert threads() == {3}


def test_two_runs_have_a_thread_each_until_both_have_left():
    together = RunsTogether()
    together.__enter__()
    with together:
        assert threads() == {1}
    assert threads() == {1}
    with together:
        assert threads() == {1}
    together.__exit__(None, None, None)
    assert threads() == {3}


def test_a_run_that_fails_leaves_too():
    together = RunsTogether()
    with pytest.raises(ZeroDivisionError), together, together:
        raise ZeroDivisionError
    assert threads() == {3}
    with together:
        assert threads() == {3}


def test_the_run_that_leaves_last_may_be_another_threads():
    together = RunsTogether()
    held = Thread(target=lambda: (together.__enter__(), together.__enter__()))
    held.start()
    held.join()
    assert threads() == {1}
    for _ in range(2):
        leaving = Thread(target=together.__exit__, args=(None, None, None))
        leaving.start()
        leaving.join()
    assert threads() == {3}


def test_a_forked_process_has_no_runs_of_other_threads():
    with TOGETHER, TOGETHER:
        child = os.fork()
        if not child:
            with TOGETHER:
                os._exit(threads() != {3})
        assert os.waitpid(child, 0)[1] == 0
        assert threads() == {1}
    assert threads() == {3}
