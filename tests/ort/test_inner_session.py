"""Sessions through the C API give what those of Python's give, also around forks."""

import gc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Event, Thread

import numpy as np
import onnxruntime
import pytest

from ep_nnapi import receipts
from ep_nnapi.ort import inner_session
from ep_nnapi.ort import session as nnapi
from ep_nnapi.ort.inner_session import InnerSession, SessionError, open_inner_session
from ep_nnapi.sessions.device_session import SPIN_ALWAYS, DeviceModel, Threads
from tests.onnx_graph import model_of, serialized
from tests.programs import in_child


@pytest.fixture(autouse=True)
def registered() -> None:
    nnapi.register()


def opened(content: DeviceModel, threads: int = 1) -> InnerSession:
    found = open_inner_session(content, Threads(threads))
    assert found is not None
    return found


def scaled(size: int | str = 3, dtype: type = np.float32) -> DeviceModel:
    """y = w * x and z = y + x; w is the first of the weights."""
    nodes = "w = Gather (weights, first) y = Mul (x, w) z = Add (y, x)"
    weights = np.full(256, 3, dtype)
    given = {"x": (dtype, (size,)), "weights": (dtype, weights.shape)}
    known = (size if isinstance(size, int) else None,)
    made = model_of(nodes, given, dict.fromkeys("yz", (dtype, (size,))), {"first": np.array([0])})
    outputs = {"y": known, "z": known}
    return DeviceModel(made.SerializeToString(), ("x",), outputs, {"weights": weights})


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int64])
def test_results_are_those_of_the_model(dtype: type):
    x = np.arange(3).astype(dtype)
    y, z = opened(scaled(dtype=dtype)).run([x], [])
    np.testing.assert_array_equal(y, 3 * x, strict=True)
    np.testing.assert_array_equal(z, 4 * x, strict=True)


def test_weights_are_read_where_they_are():
    """They are in memory once, and constants for ONNX Runtime, not inputs."""
    weights = np.ones(256, np.float32)
    content = serialized("(float[256] x, float[256] w) => (float[256] y) { y = Add (x, w) }")
    added = DeviceModel(content, ("x",), {"y": weights.shape}, {"w": weights})
    session, x = opened(added), np.ones(256, np.float32)
    np.testing.assert_array_equal(session.run([x], [])[0], np.full(256, 2))
    weights[:] = 2
    np.testing.assert_array_equal(session.run([x], [])[0], np.full(256, 3))


def test_an_output_is_written_into_the_callers_array():
    x, out = np.ones(3, np.float32), np.zeros(3, np.float32)
    y, z = opened(scaled()).run([x], [None, out])
    assert z is out
    np.testing.assert_array_equal(out, 4 * x)
    np.testing.assert_array_equal(y, 3 * x)


def test_an_output_that_is_an_input_too_is_not_written():
    """The caller's array is written by the caller, when the run is over."""
    x = np.ones(3, np.float32)
    y, _ = opened(scaled()).run([x], [x, None])
    assert y is not x
    np.testing.assert_array_equal(x, np.ones(3))


def test_results_outlive_the_session():
    results = opened(scaled("n")).run([np.ones(4, np.float32)], [])
    gc.collect()
    np.testing.assert_array_equal(results[1], [4] * 4)


def test_a_scalar_and_no_elements_pass():
    content = serialized("(float x) => (float y) { y = Neg (x) }")
    one = DeviceModel(content, ("x",), {"y": ()})
    np.testing.assert_array_equal(opened(one).run([np.array(2, np.float32)], [])[0], -2)
    y, _ = opened(scaled("n")).run([np.zeros(0, np.float32)], [])
    assert y.shape == (0,)


def test_errors_are_those_of_onnx_runtime():
    with pytest.raises(SessionError, match="Got: 4 Expected: 3"):
        opened(scaled()).run([np.ones(4, np.float32)], [])
    with pytest.raises(SessionError, match="onnxruntime: "):
        opened(DeviceModel(b"no model", (), {}))
    with pytest.raises(SessionError, match="out of index"):
        opened(replace(scaled(), inputs=("x", "weights", "more")))


def test_a_run_can_be_terminated():
    session = opened(scaled())
    options = session.run_options()
    options.terminate = True
    with pytest.raises(SessionError, match="terminate flag"):
        session.run([np.ones(3, np.float32)], [], options)
    assert len(session.run([np.ones(3, np.float32)], [], session.run_options())) == 2


def test_threads_wait_for_the_first_run():
    """From their creation on they would spin, which takes some 40 ms of a processor each."""
    threads = tasks()
    session = InnerSession(scaled(), Threads(3, SPIN_ALWAYS))
    made = tasks() - threads
    assert len(made) == 2
    time.sleep(0.1)
    assert busiest(made) < 0.005
    session.run([np.ones(3, np.float32)], [])
    assert wait_until(lambda: busiest(made) > 0.005)
    del session
    assert wait_until(lambda: made.isdisjoint(tasks()))


def test_threads_that_wait_for_the_first_run_end_with_a_session_without_any():
    threads = tasks()
    session = InnerSession(scaled(), Threads(3, SPIN_ALWAYS))
    made = tasks() - threads
    del session
    assert wait_until(lambda: made.isdisjoint(tasks()))


@pytest.mark.fast_devices
def test_threads_wait_during_the_run_of_a_plan_which_the_planning_thread_does_alone():
    """A product of two rows is large enough to be computed by several threads."""
    weights = np.random.default_rng(0).standard_normal((1024, 2048), np.float32)
    model = model_of(
        "y = MatMul (x, w)",
        {"x": (np.float32, ("n", 1024))},
        {"y": (np.float32, ("n", 2048))},
        {"w": weights},
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    nnapi.append_execution_provider(options, intra_op_num_threads=3)
    threads = tasks()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    made = tasks() - threads
    assert len(made) == 2
    time.sleep(0.1)
    assert busiest(made) < 0.005
    x = np.ones((64, 1024), np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ weights, atol=1e-3)  # sums
    assert wait_until(lambda: busiest(made) > 0.005)
    assert receipts()[-1]["clusters"][0]["device_runs"] == 1


def tasks() -> set[int]:
    """This process's threads."""
    return {*map(int, os.listdir("/proc/self/task"))}


def busiest(threads: set[int]) -> float:
    """The most processor seconds of one of these threads of this process."""
    return max(time.clock_gettime(~thread << 3 | 6) for thread in threads)


def wait_until(holds: Callable[[], bool]) -> bool:
    """Returns True once it holds; False if it does not within seconds."""
    end = time.monotonic() + 10
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def test_a_session_runs_in_a_forked_process():
    session, x = opened(scaled(), 2), np.ones(3, np.float32)
    session.run([x], [])
    assert in_child(lambda: int(session.run([x], [])[1][0]) - 4) == 0


def test_a_forked_process_drops_a_session_without_waiting_for_its_threads():
    """They wait for work here, and are missing there."""
    sessions = [opened(scaled(), 2)]
    sessions[0].run([np.ones(3, np.float32)], [])
    time.sleep(0.2)  # until they have ended to look for work actively
    assert in_child(lambda: sessions.clear() or gc.collect() * 0) == 0


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """A run without Python that lasts until the event is set."""
    over = Event()
    monkeypatch.setattr(
        inner_session, "lib", Counting(inner_session.lib, lambda: 0 if over.is_set() else 1)
    )
    yield over
    over.set()


class Counting:
    """The library with another count of runs."""

    def __init__(self, lib: object, count: object) -> None:
        self._lib = lib
        self.count_direct_runs = count

    def __getattr__(self, name: str) -> object:
        return getattr(self._lib, name)


def test_a_fork_waits_for_runs_without_python(running: Event):
    done: list[int] = []
    forker = Thread(target=lambda: done.append(in_child(lambda: 0)))
    forker.start()
    forker.join(0.05)  # a fork that does not wait would be over
    assert not done
    running.set()
    forker.join(60)
    assert done == [0]
