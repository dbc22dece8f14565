"""While several runs are going, BLAS has one thread; then again what it had."""

import subprocess
import sys
from pathlib import Path
from threading import Event, Thread, Timer
from time import sleep

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from ep_nnapi.nnapi.host import concurrent_runs
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS, ConcurrentRuns, set_blas_threads
from tests.programs import in_child

ROOT = Path(__file__).parents[3]


def threads() -> set[int]:
    return {pool["num_threads"] for pool in ThreadpoolController().info()}


@pytest.fixture(autouse=True)
def _three_threads():
    """numpy's BLAS, and scipy's when a test before has loaded it, as if they had three cores."""
    with threadpool_limits(3, user_api="blas"):
        for pool in ThreadpoolController().select(user_api="blas").lib_controllers:
            set_blas_threads(pool, 3)  # so that other threads may set them too
        if threads() != {3}:
            pytest.skip("numpy's BLAS here has no number of threads to set")
        yield


def once_a_thread_forks(event: Event) -> None:
    """Sets the event when a thread waits to fork, and a fork that does not wait would be over."""

    def work() -> None:
        while CONCURRENT_RUNS._forking is None:
            sleep(0.001)
        sleep(0.05)
        event.set()

    Thread(target=work).start()


def test_one_run_has_every_core():
    with ConcurrentRuns():
        assert threads() == {3}


def test_two_runs_have_a_thread_each_until_both_have_left():
    runs = ConcurrentRuns()
    runs.__enter__()
    with runs:
        assert threads() == {1}
    assert threads() == {1}
    with runs:
        assert threads() == {1}
    runs.__exit__(None, None, None)
    assert threads() == {3}


def test_a_run_that_fails_leaves_too():
    runs = ConcurrentRuns()
    with pytest.raises(ZeroDivisionError), runs, runs:
        raise ZeroDivisionError
    assert threads() == {3}
    with runs:
        assert threads() == {3}


def test_the_run_that_leaves_last_may_be_another_threads():
    runs, leave = ConcurrentRuns(), Event()

    def run():
        with runs:
            leave.wait()

    other = Thread(target=run)
    with runs:
        other.start()
        while threads() != {1}:
            sleep(0.001)
    assert threads() == {1}
    leave.set()
    other.join()
    assert threads() == {3}


def test_a_forked_process_has_no_runs_of_other_threads():
    with CONCURRENT_RUNS, CONCURRENT_RUNS:

        def check() -> bool:
            with CONCURRENT_RUNS:
                return threads() != {3}

        assert in_child(check) == 0
        assert threads() == {1}
    assert threads() == {3}


def test_a_fork_waits_for_the_operations_of_other_threads():
    """A run that is between operations waits until the process has forked, and goes on then."""
    entered, between, over = Event(), Event(), Event()
    steps = []

    def run():
        with CONCURRENT_RUNS:
            entered.set()
            between.wait()
            steps.append("operation")
            CONCURRENT_RUNS.wait_for_fork()
            steps.append("next operation")
            over.wait()

    other = Thread(target=run)
    other.start()
    entered.wait()
    once_a_thread_forks(between)
    assert in_child(lambda: steps != ["operation"]) == 0
    over.set()
    other.join()
    assert steps == ["operation", "next operation"]


def test_two_threads_fork_one_after_the_other():
    ended = []

    def fork():
        with CONCURRENT_RUNS:
            for _ in range(20):
                ended.append(in_child(lambda: 0))
                CONCURRENT_RUNS.wait_for_fork()

    forking = [Thread(target=fork) for _ in range(2)]
    for thread in forking:
        thread.start()
    for thread in forking:
        thread.join(60)
    assert ended == [0] * 40


def test_runs_that_fork_at_the_same_time_do_so_one_after_the_other():
    """The first waits for the second to pause, which it does by waiting for its turn."""
    first_runs, second_runs, first_forks, ended = Event(), Event(), Event(), []

    def fork(runs: Event, go: Event) -> None:
        with CONCURRENT_RUNS:
            runs.set()
            go.wait(30)
            ended.append(in_child(lambda: 0))

    ways = ((first_runs, second_runs), (second_runs, first_forks))
    forking = [Thread(target=fork, args=events, daemon=True) for events in ways]
    once_a_thread_forks(first_forks)
    for thread in forking:
        thread.start()
    for thread in forking:
        thread.join(60)
    assert ended == [0, 0]


def test_so_they_do_if_a_pool_of_threads_is_imported_later():
    """Its own handler holds a lock while a process forks."""
    program = """
from tests.nnapi.host import test_concurrent_runs
import concurrent.futures.thread
test_concurrent_runs.test_runs_that_fork_at_the_same_time_do_so_one_after_the_other()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=ROOT)


def test_work_without_blas_leaves_blas_its_threads_and_forks_wait_for_it():
    runs = ConcurrentRuns()
    with runs.without_blas, runs.without_blas:
        assert threads() == {3}
    entered, over, events = Event(), Event(), []

    def work():
        with CONCURRENT_RUNS.without_blas:
            entered.set()
            over.wait()
            events.append("work")

    other = Thread(target=work)
    other.start()
    entered.wait()
    once_a_thread_forks(over)
    assert in_child(lambda: events != ["work"]) == 0
    other.join()


def test_the_end_of_a_process_waits_for_runs_and_they_pause(monkeypatch: pytest.MonkeyPatch):
    """A thread that an exit handler waits for goes on after the longest pause."""
    monkeypatch.setattr(concurrent_runs, "_LONGEST_PAUSE", 0.2)
    runs, begun, go, order = ConcurrentRuns(), Event(), Event(), list[str]()

    def work() -> None:
        with runs.without_blas:
            begun.set()
            go.wait(30)
            order.append("first run")
        with runs.without_blas:
            order.append("second run")

    worker = Thread(target=work)
    worker.start()
    begun.wait(30)
    Timer(0.1, go.set).start()
    runs.before_exit()
    with runs.without_blas:  # of the thread that ends the process
        order.append("own run")
    worker.join(30)
    assert order[0] == "first run"
    assert sorted(order[1:]) == ["own run", "second run"]
