"""Sessions may be run, made and dropped from any thread; they leave nothing behind."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from tests.end_to_end.growth import grown
from tests.end_to_end.sessions import DIGITS, EXAMPLES, WAYS, Example, quiet, same
from tests.onnx_graph import serialized

THREADS = 8
durations = pytest.mark.parametrize("seconds", [0.5, pytest.param(30, marks=pytest.mark.long)])
example = pytest.mark.parametrize("model", EXAMPLES)


def in_threads(work: Callable[[int], None], seconds: float) -> int:
    """Repeats `work(number)` in THREADS threads, at least once; how often it was done."""
    end, together = monotonic() + seconds, threading.Barrier(THREADS)

    def repeat(number: int) -> int:
        together.wait()
        done = 0
        while monotonic() < end or not done:
            work(number)
            done += 1
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(repeat, range(THREADS)))


@durations
@example
def test_threads_share_a_session(model: Example, seconds: float):
    session = WAYS["append_execution_provider"](str(model.path), quiet())
    inputs = model.digits()[:THREADS]
    wanted = [model.run(model.cpu(), x) for x in inputs]

    def work(number: int) -> None:
        same(model.run(session, inputs[number]), wanted[number])

    assert in_threads(work, seconds) >= THREADS


@durations
@example
def test_threads_make_their_own_sessions(model: Example, seconds: float):
    inputs = model.digits()[:THREADS]
    wanted = [model.run(model.cpu(), x) for x in inputs]
    ways = list(WAYS.values())

    def work(number: int) -> None:
        session = ways[number % 2](str(model.path), quiet())
        same(model.run(session, inputs[number]), wanted[number])

    assert in_threads(work, seconds) >= THREADS


def large(folder: Path) -> Path:
    """A model with 2 MB of weights."""
    path, w = folder / "large.onnx", np.ones((512, 1024), np.float32)
    text = "(float[1,512] x) => (float[1,1024] y) { a = Abs (x) y = MatMul (a, w) }"
    path.write_bytes(serialized(text, w=w))
    return path


@pytest.mark.parametrize(
    "way", ["append_execution_provider", pytest.param("providers", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("weights", ["few", pytest.param("2 MB", marks=pytest.mark.long)])
def test_dropped_sessions_leave_nothing(way: str, weights: str, tmp_path: Path):
    """Of 100, the first 40 warm the allocators up; the rest may grow memory by 8 MB."""
    found = grown(way, DIGITS.path if weights == "few" else large(tmp_path))
    assert found.resident < 8e6
    assert found.objects == 0
