"""Sessions through the C API give what those of Python's give, also around forks."""

import gc
import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Event, Thread

import numpy as np
import pytest

from ep_nnapi.ort import inner_session
from ep_nnapi.ort import session as nnapi
from ep_nnapi.ort.inner_session import InnerSession, SessionError, open_inner_session
from ep_nnapi.sessions.device_session import DeviceModel, Threads
from tests.onnx_graph import model_of, serialized
from tests.ort_devices.test_session import in_child


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
