"""Workers: what crashes, hangs or grows in one is a sentence, and its server serves the next."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import ModelError, NnapiError
from ep_nnapi.preparation import worker_pool
from ep_nnapi.preparation.worker_pool import Limits, StepRunner, step_pool
from ep_nnapi.workers import WorkerPool
from tests.onnx_graph import model_of

ROOT = Path(__file__).parents[2]
MEMORY = 2_000_000_000  # bytes: what the libraries themselves reserve fits several times
SECONDS = 60.0  # what no step here takes, however busy the machine


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    """A pool whose workers misbehave as they are asked to."""
    monkeypatch.setattr(worker_pool, "SERVER_MODULE", "tests.preparation.odd_worker")
    with step_pool() as own:
        yield own


def test_each_step_has_a_process_of_its_own(odd: WorkerPool, tmp_path: Path) -> None:
    with odd.server() as server:
        runner = StepRunner(server, tmp_path, Limits(SECONDS, MEMORY))
        first, second = runner.run("identify", {}), runner.run("identify", {})
    with odd.server() as again:
        third = StepRunner(again, tmp_path, Limits(SECONDS, MEMORY)).run("identify", {})
    assert first["server"] == second["server"] == third["server"]  # imports are paid for once
    assert len({first["worker"], second["worker"], third["worker"]}) == 3
    assert os.getpid() not in (first["worker"], first["server"])
    assert first["folder"] == str(tmp_path)


def test_a_server_that_still_imports_is_not_waited_for(tmp_path, monkeypatch):
    """As Ctrl-C finds it in the first second of `prepare`."""
    (tmp_path / "slow.py").write_text(f"import time\ntime.sleep({SECONDS})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    begun = time.monotonic()
    with WorkerPool("slow") as pool, pool.server() as server:
        assert server.process.poll() is None
    assert time.monotonic() < begun + SECONDS / 2


def test_a_crash_ends_only_its_worker(odd: WorkerPool, tmp_path: Path) -> None:
    with odd.server() as server:
        runner = StepRunner(server, tmp_path, Limits(SECONDS, MEMORY))
        with pytest.raises(ModelError, match=r"crash \(SIGSEGV\).*; another format or level"):
            runner.run("crash", {"signal": signal.SIGSEGV})
        with pytest.raises(NnapiError, match="leaving with 7"):
            runner.run("leave", {"code": 7})
        with pytest.raises(ModelError, match=r"ended its worker process \(no image\).*--input"):
            runner.run("stop_in_c", {"code": 0})
        assert runner.run("identify", {})["server"] == server.process.pid


def test_where_nothing_can_be_written_that_is_what_is_said(odd: WorkerPool, tmp_path: Path) -> None:
    """Simulate a full disk: files of this process end after a kilobyte."""
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with odd.server() as server:
        runner = StepRunner(server, tmp_path, Limits(SECONDS, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, most[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                runner.run("leave", {"code": 7})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
        with pytest.raises(NnapiError, match="leaving with 7"):
            runner.run("leave", {"code": 7})
    assert not (tmp_path / "more").exists()


def test_an_interrupt_is_for_whoever_asks(odd: WorkerPool, tmp_path: Path) -> None:
    """Ctrl-C reaches the server too, even while it starts, which says nothing of it."""
    with odd.server() as server:
        os.kill(server.process.pid, signal.SIGINT)
        runner = StepRunner(server, tmp_path, Limits(SECONDS, MEMORY))
        assert runner.run("identify", {})["server"] == server.process.pid
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_time_is_one_for_all_steps_of_a_model(odd: WorkerPool, tmp_path: Path) -> None:
    """At the limit it passes; past it the worker is gone at once, and so is the model's time."""
    with odd.server() as server:
        runner = StepRunner(server, tmp_path, Limits(SECONDS, MEMORY))
        assert runner.run("sleep", {"seconds": 0.01}) == {}
        began = time.monotonic()
        late = StepRunner(server, tmp_path, Limits(0.2, MEMORY))
        for seconds in (600, 0):
            with pytest.raises(ModelError, match=r"longer than 0\.2 seconds; allow more"):
                late.run("sleep", {"seconds": seconds})
        assert time.monotonic() - began < SECONDS
        assert runner.run("identify", {})


def test_memory_is_limited(odd: WorkerPool, tmp_path: Path) -> None:
    """A worker may allocate as much as fits the limit beside its libraries, and no more."""
    with odd.server() as server:
        runner = StepRunner(server, tmp_path, Limits(SECONDS, MEMORY))
        assert runner.run("allocate", {"bytes": MEMORY // 2}) == {"size": MEMORY // 2}
        with pytest.raises(ModelError, match="more than 2 GB of memory; allow more"):
            runner.run("allocate", {"bytes": MEMORY})
        assert runner.run("identify", {})


def test_without_a_limit_half_of_the_machines_memory_is_it() -> None:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert Limits(SECONDS).bytes == whole // 2
    assert Limits(SECONDS, MEMORY).bytes == MEMORY


def test_a_server_that_does_not_start_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(worker_pool, "SERVER_MODULE", "tests.preparation.no_such_module")
    with step_pool() as own, own.server() as server:
        runner = StepRunner(server, tmp_path, Limits(SECONDS, MEMORY))
        with pytest.raises(NnapiError, match="server of the worker processes does not start"):
            runner.run("identify", {})


def written(path: Path, nodes: str, **constants: object) -> None:
    """A model of two numbers x and y."""
    path.parent.mkdir(exist_ok=True)
    onnx.save(model_of(nodes, {"x": (2,)}, {"y": (2,)}, constants), path)


def fine(path: Path) -> None:
    written(path, "y = Relu (x)")


def huge(path: Path, numbers: int) -> None:
    """A file of a few bytes that computes with many numbers."""
    nodes = "z = ConstantOfShape (n) m = ReduceMax <keepdims = 0> (z) y = Add (x, m)"
    written(path, nodes, n=np.array([numbers], np.int64))


def endless(path: Path) -> None:
    """A loop of 2**62 rounds."""
    body = """b (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
        d = Identity (c) t = Sin (s) }"""
    written(path, f"y = Loop <body = {body}> (n, on, x)", n=np.int64(1 << 62), on=True)


def test_a_model_that_needs_too_much_memory_leaves_the_others_alone(tmp_path: Path) -> None:
    """Two models that differ in one number only, within the limit and past it."""
    huge(tmp_path / "in" / "huge.onnx", MEMORY // 4)
    huge(tmp_path / "in" / "large.onnx", MEMORY // 64)
    done = ep_nnapi.prepare(tmp_path / "in", tmp_path / "out", memory=MEMORY / 1e9)
    errors = {m.model: m.error for m in done.models}
    sentence = "it needs more than 2 GB of memory; allow more with memory"
    assert errors == {"huge.onnx": sentence, "large.onnx": None}


@pytest.mark.long
def test_a_model_that_does_not_end_leaves_the_others_alone(tmp_path: Path) -> None:
    endless(tmp_path / "in" / "endless.onnx")
    fine(tmp_path / "in" / "fine.onnx")
    done = ep_nnapi.prepare(tmp_path / "in", tmp_path / "out", timeout=20)
    errors = {m.model: m.error for m in done.models}
    sentence = "it took longer than 20 seconds; allow more with timeout"
    assert errors == {"endless.onnx": sentence, "fine.onnx": None}


@pytest.mark.parametrize("given", [{"timeout": 0}, {"timeout": 2e6}, {"memory": -1.0}])
def test_limits_that_cannot_be(given: dict[str, float], tmp_path: Path) -> None:
    fine(tmp_path / "in" / "fine.onnx")
    with pytest.raises(ep_nnapi.OptionError, match="must be above 0 and at most 1e"):
        ep_nnapi.prepare(tmp_path / "in", tmp_path / "out", **given)


_KILLED = """
import sys
from pathlib import Path
from ep_nnapi.preparation import worker_pool
worker_pool.SERVER_MODULE = "tests.preparation.odd_worker"
with worker_pool.step_pool() as pool, pool.server() as server:
    runner = worker_pool.StepRunner(server, Path(sys.argv[1]), worker_pool.Limits(60, 10**10))
    print(server.process.pid, flush=True)
    runner.run("sleep", {"seconds": 600})
"""


def test_workers_end_with_whoever_asked(tmp_path: Path) -> None:
    """A run that is killed leaves neither a server nor a worker behind."""
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    ) as run:
        assert run.stdout is not None
        server = int(run.stdout.readline())
        deadline = time.monotonic() + SECONDS
        while not (tmp_path / worker_pool.OUTPUT_FILE).exists():  # its worker is at work
            assert time.monotonic() < deadline
            time.sleep(0.02)
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        assert len(children) == 1
        run.kill()
    while any(_runs(int(pid)) for pid in (server, *children)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(process: int) -> bool:
    """True if the process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return not state.startswith("Z")
