"""Processes that have used host-cpu fork and end as others do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capi.programs import SOURCES, compiled, run

ROOT = Path(__file__).resolve().parents[2]
LARGE_SUM = """
import ctypes, os, sys
import numpy as np
from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.capi.compilation import COMPILATIONS
from tests.capi.client import Library, pointer
from tests.capi.world import World

world = World(Library(libneuralnetworks_path()))
a, out = np.ones(1_000_000, np.float32), np.zeros(1_000_000, np.float32)
compilation = world.ready(model=world.finished(dims=a.shape), for_device=False)
assert COMPILATIONS[compilation]._compiled[0].name == "host-cpu"

def ready():
    execution = world.execution(compilation)
    for i in range(2):
        world.check("Execution_setInput", execution, i, None, pointer(a), a.nbytes)
    world.check("Execution_setOutput", execution, 0, None, pointer(out), out.nbytes)
    return execution

def run():
    out[:] = 0
    world.check("Execution_compute", ready())
    assert (out == 2).all()

run()
"""
"""A process that adds large tensors on the device that the runtime chooses."""


def in_process(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LARGE_SUM + program],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("end", ["sys.exit(0)", "ctypes.CDLL(None).exit(0)", "os._exit(0)"])
def test_a_forked_child_computes_and_exits(end: str) -> None:
    done = in_process(
        "import signal\n"
        "child = os.fork()\n"
        f"if not child: signal.alarm(60); run(); {end}\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "run(); print(status)"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)


@pytest.mark.parametrize("end", ["sys.exit(0)", "ctypes.CDLL(None).exit(0)"])
def test_a_process_ends_while_executions_run(end: str) -> None:
    done = in_process(f"for _ in range(4): world.make('Execution_startCompute', ready())\n{end}")
    assert done.returncode == 0
    assert "terminate called" not in done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_programs_in_c_fork_and_exit(build: Path) -> None:
    program = compiled(build, SOURCES / "large_sum.c", "cc", "-std=gnu11")
    for what in ("", "fork", "leave"):
        done = run(program, what)
        assert (what, done.stdout, done.stderr, done.returncode) == (what, "", "", 0)
