"""A process forks and ends while another thread computes in a session."""

import pytest

from tests.end_to_end.programs import python

SESSION = """
import os, signal, sys, threading
import numpy as np, onnxruntime
import ep_nnapi
from tests.ort.models import model, node, tensor

def session(rows, size=600):
    weights = {f"w{i}": np.eye(size, dtype=np.float32) for i in range(4)}
    nodes = [node("MatMul", f"x{i} w{i}", f"x{i + 1}") for i in range(4)]
    ends = [tensor("x0", (rows, size))], [tensor("x4", (rows, size))]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    ep_nnapi.append_execution_provider(options, new_sizes=999)  # each is compiled
    made = onnxruntime.InferenceSession(model(nodes, *ends, weights), options)
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
    done = python(
        SESSION
        + f"forks = {forks}"
        + """
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
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{0}\n", "")


@pytest.mark.parametrize("forks", [1, pytest.param(6, marks=pytest.mark.long)])
def test_a_child_compiles_for_sizes_that_the_parent_was_compiling_for(forks: int) -> None:
    """The lock that a compiling thread of the parent holds is free in the child."""
    done = python(
        SESSION
        + f"forks = {forks}"
        + """
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
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{0}\n", "")


@pytest.mark.parametrize("most", [2, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize("daemon", [True, False])
def test_a_process_ends_while_a_thread_computes(daemon: bool, most: int) -> None:
    """A thread that is no daemon is waited for; a daemon is left, as with the CPU provider."""
    done = python(
        SESSION
        + f"""
made, runs = session(1000), []
def compute():
    while len(runs) < {most}:
        run(made, 1000)
        runs.append(1)
threading.Thread(target=compute, daemon={daemon}).start()
while not runs: pass
print("ends")
"""
    )
    assert done.stdout == "ends\n"
    assert done.returncode in ((0, -6) if daemon else (0,)), done.stderr
