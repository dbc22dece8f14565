"""Sessions may be run, made and dropped from any thread; they leave nothing behind."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from tests.end_to_end.sessions import DIGITS, EXAMPLES, WAYS, Example, quiet, same

THREADS = 8
durations = pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=pytest.mark.long)])
models = pytest.mark.parametrize("model", EXAMPLES)


def in_threads(work: Callable[[int], None], seconds: float) -> int:
    """Repeats `work(number)` in THREADS threads; how often it was done."""
    end, together = monotonic() + seconds, threading.Barrier(THREADS)

    def repeat(number: int) -> int:
        together.wait()
        done = 0
        while monotonic() < end:
            work(number)
            done += 1
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(repeat, range(THREADS)))


@durations
@models
def test_threads_share_a_session(model: Example, seconds: float):
    session = WAYS["append_execution_provider"](str(model.path), quiet())
    inputs = model.digits()[:THREADS]
    wanted = [model.run(model.cpu(), x) for x in inputs]

    def work(number: int) -> None:
        same(model.run(session, inputs[number]), wanted[number])

    assert in_threads(work, seconds) >= THREADS


@durations
@models
def test_threads_make_their_own_sessions(model: Example, seconds: float):
    inputs = model.digits()[:THREADS]
    wanted = [model.run(model.cpu(), x) for x in inputs]
    ways = list(WAYS.values())

    def work(number: int) -> None:
        session = ways[number % 2](str(model.path), quiet())
        same(model.run(session, inputs[number]), wanted[number])

    assert in_threads(work, seconds) >= THREADS


def resident() -> int:
    """Resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize(
    "way", ["append_execution_provider", pytest.param("providers", marks=pytest.mark.long)]
)
def test_dropped_sessions_leave_no_memory(way: str):
    """The first 50 warm the allocators up; the last 150 may grow memory by 8 MB."""
    x = DIGITS.random(1)[0]
    for i in range(200):
        session = WAYS[way](str(DIGITS.path), quiet())
        DIGITS.run(session, x)
        del session
        if i == 49:
            gc.collect()
            before = resident()
    gc.collect()
    assert resident() - before < 8e6
