"""Runs of a session: arguments, limits, forks."""

from __future__ import annotations

import gc
import os
import signal
import time
from threading import Event, Thread

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import RunOptions
from ep_nnapi.nnapi.shapes import ShapeError
from ep_nnapi.nnapi.spec import BOOL8, F16, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.prepared import PreparedSession
from ep_nnapi.ort_devices.session import open_model
from ep_nnapi.sessions.device_session import Threads
from tests.ort_devices.networks import Network, chain, feed

SECONDS = 60
"""Time that a child has: one that hangs is ended by a signal."""
FAILED = 70
"""Exit code of a child that raises an exception."""


def opened(threads: int = 2) -> PreparedSession:
    found = open_model(chain(), None, Threads(threads))
    assert isinstance(found, PreparedSession)
    return found


def in_child(check) -> int:
    """The exit code of a forked process that exits with `check()`."""
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        try:
            os._exit(check())
        finally:  # an exception
            os._exit(FAILED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_missing_inputs_are_refused():
    with pytest.raises(ShapeError, match="input 0 is missing"):
        opened().execute([None], (), RunOptions())


def test_a_run_is_stopped_before_it_begins():
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        opened().execute(feed(chain()), (), RunOptions(stop=stop))


def test_errors_of_a_supervised_run_are_those_of_the_session():
    wrong = [np.zeros((1, 2), np.float32)]
    with pytest.raises(Exception, match="Invalid rank for input"):
        opened().execute(wrong, (), RunOptions(timeout_ns=10**10))


def test_a_session_runs_in_a_forked_process():
    made, given = opened(), feed(chain())
    wanted = made.execute(given, (), RunOptions())[0]

    def same() -> int:
        return not np.array_equal(made.execute(given, (), RunOptions())[0], wanted)

    assert in_child(same) == 0
    assert same() == 0


def test_a_session_is_supervised_in_a_forked_process():
    made, given = opened(), feed(chain())
    limited = RunOptions(timeout_ns=SECONDS * 10**9)
    assert in_child(lambda: len(made.execute(given, (), limited)) - 1) == 0


def test_a_forked_process_may_drop_its_parents_sessions_and_open_its_own():
    """The threads of the session sleep: destroying it would wait for them in the child."""
    held = [opened()]
    held[0].execute(feed(chain()), (), RunOptions())
    time.sleep(0.05)  # the threads stop spinning

    def drop() -> int:
        held.clear()
        gc.collect()
        held.append(opened())
        held[0].execute(feed(chain()), (), RunOptions())
        held.clear()
        return 0

    assert in_child(drop) == 0


def test_a_fork_waits_for_the_end_of_a_run():
    """Locks that ONNX Runtime holds meanwhile would stay locked in the child."""
    made = opened()
    begun, go, events = Event(), Event(), []

    class Slow:
        def run(self, *_: object) -> list[np.ndarray]:
            begun.set()
            go.wait(SECONDS)
            events.append("ran")
            return [np.zeros(1)]

    made.session = Slow()
    runner = Thread(target=made.execute, args=(feed(chain()), (), RunOptions()))
    runner.start()
    begun.wait(SECONDS)
    forker = Thread(target=lambda: (in_child(lambda: 0), events.append("forked")))
    forker.start()
    time.sleep(0.05)  # a fork that does not wait would be over
    go.set()
    runner.join(SECONDS)
    forker.join(SECONDS)
    assert events == ["ran", "forked"]
    assert not CONCURRENT_RUNS._running


LARGE = 1 << 16
"""Bytes of outputs from which on they are not copied."""


def doubled(code: OperandCode, size: int) -> Model:
    """Doubles its input, or negates a truth value."""
    net = Network()
    scale = {"scale": 0.5, "zero_point": 3} if code in (Q8, Q8S) else {}
    operand = Operand(code, (size,), **scale)
    x = net.add(operand)
    if code is BOOL8:
        return net.model([x], [net.operation(spec.LOGICAL_NOT, [x], operand)])
    return net.model([x], [net.operation(spec.ADD, [x, x, net.scalar(0)], operand)])


def executed(model: Model, inputs: list[np.ndarray], out: np.ndarray | None) -> np.ndarray:
    found = open_model(model, None, Threads(1))
    (result,) = found.execute(inputs, [out], RunOptions())
    return result


@pytest.mark.parametrize("bytes_", [LARGE - 16, LARGE], ids=["copied", "bound"])
@pytest.mark.parametrize("code", [F32, F16, I32, Q8, Q8S, BOOL8], ids=str)
def test_outputs_are_written_where_the_caller_wants_them(code, bytes_):
    model = doubled(code, bytes_ // code.numpy.itemsize)
    given = feed(model)
    wanted = executed(model, given, None)
    out = np.empty_like(wanted)
    assert executed(model, given, out) is out
    np.testing.assert_array_equal(out, wanted, strict=True)


def test_an_output_may_be_in_the_memory_of_an_input():
    model = doubled(F32, LARGE)
    (x,) = feed(model)
    wanted = 2 * x
    result = executed(model, [x], x)
    np.testing.assert_array_equal(result, wanted)


def test_an_output_may_have_gaps():
    model = doubled(F32, LARGE)
    out = np.zeros((LARGE, 2), np.float32)[:, 0]
    (x,) = feed(model)
    np.testing.assert_array_equal(executed(model, [x], out), 2 * x)


@pytest.mark.parametrize("size", [LARGE - 1, LARGE + 1])
def test_large_outputs_of_another_shape_are_refused(size):
    model = doubled(F32, LARGE)
    with pytest.raises(RuntimeFailure, match=f"the output has \\({LARGE},\\)"):
        executed(model, feed(model), np.zeros(size, np.float32))
