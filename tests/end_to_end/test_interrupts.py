"""Signals, runs that are ended, and forks, while Python code runs inside of a callback."""

import pytest

from tests.programs import python

PROGRAM = """
import os, signal, sys, threading, time
import numpy as np, onnxruntime
import ep_nnapi
from tests.onnx_graph import serialized

def products(count, size=500, rows=500):
    nodes = " ".join(f"x{i + 1} = MatMul (x{i}, w)" for i in range(count))
    ends = f"(float[{rows},{size}] x0) => (float[{rows},{size}] x{count})"
    return serialized(f"{ends} {{ {nodes} }}", w=np.eye(size, dtype=np.float32))

def session(made, **given):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    ep_nnapi.append_execution_provider(options, **given)
    found = onnxruntime.InferenceSession(made, options)
    assert found.get_providers()[0] == "NnapiPluginExecutionProvider"
    return found

def soon(number, after):
    threading.Timer(after, os.kill, (os.getpid(), number)).start()

FEED = {"x0": np.ones((500, 500), np.float32)}
"""
RUN = """
s = session(products(20))
s.run(None, FEED)
"""


def test_ctrl_c_during_a_run_is_raised() -> None:
    program = """
caught = 0
for i in range(10):
    try:
        soon(signal.SIGINT, 0.05 * (i + 1))
        try:
            while True:
                s.run(None, FEED)
        except Exception:
            for _ in range(600): time.sleep(0.1)  # the interrupt is raised here
    except KeyboardInterrupt:
        caught += 1
s.run(None, FEED)
print(caught)
"""
    done = python(PROGRAM + RUN + program)
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_ctrl_c_ends_a_first_run_of_open_sizes_that_takes_long() -> None:
    """A compilation for open sizes has run before, with few elements."""
    program = """
s = session(products(20, rows="rows"), intra_op_num_threads=1)
soon(signal.SIGINT, 0.3)
try:
    try:
        s.run(None, {"x0": np.ones((20_000, 500), np.float32)})  # seconds
    except Exception:
        for _ in range(600): time.sleep(0.1)  # the interrupt is raised here
except KeyboardInterrupt:
    print([c["device_runs"] for c in ep_nnapi.receipts()[-1]["clusters"]])
"""
    done = python(PROGRAM + program)
    assert (done.stdout, done.stderr) == ("[0]\n", "")


def test_ctrl_c_during_a_run_ends_a_program() -> None:
    endless = PROGRAM + RUN + "soon(signal.SIGINT, 0.2)\nwhile True: s.run(None, FEED)"
    done = python(endless, status=None)
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr


HANDLED = """
    try:
        s.run(None, FEED)
    except Exception as error:
        assert "SystemExit" in str(error), error
"""


@pytest.mark.parametrize("body", [HANDLED, "s.run(None, FEED)"], ids=["handled", "not"])
def test_sys_exit_in_a_handler_ends_the_program_with_its_code(body: str) -> None:
    program = f"""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
soon(signal.SIGTERM, 0.2)
while True:
    {body}
"""
    done = python(PROGRAM + RUN + program, status=7)
    assert done.stdout == ""
    assert body != HANDLED or done.stderr == ""


def test_ctrl_c_while_a_session_is_made_makes_none() -> None:
    """ONNX Runtime takes a failure to plan for a reason to go on without NNAPI."""
    program = """
made, caught = products(400, 8, 8), 0
session(made)
for i in range(8):
    # once more: Python drops an exception that is raised in the callback of a weak reference
    again = threading.Timer(30, os.kill, (os.getpid(), signal.SIGINT))
    again.start()
    try:
        soon(signal.SIGINT, 0.05 * (i + 1))
        while True:
            session(made)
    except KeyboardInterrupt:
        caught += 1
    except Exception:
        try:
            for _ in range(600): time.sleep(0.1)
        except KeyboardInterrupt:
            caught += 1
    again.cancel()
print(caught)
"""
    done = python(PROGRAM + program)
    # older versions of ONNX Runtime announce on stdout that they go on without NNAPI
    assert done.stdout.split("\n")[-2:] == ["8", ""]


def test_terminate_ends_a_cluster_between_operations() -> None:
    program = """
s, found = session(products(1000)), ""
for i in range(20):  # moments, until one is in the cluster and not beside it
    options = onnxruntime.RunOptions()
    threading.Timer(0.05 * (i + 1), setattr, (options, "terminate", True)).start()
    try:
        while True:
            s.run(None, FEED, options)
    except Exception as error:
        found = str(error)
    if found.endswith("the run ends early: RunOptions.terminate is set"):
        break
print(found)
"""
    done = python(PROGRAM + program)
    assert done.stdout.endswith("the run ends early: RunOptions.terminate is set\n"), done.stderr
    assert done.stderr == ""


def test_ctrl_c_in_a_call_of_the_c_api_is_raised() -> None:
    program = """
import os, signal, threading, time
from ep_nnapi.nnapi.capi import libneuralnetworks_path
from tests.capi.client import Library
from tests.capi.world import World

world, caught = World(Library(str(libneuralnetworks_path()))), 0
for i in range(10):
    try:
        threading.Timer(0.05 * (i + 1), os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            world.nn.getDeviceCount(None)
            world.nn.Model_finish(None)
    except KeyboardInterrupt:
        caught += 1
print(caught)
"""
    done = python(program)
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_ctrl_c_in_the_first_call_of_the_c_api_is_raised() -> None:
    """It ends the import of the package; the next call imports it again."""
    program = """
import ctypes, importlib.abc, signal, sys
from ep_nnapi.nnapi.capi import libneuralnetworks_path

class CtrlC(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "ep_nnapi.nnapi.capi.entry":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

library, count = ctypes.CDLL(str(libneuralnetworks_path())), ctypes.c_uint32()
assert "ep_nnapi.nnapi.capi.entry" not in sys.modules
sys.meta_path.insert(0, CtrlC())
try:
    library.ANeuralNetworks_getDeviceCount(ctypes.byref(count))
    print("lost")
except KeyboardInterrupt:
    print("raised")
print(library.ANeuralNetworks_getDeviceCount(ctypes.byref(count)), count.value > 0)
"""
    done = python(program)
    assert (done.stdout, done.stderr) == ("raised\n0 True\n", "")


SESSION = """
import os, signal, sys, threading
import numpy as np, onnxruntime
import ep_nnapi
from tests.onnx_graph import serialized

def session(rows, size=600):
    weights = {f"w{i}": np.eye(size, dtype=np.float32) for i in range(4)}
    nodes = " ".join(f"x{i + 1} = MatMul (x{i}, w{i})" for i in range(4))
    text = f"(float[{rows},{size}] x0) => (float[{rows},{size}] x4) {{ {nodes} }}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    ep_nnapi.append_execution_provider(options, new_sizes=999)  # each is compiled
    made = onnxruntime.InferenceSession(serialized(text, **weights), options)
    assert made.get_providers()[0] == "NnapiPluginExecutionProvider"
    return made

def run(made, rows):
    x = np.full((rows, 600), rows, np.float32)
    assert np.array_equal(made.run(None, {"x0": x})[0], x)

def forked(check):
    child = os.fork()
    if not child:
        signal.alarm(100)
        check()
        os._exit(0)
    return os.waitpid(child, 0)[1]
"""


@pytest.mark.parametrize("forks", [2, pytest.param(12, marks=pytest.mark.long)])
def test_the_parent_comes_back_from_forks_amid_matrix_products(forks: int) -> None:
    program = """
made, over = session(1000), threading.Event()
def compute():
    while not over.is_set():
        run(made, 1000)
threads = [threading.Thread(target=compute) for _ in range(2)]
for t in threads: t.start()
print({forked(lambda: None) for _ in range(forks)})
over.set()
for t in threads: t.join()
run(made, 1000)
"""
    done = python(f"{SESSION}forks = {forks}{program}")
    assert (done.stdout, done.stderr) == ("{0}\n", "")


@pytest.mark.parametrize("forks", [1, pytest.param(6, marks=pytest.mark.long)])
def test_a_child_compiles_for_sizes_that_the_parent_was_compiling_for(forks: int) -> None:
    """The lock that a compiling thread of the parent holds is free in the child."""
    program = """
made, over = session("rows"), threading.Event()
def compute():
    rows = 1
    while not over.is_set():
        run(made, rows := rows % 64 + 1)
thread = threading.Thread(target=compute)
thread.start()
print({forked(lambda: run(made, 100 + i)) for i in range(forks)})
over.set()
thread.join()
"""
    done = python(f"{SESSION}forks = {forks}{program}")
    assert (done.stdout, done.stderr) == ("{0}\n", "")


@pytest.mark.parametrize("most", [2, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize("daemon", [True, False])
def test_a_process_ends_while_a_thread_computes(daemon: bool, most: int) -> None:
    """A thread that is no daemon is waited for; a daemon is left, as with the CPU provider."""
    program = f"""
made, runs = session(1000), []
def compute():
    while len(runs) < {most}:
        run(made, 1000)
        runs.append(1)
threading.Thread(target=compute, daemon={daemon}).start()
while not runs: pass
print("ends")
"""
    done = python(SESSION + program, status=None)
    assert done.stdout == "ends\n"
    assert done.returncode in ((0, -6) if daemon else (0,)), done.stderr
