"""Sessions of devices: where outputs are written, settings, and who opens them."""

import time

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.sessions import device_session
from ep_nnapi.sessions.device_session import (
    SPIN_ALWAYS,
    SPIN_IN_RUNS,
    SPIN_NEVER,
    ConfigEntries,
    DeviceModel,
    PythonSession,
    Threads,
    open_session,
    writable,
)
from tests.nnapi.test_forks import in_child
from tests.onnx_graph import serialized

LARGE = 1 << 14
"""Numbers in outputs that are bound instead of copied."""


def added(size: int = 3) -> DeviceModel:
    """y = x + x."""
    content = serialized(f"(float[{size}] x) => (float[{size}] y) {{ y = Add (x, x) }}")
    return DeviceModel(content, ("x",), {"y": (size,)})


@pytest.fixture
def python_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_session, "OPENERS", [])


@pytest.mark.usefixtures("python_only")
def test_a_forked_process_drops_a_session_without_waiting_for_its_threads():
    """They wait for work here, and are missing there."""
    sessions = [open_session(added(), Threads(2, SPIN_NEVER))]
    time.sleep(0.2)  # until they wait
    assert in_child(lambda: sessions.clear() or 0) == 0


@pytest.mark.usefixtures("python_only")
@pytest.mark.parametrize("size", [LARGE - 1, LARGE], ids=["copied", "bound"])
def test_results_are_those_of_the_model(size: int):
    x, out = np.arange(size, dtype=np.float32), np.empty(size, np.float32)
    (result,) = open_session(added(size), Threads(1)).run([x], [out])
    np.testing.assert_array_equal(result, 2 * x)
    assert (result is out) is (size == LARGE)


@pytest.mark.usefixtures("python_only")
@pytest.mark.parametrize(
    "settings", [SPIN_ALWAYS, SPIN_IN_RUNS, SPIN_NEVER], ids=["always", "in runs", "never"]
)
def test_a_session_has_the_threads_and_their_settings(settings: ConfigEntries):
    opened = open_session(added(), Threads(2, settings))
    assert isinstance(opened, PythonSession)
    options = opened.session.get_session_options()
    assert options.intra_op_num_threads == 2
    got = [(key, options.get_session_config_entry(key)) for key, _ in settings]
    assert got == list(settings)


def test_by_default_threads_spin_during_runs_only():
    assert Threads().settings == SPIN_IN_RUNS
    assert ("session.force_spinning_stop", "1") in SPIN_IN_RUNS


def test_the_first_opener_that_can_opens(monkeypatch: pytest.MonkeyPatch):
    class Opened:
        pass

    openers = [lambda *_: None, lambda *_: Opened(), lambda *_: 1 / 0]
    monkeypatch.setattr(device_session, "OPENERS", openers)
    assert isinstance(open_session(added(), Threads(1)), Opened)


X = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("out", "whole"),
    [
        (np.zeros(3, np.float32), True),
        (np.zeros(4, np.float32), False),
        (np.zeros((3, 2), np.float32)[:, 0], False),
        (X, False),
        (None, False),
    ],
    ids=["its place", "another shape", "gaps", "memory of an input", "no array"],
)
def test_a_session_writes_only_into_arrays_of_its_own(out: np.ndarray | None, whole: bool):
    (found,) = writable(added(), [X], [out])
    assert (found is out) is whole or out is None
    assert (found is not None) is whole


def test_an_output_of_unknown_size_has_no_place():
    unknown = DeviceModel(b"", ("x",), {"y": (None,)})
    assert writable(unknown, [X], [np.zeros(3, np.float32)]) == [None]


@pytest.mark.usefixtures("python_only")
def test_a_run_can_be_terminated():
    opened = open_session(added(), Threads(1))
    options = opened.run_options()
    options.terminate = True
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="terminate flag"):
        opened.run([X], [], options)
