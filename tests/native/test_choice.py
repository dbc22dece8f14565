"""The choice among alternatives: what declines, fails, hangs or dies gives way."""

import ctypes
import fcntl
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.epcontext.contexts import write_checksum
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.functions import FUNCTIONS
from ep_nnapi.nnapi.spec import CONV_2D
from models.zoo import MODELS, sample_inputs
from tests.native import sessions
from tests.native.alternatives import MAKERS
from tests.native.build import ROOT, Build, needs_compiler
from tests.native.test_faults import CODES, CREATING, RUNNING
from tests.nnapi.library.recorded import Shim, built
from tests.onnx_graph import parsed
from tests.preparation.test_alternatives import PARTS
from tests.programs import ran

pytestmark = needs_compiler
MODEL = MODELS["kws_dscnn"]()
FEEDS = sample_inputs(MODEL)
(RIGHT,) = onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return sessions.prepared(MODEL, folder, alternatives="nnapi:4,nnapi:1,cpu")


def outcome(path: Path, folder: Path, runs: int = 2, **options: str) -> dict:
    """The cluster of the receipt of a session whose runs are all right."""
    receipt = folder / "receipt.json"
    made = sessions.session(path, receipt=str(receipt), **options)
    for _ in range(runs):
        np.testing.assert_allclose(made.run(None, FEEDS)[0], RIGHT, rtol=1e-4, atol=1e-5)
    del made
    (cluster,) = json.loads(receipt.read_text())["clusters"]
    return cluster


def test_a_working_device_is_chosen(path: Path, tmp_path: Path):
    found = outcome(path, tmp_path)
    assert (found["alternative"], found["tried"]) == ("nnapi:1 on nnapi-reference", [])
    assert (found["runs"], found["device_runs"], found["device"]) == (2, 2, sessions.REFERENCE)


def test_nothing_but_what_is_chosen_is_made(path: Path, shim: Shim, tmp_path: Path):
    """And a device that compiles is not asked before, which takes as long."""
    counted = {"Model_finish": 1, "Compilation_finish": 1}
    for name in (*counted, "Model_getSupportedOperationsForDevices"):
        shim.fault(name)
    outcome(path, tmp_path, runtime=shim.path)
    assert {name: shim.calls(name) for name in counted} == counted
    assert shim.calls("Model_getSupportedOperationsForDevices") == 0


LIBC = ctypes.CDLL(None)


ONE_THREAD = """
import os, sys
from pathlib import Path
import onnxruntime
from tests.native import sessions
from tests.native.test_choice import FEEDS

def use():
    sessions.session(Path(sys.argv[1])).run(None, FEEDS)
    return len(os.listdir("/proc/self/task"))

there = use()
assert use() == there
for _ in range(3):
    child = os.fork()
    if not child:
        use()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
onnxruntime.unregister_execution_provider_library(sessions.EP_NAME)
assert len(os.listdir("/proc/self/task")) < there
"""


def test_trials_share_a_thread_that_ends_with_the_library(path: Path):
    """A forked child, which does not have it, starts its own."""
    command = [sys.executable, "-c", ONE_THREAD, str(path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100)


class _Memory(ctypes.Structure):
    """Source: malloc.h, struct mallinfo2."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (*"abcde", "mapped", "f", "used", *"hi"))


def allocated() -> int:
    """Bytes that glibc has given out."""
    gc.collect()
    LIBC.mallinfo2.restype = _Memory
    found = LIBC.mallinfo2()
    return int(found.mapped + found.used)


def taken(create: Callable[[Path], onnxruntime.InferenceSession], path: Path) -> float:
    """Bytes that another session of a model takes, when it has run."""
    made, there = [], []
    for _ in range(6):
        there.append(allocated())
        made.append(create(path))
        made[-1].run(None, {"a0": np.zeros((2, 3), np.float32)})
    return (allocated() - there[2]) / 4


@pytest.mark.skipif(not hasattr(LIBC, "mallinfo2"), reason="needs glibc 2.33")
@pytest.mark.parametrize(
    ("create", "copies"), [(sessions.session, 4), (sessions.python_session, 10)]
)
def test_of_others_no_more_is_kept_than_they_are_packed_in(create, copies, tmp_path):
    """ONNX Runtime has a copy, the session one; their programs would take several times as much."""
    steps = (f"b{n} = Exp (a{n}) a{n + 1} = Tanh (b{n})" for n in range(60))
    model = parsed(f"(float[2,3] a0) => (float[2,3] a60) {{ {' '.join(steps)} }}")
    one, every = (
        sessions.prepared(model, tmp_path / chosen[-3:], alternatives=chosen)
        for chosen in ("nnapi:3", "nnapi:3,nnapi:1,cpu")
    )
    more = every.stat().st_size - one.stat().st_size
    assert taken(create, every) - taken(create, one) < copies * more


@pytest.mark.parametrize("prefer", ["cpu", "cpu,nnapi"])
def test_the_order_may_be_given(prefer: str, path: Path, tmp_path: Path):
    found = outcome(path, tmp_path, prefer=prefer)
    assert (found["alternative"], found["device"], found["tried"]) == ("cpu", "cpu", [])


def test_without_a_library_the_cpu_computes(path: Path, tmp_path: Path):
    found = outcome(path, tmp_path, runtime="/nowhere/libneuralnetworks.so")
    assert found["alternative"] == "cpu"
    assert "/nowhere/libneuralnetworks.so" in found["tried"][0]["reason"]


def test_an_unknown_preference_is_said(path: Path):
    with pytest.raises(Exception, match="prefer has 'gpu'; give some of nnapi,litert-npu"):
        sessions.session(path, prefer="cpu,gpu")
    with pytest.raises(Exception, match="no alternative of it is preferred here"):
        sessions.session(path, prefer="litert-gpu")


@pytest.mark.parametrize("name", [*CREATING[6:], *RUNNING])
def test_what_fails_gives_way(name: str, path: Path, shim: Shim, tmp_path: Path):
    shim.fault(name, ResultCode.OP_FAILED)
    found = outcome(path, tmp_path, runtime=shim.path)
    if found["alternative"] != "cpu":
        assert found["alternative"] == "nnapi:1 on nnapi-reference"
        assert not shim.calls(name)  # nothing of it needed the function
        return
    assert "OP_FAILED" in found["tried"][0]["reason"]
    assert (found["runs"], found["device_runs"]) == (2, 2)


@pytest.mark.long
@pytest.mark.parametrize("level", [1, 3, 8])
def test_every_code_of_every_function_gives_way(level: int, path: Path, tmp_path: Path):
    shim, device = built(tmp_path, level), sessions.REFERENCE if level >= 3 else "default"
    there = {f.python_name for f in FUNCTIONS if f.level <= level}
    for name in sorted(there & {*CREATING, *RUNNING}):
        for code in CODES:
            shim.clear()
            shim.fault(name, code)
            outcome(path, tmp_path, runtime=shim.path, device=device)
            shim.clear()
            assert shim.live() == {}


def test_what_declines_gives_way(path: Path, shim: Shim, tmp_path: Path):
    shim.decline(CONV_2D.code)
    shim.fault("Compilation_finish", ResultCode.BAD_DATA)  # as NNAPI has it for such a device
    found = outcome(path, tmp_path, runtime=shim.path)
    shim.clear()
    assert found["alternative"] == "cpu"
    assert "nnapi-reference declines operation" in found["tried"][0]["reason"]


@pytest.mark.parametrize("name", ["Compilation_finish", "Execution_burstCompute"])
def test_what_hangs_gives_way(name: str, path: Path, shim: Shim, tmp_path: Path):
    """And is not tried again by a later start, as the note in the folder says."""
    shim.fault(name, milliseconds=3000)
    options = {"runtime": shim.path, "trial_timeout": "0.3", "cache_dir": str(tmp_path)}
    found = outcome(path, tmp_path, **options)
    assert found["alternative"] == "cpu"
    doing = "compile" if name == "Compilation_finish" else "run"
    assert found["tried"][0]["reason"] == f"it did not {doing} within 0.3 s"
    shim.clear()
    found = outcome(path, tmp_path, **options)
    assert found["alternative"] == "cpu"
    assert "an earlier start ended in it" in found["tried"][0]["reason"]
    (note,) = tmp_path.glob("ep-nnapi-*.trying")
    assert note.read_text() == "nnapi:1 on nnapi-reference\n"
    with note.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as another process has it while its own trial lasts
        assert outcome(path, tmp_path, **options)["alternative"] == "nnapi:1 on nnapi-reference"
    assert [*tmp_path.glob("ep-nnapi-*.trying")] == [note]


@pytest.mark.parametrize("first", ["session", "program"])
def test_what_ends_the_process_does_so_once(first: str, path: Path, tmp_path: Path):
    """And not the application's, if that has nnapi_run try before."""
    build = Build(tmp_path, "cc")
    library = build.stand_in
    code = f"""
import numpy as np
from tests.native.sessions import session
from models.zoo import MODELS, sample_inputs
made = session({str(path)!r}, runtime={str(library)!r}, device="stand-in", prefer="nnapi,cpu",
               cache_dir={str(tmp_path)!r})
print(made.run(None, sample_inputs(MODELS["kws_dscnn"]()))[0].argmax())
"""
    environment = {**os.environ, "STAND_IN_ABORTS": "stand-in"}
    command, options = [sys.executable, "-c", code], {"capture_output": True, "text": True}
    told = f"--runtime {library} --device stand-in --prefer nnapi,cpu --cache-dir {tmp_path}"
    program = [build.program("nnapi_run"), path, *told.split()] if first == "program" else command
    died, lived = (
        subprocess.run(words, cwd=ROOT, env=environment, timeout=100, check=False, **options)
        for words in (program, command)
    )
    assert died.returncode == -signal.SIGABRT
    assert (lived.returncode, lived.stdout.strip()) == (0, str(RIGHT.argmax()))


@pytest.mark.parametrize(
    ("number", "left"),
    [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGHUP, 0), (signal.SIGKILL, 1)],
)
def test_who_ends_the_program_in_a_trial_blames_no_device(
    number: signal.Signals, left: int, path: Path, tmp_path: Path
):
    """A user, or the system that stops it; SIGKILL may be for the memory that a driver takes."""
    build, notes = Build(tmp_path, "cc"), tmp_path / "notes"
    notes.mkdir()
    words = ["--runtime", build.stand_in, "--device", "stand-in", "--cache-dir", notes]
    environment = os.environ | {"STAND_IN_ABORTS": "stand-in", "STAND_IN_SIGNAL": str(int(number))}
    ran(build.program("nnapi_run"), path, *words, status=-number, timeout=100, env=environment)
    assert len([*notes.iterdir()]) == left


ENDS = """
import os, sys, time
from pathlib import Path
import ep_nnapi, onnxruntime
from ep_nnapi.ort.ep import Ep
from tests.native.sessions import devices

def end(*_):
    limit = time.monotonic() + 20
    while [*Path(sys.argv[3]).glob("*.trying")] and time.monotonic() < limit:
        time.sleep(0.01)
    os._exit(3)

Ep.get_capability = end
config = onnxruntime.SessionOptions()
options = {"runtime": sys.argv[2], "device": "stand-in", "cache_dir": sys.argv[3]}
config.add_provider_for_devices(devices()[:1], options)
ep_nnapi.append_execution_provider(config)
onnxruntime.InferenceSession(sys.argv[1], config)
"""


def test_a_host_that_ends_while_it_makes_the_session_blames_no_device(path: Path, tmp_path: Path):
    """It ends, once the device has compiled, in another provider, which plans after the plugin."""
    library, notes = Build(tmp_path, "cc").stand_in, tmp_path / "notes"
    notes.mkdir()
    command = [sys.executable, "-c", ENDS, str(path), str(library), str(notes)]
    assert subprocess.run(command, cwd=ROOT, timeout=100, check=False).returncode == 3
    options = {"runtime": str(library), "device": "stand-in", "cache_dir": str(notes)}
    receipt = tmp_path / "receipt.json"
    sessions.session(path, receipt=str(receipt), **options).run(None, FEEDS)
    (found,) = json.loads(receipt.read_text())["clusters"]
    assert (found["alternative"], found["tried"]) == ("nnapi:1 on stand-in", [])


@pytest.mark.parametrize("maker", MAKERS)
def test_if_none_runs_the_error_names_all(maker: str, shim: Shim, tmp_path: Path):
    path = sessions.prepared(parsed(PARTS), tmp_path, alternatives="nnapi:4,nnapi:1,cpu")
    shim.fault("Compilation_finish", ResultCode.OP_FAILED)
    names = ", ".join(f"nnapi:{n} on {sessions.REFERENCE}" for n in (3, 1))
    with pytest.raises(Exception, match=rf"prepare the model with others .*: {names}: .*OP_FAILED"):
        MAKERS[maker](path, runtime=shim.path, device=sessions.REFERENCE, prefer="nnapi")


def test_a_later_failure_gives_way_too(path: Path, shim: Shim, tmp_path: Path):
    receipt = tmp_path / "receipt.json"
    made = sessions.session(path, runtime=shim.path, receipt=str(receipt))
    made.run(None, FEEDS)
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED)
    np.testing.assert_allclose(made.run(None, FEEDS)[0], RIGHT, rtol=1e-4, atol=1e-5)
    shim.clear()
    del made
    (found,) = json.loads(receipt.read_text())["clusters"]
    assert (found["alternative"], found["runs"], found["device_runs"]) == ("cpu", 2, 1)
    assert found["tried"][0]["runs"] == 1
    kept = sessions.session(path, runtime=shim.path, fallback="none")
    kept.run(None, FEEDS)
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED)
    with pytest.raises(Exception, match="OP_FAILED"):
        kept.run(None, FEEDS)


def test_another_node_may_fail(path: Path, tmp_path: Path):
    """A choice that has begun before is ended: no object stays, nor a note."""
    proto = onnx.load(path, load_external_data=False)
    other = proto.graph.node.add()
    other.CopyFrom(proto.graph.node[0])
    other.name, other.output[0] = "other", "elsewhere"
    proto.graph.output.append(proto.graph.output[0])
    proto.graph.output[1].name = "elsewhere"
    for entry in proto.metadata_props:
        if entry.key == "ep_nnapi.sha256":
            entry.value = "0" * len(entry.value)
    both = path.with_name("both.onnx")
    onnx.save(proto, both)
    write_checksum(both)
    shim = built(tmp_path)
    shim.fault("Compilation_finish")
    with pytest.raises(Exception, match="other"):
        sessions.session(both, runtime=shim.path, cache_dir=str(tmp_path))
    assert shim.calls("Compilation_finish") == 1
    assert shim.live() == {}
    assert not [*tmp_path.glob("*.trying")]


def test_threads_share_the_first_run(path: Path, tmp_path: Path):
    shim = built(tmp_path)
    made = sessions.session(path, runtime=shim.path)
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED, nth=1)
    with ThreadPoolExecutor(4) as pool:
        results = [*pool.map(made.run, [None] * 40, [FEEDS] * 40)]
    shim.clear()
    for (result,) in results:
        np.testing.assert_allclose(result, RIGHT, rtol=1e-4, atol=1e-5)
    del made
    assert shim.live() == {}


@pytest.mark.parametrize("level", [1, 3])
def test_a_partition_computes_at_a_lower_level(level: int, tmp_path: Path):
    library = built(tmp_path, level)
    path = sessions.prepared(parsed(PARTS), tmp_path, alternatives="nnapi:4,nnapi:1,cpu")
    device = sessions.REFERENCE if level >= 3 else "default"
    receipt = tmp_path / "receipt.json"
    made = sessions.session(path, runtime=library.path, device=device, receipt=str(receipt))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    b = np.maximum(np.exp(x), 0)
    np.testing.assert_allclose(made.run(None, {"x": x})[0], b + np.exp(b), rtol=1e-5)
    del made
    (found,) = json.loads(receipt.read_text())["clusters"]
    assert found["alternative"] == f"nnapi:{level} on {device}"
    assert library.live() == {}
