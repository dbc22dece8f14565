"""Either side is killed before, in and after each frame of a session: who uses it goes on."""

import gc
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.remote.runtime import remote_runtime
from ep_nnapi.remote.stream import Kind, Stream
from tests.end_to_end.test_remote import session
from tests.native.build import needs_compiler
from tests.onnx_graph import model_of
from tests.programs import python, ran
from tests.remote.agents import Bench, Reach
from tests.remote.conftest import built, reach

__all__ = ["built", "reach"]
pytestmark = needs_compiler
SIZES = (64, 512)  # of more weights than travel with a model
MODEL = model_of(
    "y = Sub(x, w)",
    {"x": SIZES},
    {"y": SIZES},
    {"w": np.full(SIZES, 1e-30, np.float32)},
).SerializeToString()
"""y = x: so it is right on the stand-in, which computes its first input."""
FRAMES = (
    *(Kind.HELLO, Kind.DEVICES),
    *(Kind.PUT, Kind.PUT, Kind.MODEL, Kind.SUPPORTED),
    *(Kind.PUT, Kind.MODEL, Kind.COMPILE, Kind.RUN, Kind.RUN),
)
"""Requests of a session that runs twice, for a worker that is asked and one that computes."""
STARTED = 2
"""After these the runtime is open."""
Hook = Callable[[Stream, int], object]


def processes(stream: Stream, whose: str) -> list[int]:
    """The agent, or its workers."""
    agent = stream._process.pid
    if whose == "agent":
        return [agent]
    return [int(p) for p in ran("ps", "--ppid", agent, "-o", "pid=", status=None).stdout.split()]


def killed(stream: Stream, whose: str, when: str) -> None:
    """Now, or as soon as the next request has been sent, of which nothing is read then."""
    for process in processes(stream, whose):
        if when == "before":
            signalled(process, signal.SIGKILL)
            if whose == "agent":
                stream._process.wait()
        else:
            signalled(process, signal.SIGSTOP)
            Timer(0.1, signalled, (process, signal.SIGKILL)).start()


def signalled(process: int, number: signal.Signals) -> None:
    """A worker, or a command that starts the agent, may have ended since it was listed."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hook], list[Kind]]:
    """Has a function called before each request of new agents, with its number; lists them."""
    request = Stream.request

    def watch(hook: Hook) -> list[Kind]:
        kinds: list[Kind] = []

        def asked(stream: Stream, kind: Kind, *more: object, **named: object) -> object:
            kinds.append(kind)
            hook(stream, len(kinds) - 1)
            return request(stream, kind, *more, **named)

        monkeypatch.setattr(Stream, "request", asked)
        return kinds

    return watch


def told(receipt: dict[str, object]) -> list[str]:
    """Why anything of a session ran elsewhere."""
    fallbacks = [f for cluster in receipt["clusters"] for f in cluster["fallbacks"]]
    return [r["detail"] for r in receipt["rejections"]] + [f["reason"] for f in fallbacks]


NUMBERS = [
    pytest.param(n, marks=[] if n in (1, 8) else pytest.mark.long) for n in range(len(FRAMES))
]


@pytest.mark.parametrize("number", NUMBERS, ids=[f"{n}-{k.name}" for n, k in enumerate(FRAMES)])
@pytest.mark.parametrize("when", ["before", "in"])
@pytest.mark.parametrize("whose", ["agent", "workers"])
def test_a_session_goes_on(whose, when, number, reach, frames):
    """With another agent or worker; where it could not be opened that is one sentence."""

    def hook(stream: Stream, at: int) -> None:
        if at == number:
            killed(stream, whose, when)

    name, x = reach(reach.bench.build.stand_in), np.random.default_rng(1).random(SIZES)
    feeds = {"x": x.astype(np.float32)}
    kinds = frames(hook)
    if whose == "agent" and number < STARTED:
        with pytest.raises(OptionError, match="no agent answers: its stream has ended") as failed:
            session(MODEL, name, device="stand-in")
        assert "\n" not in str(failed.value)
        session(MODEL, name, device="stand-in")  # the next one is served
        return
    made = session(MODEL, name, device="stand-in")
    for _ in range(2):
        np.testing.assert_array_equal(made.run(None, feeds)[0], feeds["x"])
    assert tuple(kinds[: number + 1]) == FRAMES[: number + 1]
    assert kinds.count(Kind.RUN) >= 2  # on the device
    assert told(ep_nnapi.receipts()[-1]) == []
    assert remote_runtime(name).agent().usable


@pytest.mark.parametrize("whose", ["agent", "workers"])
def test_each_time(whose: str, reach: Reach, frames: Callable[[Hook], list[Kind]]):
    """The second failure of a run is told, and the option fallback decides."""
    name, x = reach(reach.bench.build.stand_in), np.ones(SIZES, np.float32)
    made = session(MODEL, name, device="stand-in")
    kinds = frames(lambda stream, at: kinds[at] is Kind.RUN and killed(stream, whose, "in"))
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], x)
    assert kinds.count(Kind.RUN) == 2
    (why,) = told(ep_nnapi.receipts()[-1])
    says = "is lost: its stream has ended" if whose == "agent" else "ended its process by signal 9"
    assert "ANEURALNETWORKS_DEAD_OBJECT" in why
    assert says in why
    assert "\n" not in why


def test_a_worker_that_waits_for_the_next_compilation(reach: Reach):
    name, x = reach(reach.bench.build.stand_in), np.ones(SIZES, np.float32)
    for _ in range(2):
        made = session(MODEL, name, device="stand-in")
        np.testing.assert_array_equal(made.run(None, {"x": x})[0], x)
        assert told(ep_nnapi.receipts()[-1]) == []
        del made
        gc.collect()
        agent = remote_runtime(name).agent()
        agent.memory()  # frees what waits
        assert agent._idle
        killed(agent._stream, "workers", "before")


CLIENT = """
import os, signal, sys
import numpy as np
from ep_nnapi.remote.runtime import RemoteRuntime
from ep_nnapi.remote.stream import Stream
from tests.remote.test_runtime import add
when, last, *command = sys.argv[1:]
method, count = "request" if when == "before" else "_read", 0
original = getattr(Stream, method)
def dying(stream, *given, **named):
    global count
    if count == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    count += method == "request" or given[0] == 32
    return original(stream, *given, **named)
setattr(Stream, method, dying)
runtime = RemoteRuntime("exec:agent", command.copy)
(device, *_) = runtime.devices()
model, x = add(100_000, constant=1), np.ones(100_000, np.float32)
runtime.supported(model, device)
compiled = runtime.compile(model, device)
for _ in range(2):
    compiled.run([x])
print("lived")
"""


def started_in(folder: Path) -> list[str]:
    """The processes whose command has that folder."""
    commands = ran("ps", "-eo", "args=").stdout.splitlines()
    return [c for c in commands if f"--folder {folder}" in c and "defunct" not in c]


KILLED = [
    pytest.param(when, n, marks=pytest.mark.long)
    for n in range(len(FRAMES))
    for when in ("before", "in")
    if (when, n) != ("in", 9)
]


@pytest.mark.parametrize(("when", "number"), [("in", 9), *KILLED])
def test_an_agent_ends_with_who_uses_it(when: str, number: int, built: Bench, tmp_path: Path):
    """And so do its workers; the next user finds nothing amiss."""
    command = built.command(tmp_path, built.build.stand_in)
    python(CLIENT, when, number, *command.split(), status=-signal.SIGKILL)
    until = time.monotonic() + 20
    while started_in(tmp_path) and time.monotonic() < until:
        time.sleep(0.05)
    assert started_in(tmp_path) == []
    assert "lived" in python(CLIENT, when, 1000, *command.split()).stdout
