"""The runtime behind an agent is the library behind it: results, failures, what is lost."""

import gc
import os
import shlex
import signal
import time
from functools import partial
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

from ep_nnapi.nnapi.clock import run_time
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, CompileOptions, Duration, RunOptions
from ep_nnapi.nnapi.spec import ADD, F32, TILE
from ep_nnapi.remote import runtime as remote
from ep_nnapi.remote.runtime import RemoteRuntime
from ep_nnapi.remote.stream import Kind, Parts, Stream
from tests.native.build import needs_compiler
from tests.nnapi import conformance
from tests.nnapi.build import one
from tests.programs import ran
from tests.remote.agents import Bench, killed_in
from tests.runtimes import library

pytestmark = needs_compiler


def add(size: int = 3, constant: int = 0) -> Model:
    """x + y, or x plus a constant of so many numbers."""
    x = Operand(F32, (size,))
    return one(ADD, [x, np.arange(float(size)) if constant else x, 0], [x])


@pytest.fixture
def runtime(built: Bench, tmp_path: Path) -> RemoteRuntime:
    return built.runtime(tmp_path / "agent")


def device(runtime: RemoteRuntime) -> object:
    return next(d for d in runtime.devices() if d.name == REFERENCE_DEVICE)


def test_it_is_the_library(runtime: RemoteRuntime):
    own = library()
    assert runtime.feature_level == own.feature_level
    assert runtime.devices() == own.devices()
    assert runtime.supported(add(), device(runtime)) == (True,)
    agent = runtime.agent()
    assert "ANeuralNetworksExecution_burstCompute" in agent.functions
    assert agent.memory() > 1 << 20


def test_runs_are_those_of_the_library(runtime: RemoteRuntime):
    """Sizes of the model's and of the run's; outputs that grow; arrays that are given."""
    x = np.arange(3, dtype=np.float32)
    compiled = runtime.compile(add(), device(runtime))
    into = np.empty(3, np.float32)
    assert compiled.run([x, x], [into])[0] is into
    np.testing.assert_array_equal(into, x + x)
    times = Operand(OperandCode.TENSOR_INT32, (2,))
    tiled = one(TILE, [Operand(F32, (0, 2)), times], [Operand(F32, (0, 0))])
    compiled = runtime.compile(tiled, device(runtime))
    for rows, by in ((1, 1), (3, 2000), (2, 1)):
        given = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        found = compiled.run([given, np.array([1, by], np.int32)])
        np.testing.assert_array_equal(found[0], np.tile(given, (1, by)))
    with pytest.raises(RuntimeFailure, match="an output array has shape"):
        compiled.run([given, np.array([1, 2], np.int32)], [np.empty((2, 2), np.float32)])


def test_bursts_and_times(runtime: RemoteRuntime):
    compiled = runtime.compile(add(1000), device(runtime))
    x = np.ones(1000, np.float32)
    found = compiled.burst([x, x], 5)
    assert len(found.nanoseconds) == 5
    assert min(found.nanoseconds) > 0
    measured: list[Duration] = []
    own, all_of_it = run_time(), time.perf_counter()
    compiled.run([x, x], options=RunOptions(measure=measured.append))
    own, all_of_it = run_time() - own, time.perf_counter() - all_of_it
    assert own < all_of_it
    (duration,) = measured
    assert duration.in_driver is not None
    assert duration.in_driver < all_of_it * 1e9


@pytest.mark.parametrize("dynamic", [False, True])
def test_conformance_cases(dynamic: bool, runtime: RemoteRuntime):
    """Each of a kind: bit for bit what the library gives in this process."""
    cases = [case for read in conformance.folder_cases().values() for case in read()]
    if not cases:
        pytest.skip("needs ../shared/nnapi_conformance")
    own, ran = library(), 0
    for case in cases[:: len(cases) // 8]:
        if case.expect_failure or (dynamic and case.ops & {"RANK", "IF", "WHILE"}):
            continue
        model, inputs = conformance.model(case, dynamic=dynamic), conformance.inputs(case)
        here, there = (
            r.compile(model, next(d for d in r.devices() if d.name == REFERENCE_DEVICE)).run(inputs)
            for r in (own, runtime)
        )
        for a, b in zip(here, there, strict=True):
            np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8), case.name)
        ran += 1
    assert ran >= 4


def test_weights_go_over_once(runtime: RemoteRuntime, built: Bench, tmp_path: Path):
    model = add(100_000, constant=1)
    x = np.ones(100_000, np.float32)
    for _ in range(2):
        (found,) = runtime.compile(model, device(runtime)).run([x])
        np.testing.assert_array_equal(found, x + np.arange(100_000, dtype=np.float32))
    (file,) = runtime.agent().pushed()
    assert file.size == 400_064  # a multiple of 64
    there = tmp_path / "agent" / file.name
    written = there.stat().st_mtime_ns
    other = built.runtime(tmp_path / "agent")  # another session, another user
    other.compile(model, device(other))
    assert there.stat().st_mtime_ns == written
    whole = there.read_bytes()
    part = there.rename(there.with_suffix(".part"))
    part.write_bytes(whole[:100_001])  # a cable that was pulled
    other.compile(model, device(other))
    assert there.read_bytes() == whole
    there.rename(part).write_bytes(b"x" * 100)  # of another content
    with pytest.raises(RuntimeFailure, match="BAD_DATA: the weights that came are not"):
        other.compile(model, device(other))
    other.compile(model, device(other))
    assert other.agent().pushed(remove=True) == [file]
    assert not list((tmp_path / "agent").glob("weights*"))


@pytest.mark.parametrize("call", ["model", "supported", "compile", "compute"])
@pytest.mark.parametrize("how", ["die", "hang"])
def test_a_driver_ends_one_job(how: str, call: str, built: Bench, tmp_path, monkeypatch):
    """And what drivers print is no frame."""
    patience = 200_000_000 if how == "hang" else None
    monkeypatch.setattr(remote, "QUESTION_LIMIT", 1.2 if patience else 60.0)
    runtime = built.runtime(tmp_path / "agent", built.altered, ALTERED=f"{call}:{how}")
    reference, x = device(runtime), np.ones(3, np.float32)
    limit = CompileOptions(timeout_ns=patience)

    def work() -> None:
        if call == "supported":
            runtime.supported(add(), reference)
        compiled = runtime.compile(add(), reference, limit)
        compiled.run([x, x], options=RunOptions(timeout_ns=patience))

    for _ in range(2):
        with pytest.raises(RuntimeFailure) as failed:
            work()
        code, says = {
            "die": ("DEAD_OBJECT", "the driver ended its process by signal 11"),
            "hang": ("MISSED_DEADLINE_PERSISTENT", "the device has not answered within 1.2 s"),
        }[how]
        assert failed.value.code == f"ANEURALNETWORKS_{code}"
        assert says in str(failed.value)
    assert runtime.agent().usable  # the session goes on


def test_an_agent_that_is_lost_is_started_again(runtime: RemoteRuntime):
    reference, x = device(runtime), np.ones(3, np.float32)
    compiled = runtime.compile(add(), reference)
    lost = runtime.agent()
    os.killpg(lost._stream._process.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(RuntimeFailure, match=r"DEAD_OBJECT: exec:agent is lost: it"):
            compiled.run([x, x])
    again = runtime.compile(add(), reference)
    np.testing.assert_array_equal(again.run([x, x])[0], x + x)
    assert runtime.agent() is not lost


@pytest.mark.parametrize("call", ["model", "supported", "compile", "compute"])
def test_an_agent_that_is_killed_in_a_call(call: str, built: Bench, tmp_path: Path):
    runtime = built.runtime(tmp_path / "agent", built.altered, ALTERED=f"{call}:hang")

    def use() -> None:
        runtime.supported(add(), device(runtime))
        runtime.compile(add(), device(runtime)).run([np.ones(3, np.float32)] * 2)

    with killed_in(call, lambda: runtime._agent), pytest.raises(RuntimeFailure) as failed:
        use()
    assert "DEAD_OBJECT: exec:agent is lost: its stream has ended" in str(failed.value)
    assert "\n" not in str(failed.value)


def test_an_agent_that_is_killed_while_weights_are_sent(runtime: RemoteRuntime, monkeypatch):
    """It has stopped to read; the next compilation sends the rest to another one."""
    model, request = add(1_000_000, constant=1), Stream.request
    process = runtime.agent()._stream._process

    def halted(stream: Stream, kind: Kind, payload: Parts = (), *more: float) -> object:
        if kind is Kind.PUT and len(payload[1]):
            os.kill(process.pid, signal.SIGSTOP)
            Timer(0.2, process.kill).start()
        return request(stream, kind, payload, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Stream, "request", halted)
        with pytest.raises(RuntimeFailure, match="DEAD_OBJECT: exec:agent is lost: its stream has"):
            runtime.compile(model, device(runtime))
    x = np.ones(1_000_000, np.float32)
    (found,) = runtime.compile(model, device(runtime)).run([x])
    np.testing.assert_array_equal(found, x + np.arange(1_000_000, dtype=np.float32))


def test_one_that_cannot_be_started_again_is_one_sentence(built: Bench, tmp_path: Path):
    commands = iter([built.command(tmp_path / "agent").split(), ["false"], ["/none"]])
    runtime = RemoteRuntime("exec:agent", partial(next, commands))
    runtime.agent().close()
    for says in ("its stream has ended", "/none cannot be started: No such file"):
        with pytest.raises(RuntimeFailure, match=f"is lost: exec:agent: .*{says}"):
            runtime.supported(add(), device(runtime))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("/none", "/none cannot be started: No such file or directory"),
        ("true", "no agent answers: its stream has ended"),
        ("sh -c 'echo no such host >&2'", r"its stream has ended \(no such host\)"),
        ("yes", "no agent answers: what it says is no frame of the protocol"),
        ("{agent} --idle x", r"its stream has ended \(nnapi_agent: --idle is 'x'"),
        ("{agent} --runtime /none.so", "exec:agent: runtime: /none.so: cannot open shared object"),
        ("{agent} --runtime {agent}", "exec:agent: runtime: .*nnapi_agent"),
    ],
)
def test_what_cannot_serve(command: str, says: str, built: Bench):
    words = shlex.split(command.format(agent=built.agent))
    with pytest.raises(OptionError, match=f"exec:agent: .*{says}|{says}"):
        RemoteRuntime("exec:agent", words.copy)


def test_a_full_phone_is_one_sentence(built: Bench, tmp_path: Path):
    words = ["sh", "-c", f"ulimit -f 100; exec {built.command(tmp_path / 'agent')}"]
    runtime = RemoteRuntime("exec:agent", words.copy)
    with pytest.raises(RuntimeFailure, match=r"OUT_OF_MEMORY.*--clean removes"):
        runtime.compile(add(100_000, constant=1), device(runtime))
    small = runtime.compile(add(), device(runtime))
    np.testing.assert_array_equal(small.run([np.ones(3, np.float32)] * 2)[0], np.full(3, 2.0))


def test_jobs_end_with_their_compilations(runtime: RemoteRuntime):
    """A process for each job; one waits for the next, unless its job has failed."""
    kept = [runtime.compile(add(), device(runtime)) for _ in range(3)]
    pid = runtime.agent()._stream._process.pid

    def workers() -> int:
        listed = ran("ps", "--ppid", pid, "-o", "stat=", status=None).stdout
        return sum(not state.startswith("Z") for state in listed.split())

    assert workers() == 4  # and the one for questions
    kept.clear()
    gc.collect()
    runtime.supported(add(), device(runtime))
    until = time.monotonic() + 10
    while workers() > 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert workers() == 2
    again = runtime.compile(add(), device(runtime))
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(again.run([x, x])[0], x + x)
    assert workers() == 2
    with pytest.raises(RuntimeFailure, match="an input does not fit"):
        again._agent._request(
            "run", Kind.RUN, again._payload([x[:2], x], 1, RunOptions()), again._job
        )
    del again
    runtime.supported(add(), device(runtime))
    while workers() > 1 and time.monotonic() < until:
        time.sleep(0.05)
    assert workers() == 1


def test_a_run_costs_little_beyond_the_devices_time(built: Bench, tmp_path: Path):
    """At most a millisecond, on a local stream: the median of many small runs, in this process."""
    runtime = built.runtime(tmp_path / "agent", built.build.stand_in)
    compiled = runtime.compile(add(), runtime.devices()[0])
    x = np.ones(3, np.float32)
    costs = []
    for _ in range(200):
        own, all_of_it = run_time(), time.perf_counter()
        compiled.run([x, x])
        costs.append((time.perf_counter() - all_of_it) - (run_time() - own))
    assert np.median(costs) < 1e-3, np.percentile(costs, [0, 50, 90])
