"""Sessions and verbs on an agent: what the library gives, whatever becomes of the agent."""

import gc
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.provider.devices import open_runtime
from ep_nnapi.remote.runtime import remote_runtime
from models.zoo import MODELS
from tests.bundling.phone import ABI
from tests.end_to_end.sessions import nnapi_session
from tests.native.build import ARM64_ROOT, Build, needs_compiler, skip_without, starter
from tests.onnx_graph import model_of, nodes_of
from tests.programs import ran
from tests.remote.agents import Bench, Reach, killed_in
from tests.remote.conftest import ADB, built, reach
from tests.remote.networks import chosen, network
from tests.remote.test_runtime import add

__all__ = ["built", "reach"]
pytestmark = needs_compiler
DIGITS = Path("models/digits.onnx")
CABLE = f"{sys.executable} {Path(__file__).parents[1] / 'remote' / 'cable.py'}"
LIBRARY = ep_nnapi.libneuralnetworks_path()
SHORT = ("mlp", "detector")
QUANTIZED = ("kws_dscnn:u8s8", "mlp:u8u8", "digits:dynamic")
EXP = model_of(nodes_of("y = Exp(x)"), {"x": (2, 3)}, {"y": (2, 3)}).SerializeToString()
X = {"x": np.ones((2, 3), np.float32)}


def session(model: str | bytes, runtime: str, **options: object) -> ort.InferenceSession:
    chosen = {"device": REFERENCE_DEVICE, "partitioning": "maximal"} | options
    return nnapi_session(model, severity=4, runtime=runtime, **chosen)


def feeds(of: ort.InferenceSession) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    sizes = {i.name: [d if isinstance(d, int) else 1 for d in i.shape] for i in of.get_inputs()}
    return {
        i.name: np.asarray(random.uniform(0, 2, sizes[i.name]), kinds[i.type])
        for i in of.get_inputs()
    }


ZOO = (
    *((name, "exec") for name in SHORT),
    *(
        pytest.param(n, "exec", marks=pytest.mark.long)
        for n in dict.fromkeys((*MODELS, *chosen(QUANTIZED)))
        if n not in SHORT
    ),
    *(pytest.param(n, *ADB.values, marks=ADB.marks) for n in chosen((*SHORT, *QUANTIZED))),
)


@pytest.mark.parametrize(("name", "reach"), ZOO, indirect=["reach"])
def test_the_zoo(name: str, reach: Reach):
    """Set EP_NNAPI_NETWORKS=all for all networks over adb too."""
    model = network(name).SerializeToString()
    here, there = session(model, LIBRARY), session(model, reach())
    given = feeds(here)
    for a, b in zip(here.run(None, given), there.run(None, given), strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
    receipt = ep_nnapi.receipts()[-1]
    assert sum(c["device_runs"] for c in receipt["clusters"]) == len(receipt["clusters"]) > 0
    assert receipt["versions"]["agent"] == f"test on {ABI}"


def lost_between_runs(name: str, lose: Callable[[], object] | None) -> None:
    """With nothing else lost another agent computes, once; else the option fallback decides."""
    of = session(str(DIGITS), name)
    given = feeds(of)
    want = of.run(None, given)
    strict = session(str(DIGITS), name, fallback="none")
    os.killpg(remote_runtime(name).agent()._stream._process.pid, signal.SIGKILL)
    if lose is not None:
        lose()
        with pytest.raises(Exception, match=r"DEAD_OBJECT in .* is lost: .*\S$") as failed:
            strict.run(None, given)
        assert "\n" not in str(failed.value)
    np.testing.assert_allclose(of.run(None, given)[0], want[0], rtol=1e-5)
    (cluster,) = ep_nnapi.receipts()[-2]["clusters"]
    assert (cluster["device_runs"], len(cluster["fallbacks"])) == ((1, 1) if lose else (2, 0))


@pytest.mark.parametrize("again", [True, False], ids=["started again", "gone"])
def test_an_agent_that_is_killed_between_runs(again: bool, reach: Reach, tmp_path: Path):
    script = tmp_path / "start.sh"
    script.write_text('#!/bin/sh\nexec "$@"\n')
    script.chmod(0o755)
    lost_between_runs(reach(before=str(script)), None if again else script.unlink)


@pytest.mark.long
@pytest.mark.parametrize("reach", [ADB], indirect=True)
@pytest.mark.parametrize(
    ("what", "text"), [("phones", ""), ("library", "/none.so"), ("abis", "mips\n")]
)
def test_a_phone_that_is_another_one_then(what: str, text: str, reach: Reach):
    assert reach.phone is not None
    lost_between_runs(reach(), partial(reach.phone.says, what, text))


LONG = (pytest.param(call, marks=pytest.mark.long) for call in ("supported", "model", "compile"))


@pytest.mark.parametrize("call", ["compute", *LONG])
def test_a_driver_that_dies_in_a_call(call: str, reach: Reach):
    """The session goes on, and is right."""
    name = reach(reach.bench.altered, ALTERED=f"{call}:die")
    np.testing.assert_allclose(session(EXP, name).run(None, X)[0], np.exp(X["x"]), rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("call", ["model", "compile", "compute"])
def test_an_agent_that_is_killed_in_a_call(call: str, reach: Reach):
    """And so is the one that is started again: the option fallback decides."""
    name = reach(reach.bench.altered, ALTERED=f"{call}:hang")
    runtime = remote_runtime(name)
    with killed_in(call, lambda: runtime._agent):
        (found,) = session(EXP, name).run(None, X)
    np.testing.assert_allclose(found, np.exp(X["x"]), rtol=1e-5)


def used(name: str, model: str | bytes, given: dict[str, np.ndarray]) -> list[np.ndarray] | str:
    """The outputs of a session, or the one sentence of why there is none."""
    try:
        return session(model, name).run(None, given)
    except NnapiError as error:
        return str(error)


@pytest.mark.parametrize(
    "count", [0, 1, 4, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3, 5, 6, 7, 8))]
)
def test_a_cable_that_is_pulled_after_so_many_frames(count: int, reach: Reach):
    """Each time that it is put in again."""
    found = used(reach(before=f"{CABLE} cut {count}"), EXP, X)
    if count < 2:
        assert "no agent answers: its stream has ended" in found
        assert "\n" not in found
    else:
        assert not isinstance(found, str), found
        np.testing.assert_allclose(found[0], np.exp(X["x"]), rtol=1e-5)


def test_a_full_phone(reach: Reach, tmp_path: Path):
    """The weights do not fit: the CPU computes."""
    model = MODELS["mlp"]().SerializeToString()
    want = session(model, LIBRARY)
    given = feeds(want)
    full = tmp_path / "full.sh"
    full.write_text('#!/bin/sh\nulimit -f 100\nexec "$@"\n')
    full.chmod(0o755)
    (found,) = session(model, reach(before=str(full))).run(None, given)
    np.testing.assert_allclose(found, want.run(None, given)[0], rtol=1e-5, atol=1e-5)
    assert any(reach.files.glob("weights-*.part"))


def test_two_users_at_once(reach: Reach):
    """Of one folder of weights, each with an agent of its own; their first runs send the same."""
    model = MODELS["mlp"]().SerializeToString()
    want = session(model, LIBRARY)
    given = feeds(want)
    names = [reach() for _ in range(3)]

    def use(name: str) -> tuple[ort.InferenceSession, np.ndarray]:
        of = session(model, name)
        return of, of.run(None, given)[0]

    with ThreadPoolExecutor() as users:
        found = list(users.map(use, names))
    for receipt in ep_nnapi.receipts()[-len(names) :]:
        assert receipt["rejections"] == []
        assert receipt["clusters"][0]["device_runs"] == 1
    for _, output in found:
        np.testing.assert_array_equal(output, want.run(None, given)[0])


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command of an agent for ARM64 with the stand-in library, under emulation."""
    compiler = ("aarch64-linux-gnu-gcc",)
    skip_without(compiler)
    folder, before = tmp_path_factory.mktemp("arm64"), starter(compiler)
    made = Build(folder, *compiler)
    words = (*before, made.program("nnapi_agent"), "--folder", folder, "--runtime", made.stand_in)
    emulator = f"--emulator {before[0]}"
    return f"env QEMU_LD_PREFIX={ARM64_ROOT} {' '.join(map(str, words))} {emulator}"


@pytest.mark.parametrize("sessions", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_sessions_leave_nothing(sessions: int, built: Bench, tmp_path: Path):
    leave_nothing(f"exec:{built.command(tmp_path, built.build.stand_in)}", sessions)


@pytest.mark.long
def test_nor_do_those_of_an_agent_for_arm64(emulated: str):
    leave_nothing(f"exec:{emulated}", int(os.environ.get("EP_NNAPI_SESSIONS", "100")))


def leave_nothing(name: str, sessions: int) -> None:
    """No descriptor, no process, no memory here, in the agent or its workers."""
    x = np.zeros((1, 1, 8, 8), np.float32)

    def use(count: int) -> tuple[int, int, int]:
        for _ in range(count):
            session(str(DIGITS), name, device="stand-in").run(None, {"image": x})
        gc.collect()
        pid = remote_runtime(name).agent()._stream._process.pid
        remote_runtime(name).agent().memory()  # frees what waits
        workers = ran("ps", "--ppid", pid, "-o", "pid=", status=None).stdout.split()
        pages = [Path(f"/proc/{p}/statm").read_text().split()[1] for p in (pid, *workers)]
        descriptors = (os.listdir(f"/proc/{p}/fd") for p in ("self", pid, *workers))
        return len(workers), sum(map(len, descriptors)), sum(map(int, pages))

    before = use(10)
    after = use(sessions)
    print(before, after)  # noqa: T201 (how far from the limit)
    assert after[:2] == before[:2]
    assert after[2] - before[2] < 200


def test_a_phone_that_sleeps(reach: Reach, monkeypatch: pytest.MonkeyPatch):
    """A frame that is late is waited for; none at all is a loss, and the session goes on."""
    here = session(str(DIGITS), LIBRARY)
    given = feeds(here)
    (want,) = here.run(None, given)
    (found,) = used(reach(before=f"{CABLE} delay 1"), str(DIGITS), given)
    np.testing.assert_array_equal(found, want)
    monkeypatch.setattr("ep_nnapi.remote.stream.GRACE", 0.5)
    monkeypatch.setattr("ep_nnapi.remote.runtime.LIMIT", 1.0)
    monkeypatch.setattr("ep_nnapi.remote.runtime.QUESTION_LIMIT", 1.0)
    of = session(str(DIGITS), reach(before=f"{CABLE} stop 7"))
    for _ in range(2):
        np.testing.assert_allclose(of.run(None, given)[0], want, rtol=1e-5)


SEED = int(os.environ.get("EP_NNAPI_SEED", "36"))


@pytest.mark.parametrize("how", ["damage", "forge"])
@pytest.mark.parametrize("runs", [30, pytest.param(400, marks=pytest.mark.long)])
def test_what_an_agent_says_is_not_trusted(how: str, runs: int, built: Bench, tmp_path: Path):
    """Failures are NNAPI's or the option's; nothing hangs. Nobody can notice forged numbers."""
    x = np.ones(3, np.float32)
    done = 0
    for seed in range(SEED, SEED + runs):
        print("seed", seed)  # noqa: T201 (to repeat a failure)
        command = f"{CABLE} {how} {seed} {built.command(tmp_path, built.build.stand_in)}"
        try:
            runtime = open_runtime(f"exec:{command}")
            device = runtime.devices()[0]
            runtime.supported(add(), device)
            (y,) = runtime.compile(add(), device).run([x, x])
            assert y.shape == (3,)
            done += 1
        except (NnapiError, IndexError):
            continue
    assert 0 < done < runs
