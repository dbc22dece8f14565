"""Sessions may be run, made and dropped from any thread; they leave nothing behind."""

import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import numpy as np
import onnxruntime
import pytest

from tests.ort.conftest import NAME, Install, start
from tests.ort.models import abs_add

THREADS = 8
SECONDS = 1


def in_threads(work) -> int:
    """Repeats `work(seed)` in THREADS threads for SECONDS, at least twice; how often in all."""
    end = monotonic() + SECONDS
    start_together = threading.Barrier(THREADS)

    def repeat(seed: int) -> int:
        start_together.wait()
        done = 0
        while monotonic() < end or done < 2:
            work(seed)
            done += 1
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(repeat, range(THREADS)))


def run_and_compare(session: onnxruntime.InferenceSession, seed: int) -> None:
    shape = (seed + 1, 7)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.abs(x) + x)


@pytest.mark.parametrize("mode", ["ORT_SEQUENTIAL", "ORT_PARALLEL"])
def test_threads_share_a_session(install: Install, mode: str):
    install("Abs", "Add", together=False)
    execution = getattr(onnxruntime.ExecutionMode, mode)
    session = start(abs_add(("n", "m")), execution_mode=execution, inter_op_num_threads=4)
    assert in_threads(lambda seed: run_and_compare(session, seed)) > THREADS


def test_threads_make_their_own_sessions(install: Install):
    install("Abs", "Add", together=True)
    serialized = abs_add(("n", "m"))
    assert in_threads(lambda seed: run_and_compare(start(serialized), seed)) > THREADS


def test_sessions_and_registrations_mix(install: Install):
    """Each thread makes and runs sessions while the library is registered under more names."""
    install("Abs")
    library = plugin_library()
    numbers = iter(range(10**6))

    def work(seed: int) -> None:
        if seed == 0:
            name = f"extra{next(numbers)}"
            onnxruntime.register_execution_provider_library(name, library)
            onnxruntime.unregister_execution_provider_library(name)
        else:
            run_and_compare(start(abs_add(("n", "m"))), seed)

    assert in_threads(work) > THREADS
    assert NAME in {device.ep_name for device in onnxruntime.get_ep_devices()}


def plugin_library() -> str:
    from ep_nnapi.ort.session import get_library_path

    return get_library_path()
