"""Sessions survive a library whose calls fail, block or are missing, and leave nothing behind."""

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import ep_nnapi
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.errors import Reason, RuntimeFailure
from ep_nnapi.nnapi.library import runtime as library_runtime
from ep_nnapi.nnapi.library.binding import c_name
from ep_nnapi.provider import device_health
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from tests.end_to_end.sessions import nnapi_session
from tests.end_to_end.test_zoo import CONVOLUTIONAL, assert_close, built
from tests.native.build import needs_compiler
from tests.nnapi.library.recorded import CODED, Shim
from tests.nnapi.library.recorded import built as built_shim

pytestmark = needs_compiler
DIGITS = "models/digits.onnx"
IMAGES = np.load("models/digits/samples.npz")["images"][:4]
CODES = [code for code in ResultCode if code is not ResultCode.NO_ERROR]
TRANSIENT = ["MISSED_DEADLINE_TRANSIENT", "RESOURCE_EXHAUSTED_TRANSIENT", "DEAD_OBJECT"]
WHOLE_FROM = {"efficientnet_lite0": 2, "segmentation": 3}
"""Where not level 1: for depthwise convolutions of 1,152 channels; GATHER, TRANSPOSE_CONV_2D."""
LONG_MS = 60_000  # far longer than any test takes


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    return built_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(library: Shim) -> Iterator[Shim]:
    """The library without faults and with healthy devices."""
    healthy(library)
    yield library
    healthy(library)


def healthy(shim: Shim) -> None:
    """No faults, and nothing that is remembered of the library."""
    shim.clear()
    device_health._HEALTH.clear()
    library_runtime._devices.cache_clear()


def session(shim: Shim, model: str | bytes = DIGITS, **options: object) -> ort.InferenceSession:
    return nnapi_session(model, severity=4, runtime=shim.path, **options)


def run(made: ort.InferenceSession) -> np.ndarray:
    return np.concatenate([made.run(None, {"image": image[None]})[0] for image in IMAGES])


@pytest.fixture(scope="module")
def wanted() -> np.ndarray:
    return run(session_of(DIGITS))


def assert_right(got: np.ndarray, wanted: np.ndarray) -> None:
    """Float32 products are summed in another order."""
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


def left(shim: Shim) -> dict[str, int]:
    """Objects that are not freed; ONNX Runtime frees a session with its last reference.

    A collection that frees one may leave the next what the session held, in cycles of its own.
    """
    for _ in range(3):
        gc.collect()
        if not shim.live():
            break
    return shim.live()


def assert_survives(shim: Shim, name: str, code: ResultCode, nth: int, wanted: object) -> None:
    """The right answer, or one error that names call and code; nothing is left behind."""
    healthy(shim)
    shim.fault(name, code, nth=nth)
    error = None
    try:
        assert_right(run(session(shim)), wanted)
    except (RuntimeFailure, Fail) as failure:  # Fail where the session is made without a library
        error = failure
    if error is not None:
        assert f"{c_name(name)} returned ANEURALNETWORKS_{code.name}" in str(error)
    assert not left(shim), (name, code, nth)


def test_a_failure_of_every_function_that_a_session_calls(shim: Shim, wanted: np.ndarray) -> None:
    for name in CODED:
        shim.fault(name)
    assert_right(run(session(shim)), wanted)
    called = [name for name in CODED if shim.calls(name)]
    assert len(called) > 20
    for name in called:
        assert_survives(shim, name, ResultCode.OP_FAILED, 0, wanted)
    healthy(shim)
    assert_right(run(session(shim)), wanted)


@pytest.mark.long
@pytest.mark.parametrize("name", CODED)
def test_every_code_of_every_function(name: str, shim: Shim, wanted: np.ndarray) -> None:
    for code in CODES:
        for nth in (0, 2):
            assert_survives(shim, name, code, nth, wanted)


@pytest.mark.parametrize(
    "name", ["Execution_create", "Execution_setInput", "Execution_burstCompute"]
)
def test_without_a_fallback_the_error_has_call_code_and_nodes(name: str, shim: Shim) -> None:
    made = session(shim, fallback="none")
    shim.fault(name, ResultCode.OP_FAILED)
    with pytest.raises(Exception, match=rf"ANeuralNetworks{name} returned ANEURALNETWORKS_OP_FAIL"):
        run(made)
    with pytest.raises(Exception, match=r"in the cluster of Conv_1, .*MatMul_10"):
        run(made)


@pytest.mark.parametrize("code", TRANSIENT)
def test_a_transient_failure_is_tried_again_once(code: str, shim: Shim, wanted: np.ndarray, caplog):
    """DEAD_OBJECT after another compilation."""
    made = session(shim)
    shim.fault("Compilation_finish")
    shim.fault("Execution_burstCompute", ResultCode[code], nth=2)
    assert_right(run(made), wanted)
    assert shim.calls("Execution_burstCompute") == len(IMAGES) + 1
    assert shim.calls("Compilation_finish") == (code == "DEAD_OBJECT")
    assert not caplog.records
    shim.fault("Execution_burstCompute", ResultCode[code])
    assert_right(run(made), wanted)
    assert shim.calls("Execution_burstCompute") == 2
    (warning,) = (r.getMessage() for r in caplog.records)
    assert code in warning
    assert "fallback=reference from now on" in warning


def test_a_failing_compilation_leaves_its_nodes_to_the_cpu(shim: Shim, wanted: np.ndarray) -> None:
    shim.fault("Compilation_finish", ResultCode.OP_FAILED)
    report = ep_nnapi.check(DIGITS, runtime=shim.path)
    assert {r.reason for r in report.rejections} == {Reason.DRIVER}
    assert "Compilation_finish returned ANEURALNETWORKS_OP_FAILED" in report.rejections[0].detail
    assert_right(run(session(shim)), wanted)


def test_declined_operations_stay_on_the_cpu(shim: Shim, wanted: np.ndarray) -> None:
    shim.decline(spec.MAX_POOL_2D.code)
    report = ep_nnapi.check(DIGITS, runtime=shim.path)
    assert [r.op_type for r in report.rejections] == ["MaxPool"] * 2
    assert {r.reason for r in report.rejections} == {Reason.DRIVER}
    assert len(report.clusters) == 3
    assert_right(run(session(shim)), wanted)


def test_a_device_that_keeps_failing_is_left_out(shim: Shim, wanted: np.ndarray, caplog):
    """Three clusters fail; the fourth leaves the device without a try, later sessions too."""
    shim.decline(spec.MAX_POOL_2D.code)
    sessions = [session(shim), session(shim)]  # of three clusters each
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED)
    assert_right(run(sessions[0]), wanted)
    assert shim.calls("Execution_burstCompute") == 3
    assert_right(run(sessions[1]), wanted)
    assert shim.calls("Execution_burstCompute") == 3
    assert "nnapi-reference failed 3 times and is left out" in caplog.text
    shim.clear()
    report = ep_nnapi.check(DIGITS, runtime=shim.path, device="nnapi-reference")
    assert report.taken == 0
    assert "nnapi-reference failed 3 times and is left out" in report.rejections[0].detail


def test_a_run_that_does_not_return_is_abandoned(tmp_path: Path, wanted: np.ndarray) -> None:
    """The fallback computes it and all later runs; the library keeps memory of its own."""
    shim = built_shim(tmp_path)  # not shared: what is abandoned stays in it
    made = session(shim, execution_timeout=0.2)
    shim.fault("Execution_burstCompute", milliseconds=LONG_MS)
    begin = time.monotonic()
    assert_right(run(made), wanted)
    assert time.monotonic() - begin < LONG_MS / 2000
    assert shim.calls("Execution_burstCompute") == 1
    shim.clear()
    (rejection, *_) = ep_nnapi.check(DIGITS, runtime=shim.path, device="nnapi-reference").rejections
    assert "nnapi-reference does not respond and is left out" in rejection.detail


def test_a_compilation_that_does_not_return_is_abandoned(tmp_path: Path, wanted: np.ndarray):
    shim = built_shim(tmp_path)
    shim.fault("Compilation_finish", milliseconds=LONG_MS)
    begin = time.monotonic()
    assert_right(run(session(shim, compilation_timeout=0.2)), wanted)
    assert time.monotonic() - begin < LONG_MS / 2000
    assert shim.calls("Compilation_finish") == 1


@pytest.mark.parametrize("level", range(1, 9))
def test_with_the_functions_of_each_level_alone(level: int, tmp_path: Path) -> None:
    """Float convolutional networks are one cluster from level 1 on."""
    older = built_shim(tmp_path, level)
    for name in CONVOLUTIONAL[:2] if level == 1 else ("squeezenet1_1",):
        model = built(name, published=False)
        report = ep_nnapi.check(model.SerializeToString(), runtime=older.path)
        assert report.feature_level == level
        assert (len(report.clusters), report.taken) == (1, report.nodes)
        assert_close(model, runtime=older.path)
    assert not left(older)


@pytest.mark.long
@pytest.mark.parametrize("level", range(1, 8))
def test_the_zoo_with_the_functions_of_each_level_alone(level: int, tmp_path: Path) -> None:
    older = built_shim(tmp_path, level)
    for name in zoo.MODELS:
        model = built(name, published=False)
        assert_close(model, runtime=older.path)
        assert not left(older)
        if name not in CONVOLUTIONAL:
            continue
        report = ep_nnapi.check(model.SerializeToString(), runtime=older.path)
        if level < WHOLE_FROM.get(name, 1):
            assert {r.reason for r in report.rejections} == {Reason.LEVEL}
        else:
            assert (len(report.clusters), report.taken) == (1, report.nodes)


@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.long)])
def test_threads_under_random_faults_lose_nothing(seconds: float, shim: Shim, wanted: np.ndarray):
    """One call in a hundred fails; each thread makes sessions and runs them."""
    seed = time.time_ns() % 2**32
    print("seed", seed)  # noqa: T201 (to repeat a failure)
    session(shim)  # lists the devices, which a process does once
    shim.random(seed, per_mille=10)
    end = time.monotonic() + seconds

    def work(_: int) -> int:
        done = 0
        while time.monotonic() < end or not done:
            device_health._HEALTH.clear()  # a device left out would end the test's faults
            assert_right(run(session(shim)), wanted)
            done += 1
        return done

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))
    shim.clear()
    assert not left(shim)
