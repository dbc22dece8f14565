"""Every failure in Python reaches the user as its own sentence, and nothing crashes."""

import contextlib
import gc
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from ep_nnapi.nnapi.errors import NnapiError, RuntimeFailure
from ep_nnapi.ort import plugin
from ep_nnapi.ort import session as nnapi
from tests.ort.conftest import NAME, Install, start
from tests.ort.fake import Cluster, FakeProvider
from tests.ort.models import abs_add
from tests.programs import Done, ran

ROOT = Path(__file__).parents[2]
ORT = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
X = np.ones((2, 3), np.float32)
OURS = RuntimeFailure("ANeuralNetworksExecution_compute", "OP_FAILED")
SENTENCE = "ANeuralNetworksExecution_compute returned OP_FAILED"
ERRORS = [
    pytest.param(OURS, SENTENCE, id="ours"),
    pytest.param(KeyError("w"), "KeyError: 'w'", id="foreign"),
    pytest.param(NnapiError("größer als 2³¹"), "größer als 2³¹", id="unicode"),
]


class Failing(FakeProvider):
    """Raises `error` at one stage."""

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__(["Abs", "Add"], together=True)
        self.stage, self.error = stage, error

    def reach(self, stage: str) -> None:
        if stage == self.stage:
            raise self.error

    def open(self, entries: Mapping[str, str]) -> FakeProvider:
        self.reach("CreateEp")
        return super().open(entries)

    def plan(self, graph: object) -> Sequence[Cluster]:
        self.reach("GetCapability")
        clusters = super().plan(graph)
        for cluster in clusters:
            bind = cluster.bind
            cluster.bind = lambda i, o, bind=bind: self.bound(bind, i, o)
        return clusters

    def bound(self, bind, inputs, outputs):
        self.reach("Compile")
        runner = bind(inputs, outputs)

        def run(arrays, allocate, stop):
            self.reach("Compute")
            runner(arrays, allocate, stop)

        return run


@pytest.mark.parametrize(("error", "sentence"), ERRORS)
def test_compute_error_is_the_runs_error(install: Install, error, sentence):
    failing = install(provider=Failing("Compute", error))
    session = start(abs_add())
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail) as raised:
        session.run(None, {"x": X})
    assert str(raised.value).endswith(f"Status Message: {sentence}")
    failing.stage = ""
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], 2 * X)


@pytest.mark.parametrize(("error", "sentence"), ERRORS)
def test_compile_error_ends_the_session(install: Install, error, sentence):
    install(provider=Failing("Compile", error))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail) as raised:
        start(abs_add())
    assert str(raised.value).endswith(f"FAIL : {sentence}")


def test_failed_sessions_leave_nothing(install: Install):
    """The first of two clusters is compiled already when the second fails."""

    class SecondFails(FakeProvider):
        def plan(self, graph: object) -> Sequence[Cluster]:
            clusters = super().plan(graph)
            clusters[1].bind = lambda inputs, outputs: 1 / 0
            return clusters

    fake = install(provider=SecondFails(["Abs", "Add"]))
    gc.collect()  # sessions of other tests
    live_objects = set(plugin.live_objects)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="ZeroDivisionError"):
        start(abs_add())
    assert len(fake.runners) == 1
    assert set(plugin.live_objects) == live_objects


@pytest.mark.parametrize("stage", ["GetCapability", "Compile"])
def test_an_error_that_the_provider_keeps_does_not_keep_the_session(install: Install, stage: str):
    """Frames of its traceback, and of its cause's, refer to the session that is being created."""

    class FailingWithCause(Failing):
        def reach(self, stage: str) -> None:
            try:
                int("many")
            except ValueError as cause:
                self.error.__cause__ = cause
                super().reach(stage)

    fake = install(provider=FailingWithCause(stage, RuntimeError("no memory")))
    live_objects = set(plugin.live_objects)
    with contextlib.suppress(onnxruntime.capi.onnxruntime_pybind11_state.Fail):
        start(abs_add())
    gc.collect()
    assert set(plugin.live_objects) <= live_objects
    assert str(fake.error) == "no memory"


@pytest.mark.parametrize(("error", "sentence"), ERRORS)
def test_capability_error_is_logged_and_claims_nothing(install: Install, capfd, error, sentence):
    install(provider=Failing("GetCapability", error))
    session = start(abs_add(), log_severity_level=3)
    assert sentence in capfd.readouterr().err
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], 2 * X)


@pytest.mark.filterwarnings("ignore:Specified 'providers'")  # onnxruntime, while falling back
@pytest.mark.parametrize(("error", "sentence"), ERRORS)
@pytest.mark.parametrize("way", ["providers", "append"])
def test_create_error_is_printed_before_the_cpu_takes_over(install, capfd, way, error, sentence):
    failing = install(provider=Failing("", error))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if way == "append":
        nnapi.append_execution_provider(options)  # which asks the provider for itself
    failing.stage = "CreateEp"
    if way == "append" and ORT >= (1, 32):  # keeps the devices of the options when it tries again
        with pytest.raises(Exception, match=re.escape(sentence)):
            onnxruntime.InferenceSession(abs_add(), options)
        return
    if way == "append":
        session = onnxruntime.InferenceSession(abs_add(), options)
    else:
        providers = [NAME, "CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(abs_add(), options, providers=providers)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert sentence in capfd.readouterr().out


class Wrong(FakeProvider):
    """Runs clusters in a wrong way."""

    def __init__(self, run) -> None:
        super().__init__(["Abs", "Add"], together=True)
        self.run = run

    def plan(self, graph: object) -> Sequence[Cluster]:
        clusters = super().plan(graph)
        for cluster in clusters:
            cluster.bind = lambda inputs, outputs: self.run
        return clusters


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        pytest.param(
            lambda inputs, allocate, stop: None, "did not compute all of its outputs", id="none"
        ),
        pytest.param(lambda inputs, allocate, stop: allocate(1, (2, 3)), "IndexError", id="index"),
        pytest.param(
            lambda inputs, allocate, stop: allocate(0, (2, -3)), "onnxruntime: ", id="negative"
        ),
        pytest.param(
            lambda inputs, allocate, stop: allocate(0, (2, 1.5)), "TypeError", id="fraction"
        ),
    ],
)
def test_wrong_runner_is_an_error_not_a_crash(install: Install, run, sentence):
    install(provider=Wrong(run))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match=sentence):
        start(abs_add()).run(None, {"x": X})


def run_python(code: str, *arguments: str) -> Done:
    command = [sys.executable, "-c", code, *arguments]
    return ran(*command, status=None, timeout=120)


def test_registering_by_path_imports_the_package():
    code = f"""
import sys, onnxruntime
onnxruntime.register_execution_provider_library("{NAME}", sys.argv[1])
print({{device.ep_name for device in onnxruntime.get_ep_devices()}} - {{"CPUExecutionProvider"}})
"""
    done = run_python(code, nnapi.get_library_path())
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{{{NAME!r}}}\n", "")


def test_a_library_of_another_version_is_refused(tmp_path: Path):
    """A copy beside a package whose table has another identity."""
    package = tmp_path / "ep_nnapi" / "ort"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "plugin.py").write_text(
        "import ctypes\ntable = (ctypes.c_uint32 * 8)()\n"
        "def connect():\n    return ctypes.addressof(table)\n"
    )
    code = """
import sys, onnxruntime
sys.path.insert(0, sys.argv[2])
try:
    onnxruntime.register_execution_provider_library("x", sys.argv[1])
except Exception as error:
    print(error)
"""
    done = run_python(code, nnapi.get_library_path(), str(tmp_path))
    assert done.stdout.endswith(
        "libonnxruntime_providers_nnapi.so: the Python package ep_nnapi is another version's\n"
    ), done.stdout + done.stderr


def test_a_session_may_outlive_the_globals_of_the_plugin():
    """Python clears modules that something still holds, the one that was imported last first."""
    code = f"""
import sys, types
early = sys.modules["early"] = types.ModuleType("early")
import onnxruntime, ep_nnapi
options = onnxruntime.SessionOptions()
ep_nnapi.append_execution_provider(options)
early.session = onnxruntime.InferenceSession({str(ROOT / "models" / "digits.onnx")!r}, options)
from ep_nnapi.ort import plugin
sys.held = [early, plugin]
"""
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("ending", ["", "del session", "del graph", "sys.exit(3)"])
def test_the_process_ends_cleanly(ending: str):
    """With a session alive, dropped, or unregistered under it."""
    code = f"""
import sys, onnxruntime
from ep_nnapi.ort import plugin, session as nnapi
from tests.ort.fake import FakeProvider
from tests.ort.models import abs_add
plugin.factory.open_provider = FakeProvider(["Abs"]).open
nnapi.register()
graph = abs_add()
session = onnxruntime.InferenceSession(graph, providers=["{NAME}", "CPUExecutionProvider"])
{ending}
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (3 if "exit" in ending else 0, "")


def test_a_session_outlives_the_registration():
    code = f"""
import onnxruntime, numpy as np
from ep_nnapi.ort import plugin, session as nnapi
from tests.ort.fake import FakeProvider
from tests.ort.models import abs_add
plugin.factory.open_provider = FakeProvider(["Abs"]).open
providers = ["{NAME}", "CPUExecutionProvider"]
for _ in range(3):
    nnapi.register()
    session = onnxruntime.InferenceSession(abs_add(), providers=providers)
    onnxruntime.unregister_execution_provider_library("{NAME}")
    print(session.run(None, {{"x": np.ones((2, 3), np.float32)}})[0].sum())
    del session
"""
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12.0\n" * 3, "")
