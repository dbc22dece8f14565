"""While several runs are going, BLAS has one thread; then again what it had."""

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from ep_nnapi.nnapi.host.together import RunsTogether


def threads() -> set[int]:
    return {pool["num_threads"] for pool in ThreadpoolController().info()}


@pytest.fixture(autouse=True)
def _three_threads():
    """numpy's BLAS, and scipy's when a test before has loaded it, as if they had three cores."""
    with threadpool_limits(3, user_api="blas"):
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
