"""Each NNAPI function that the client calls, with each result code: one error or a right answer."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.functions import FUNCTIONS
from ep_nnapi.provider.device_health import TRANSIENT
from tests.epcontext.forging import branching, changed, quantized_digits
from tests.epcontext.test_tables import setting
from tests.native.build import needs_compiler
from tests.native.forged_models import change_context, forged
from tests.native.sessions import REFERENCE, prepared, session
from tests.nnapi.library.recorded import Shim, built
from tests.programs import python

ROOT = Path(__file__).resolve().parents[2]
pytestmark = needs_compiler
IMAGE = {"image": np.load(ROOT / "models" / "digits" / "samples.npz")["images"][:1]}
CREATING = (
    *("getDeviceCount", "getDevice", "Device_getName", "Device_getType", "Device_getVersion"),
    *("Device_getFeatureLevel", "Memory_createFromFd", "Model_create", "Model_addOperand"),
    *("Model_setOperandValue", "Model_setOperandValueFromMemory", "Model_addOperation"),
    *("Model_identifyInputsAndOutputs", "Model_finish", "Compilation_createForDevices"),
    *("Compilation_setPreference", "Compilation_setPriority", "Compilation_finish"),
)
RUNNING = (
    *("Execution_create", "Execution_setInput", "Execution_setOutput"),
    *("Execution_setReusable", "Execution_burstCompute"),
)
CODES = [code for code in ResultCode if code]


@pytest.mark.parametrize("name", CREATING)
def test_a_fault_while_a_session_is_made_is_one_error(name: str, shim: Shim, model: Path) -> None:
    for code in CODES:
        shim.clear()
        shim.fault(name, code)
        with pytest.raises(Exception, match="nnapi_0: ANeuralNetworks") as failed:
            session(model, runtime=shim.path)
        assert f"ANEURALNETWORKS_{code.name}" in str(failed.value)
        assert "\n" not in str(failed.value).strip()
    shim.clear()
    assert shim.live() == {}


@pytest.mark.parametrize("name", RUNNING)
def test_a_fault_of_a_run_is_one_error_and_the_next_run_is_right(name, shim, model):
    made = session(model, runtime=shim.path)
    (right,) = made.run(None, IMAGE)
    for code in CODES:
        made = session(model, runtime=shim.path)
        shim.fault(name, code)
        with pytest.raises(Exception, match=f"ANeuralNetworks{name}: .*{code.name}"):
            made.run(None, IMAGE)
        shim.clear()
        assert np.array_equal(made.run(None, IMAGE)[0], right)
    del made
    assert shim.live() == {}


def test_a_driver_without_bursts_computes(shim: Shim, model: Path) -> None:
    (right,) = session(model, runtime=shim.path).run(None, IMAGE)
    shim.fault("Burst_create", ResultCode.OP_FAILED)
    made = session(model, runtime=shim.path, fallback="none")
    assert np.array_equal(made.run(None, IMAGE)[0], right)


def test_a_run_that_fails_is_repeated_on_the_reference_device(shim: Shim, model: Path) -> None:
    made = session(model, runtime=shim.path, device="host-cpu")
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED, nth=1)
    (scores,) = made.run(None, IMAGE)
    (right,) = session(model, runtime=shim.path).run(None, IMAGE)
    assert np.array_equal(scores, right)


def test_a_run_that_fails_on_both_devices_does_not_change_the_device(shim: Shim, model: Path):
    """Its inputs are to blame. Only a run that the fallback computes is the device's failure."""
    made = session(model, runtime=shim.path, device="host-cpu")
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED)
    for _ in range(3):
        with pytest.raises(Exception, match="Execution_burstCompute: ANEURALNETWORKS_OP_FAILED"):
            made.run(None, IMAGE)
    assert shim.calls("Execution_burstCompute") == 6
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED, nth=1)  # the device's, still
    assert made.run(None, IMAGE)[0].argmax() == 0
    shim.fault("Execution_burstCompute", ResultCode.OP_FAILED, nth=1)  # the fallback's, now alone
    with pytest.raises(Exception, match="Execution_burstCompute: ANEURALNETWORKS_OP_FAILED"):
        made.run(None, IMAGE)
    shim.clear()
    del made
    assert shim.live() == {}


@pytest.mark.parametrize("code", sorted(TRANSIENT))
def test_a_transient_failure_is_tried_again_once(code: ResultCode, shim: Shim, model: Path) -> None:
    """As in Python, on the same device: DEAD_OBJECT after another compilation."""
    made = session(model, runtime=shim.path, fallback="none")
    (right,) = made.run(None, IMAGE)
    shim.fault("Compilation_finish")
    shim.fault("Execution_burstCompute", code, nth=1)
    assert np.array_equal(made.run(None, IMAGE)[0], right)
    assert shim.calls("Execution_burstCompute") == 2
    assert shim.calls("Compilation_finish") == (code is ResultCode.DEAD_OBJECT)
    shim.fault("Execution_burstCompute", code)
    with pytest.raises(Exception, match=f"Execution_burstCompute: ANEURALNETWORKS_{code.name}"):
        made.run(None, IMAGE)
    assert shim.calls("Execution_burstCompute") == 2
    shim.clear()
    assert np.array_equal(made.run(None, IMAGE)[0], right)
    del made
    assert shim.live() == {}


@pytest.mark.parametrize("code", [ResultCode.OP_FAILED, ResultCode.BAD_STATE])
def test_another_failure_is_not_tried_again(code: ResultCode, shim: Shim, model: Path) -> None:
    made = session(model, runtime=shim.path, fallback="none")
    shim.fault("Execution_burstCompute", code, nth=1)
    with pytest.raises(Exception, match=code.name):
        made.run(None, IMAGE)
    assert shim.calls("Execution_burstCompute") == 1


def test_a_driver_that_stays_dead_is_its_own_error(shim: Shim, model: Path) -> None:
    """Where it does not compile again, the run's failure is reported, and no second try is made."""
    made = session(model, runtime=shim.path, fallback="none")
    shim.fault("Compilation_finish", ResultCode.OP_FAILED)
    shim.fault("Execution_burstCompute", ResultCode.DEAD_OBJECT)
    for _ in range(2):
        with pytest.raises(Exception, match=r"Execution_burstCompute: .*DEAD_OBJECT"):
            made.run(None, IMAGE)
    assert shim.calls("Execution_burstCompute") == 2
    shim.clear()
    assert made.run(None, IMAGE)[0].argmax() == 0


@pytest.mark.parametrize("name", ["Model_finish", "Compilation_finish"])
@pytest.mark.parametrize("code", sorted(TRANSIENT))
def test_a_transient_failure_while_a_session_is_made_is_tried_again_once(name, code, shim, model):
    shim.fault(name, code, nth=1)
    made = session(model, runtime=shim.path, fallback="none")
    assert shim.calls(name) == 2
    assert made.run(None, IMAGE)[0].argmax() == 0
    del made
    assert shim.live() == {}


def outcome(made: onnxruntime.InferenceSession, right: np.ndarray) -> str:
    """The error of a run; empty if its result is right."""
    try:
        (scores,) = made.run(None, IMAGE)
    except Exception as error:
        return str(error)
    assert np.allclose(scores, right, rtol=1e-4, atol=1e-4)  # two devices sum in two orders
    return ""


def test_threads_on_a_device_that_fails_at_random(shim: Shim, model: Path) -> None:
    """Compilations are replaced and fallbacks made while other threads run: right, or one error."""
    made = session(model, runtime=shim.path, device="host-cpu")
    (right,) = session(model, runtime=shim.path).run(None, IMAGE)
    shim.random(7, 100)
    with ThreadPoolExecutor(4) as pool:
        said = {*pool.map(outcome, [made] * 200, [right] * 200)} - {""}
    shim.clear()
    assert all("nnapi_0: ANeuralNetworks" in text and "\n" not in text.strip() for text in said)
    assert outcome(made, right) == ""
    del made
    assert shim.live() == {}


def test_a_device_that_cannot_compile_falls_back(shim: Shim, model: Path) -> None:
    shim.fault("Compilation_finish", ResultCode.OP_FAILED, nth=1)
    made = session(model, runtime=shim.path, device="host-cpu")
    (right,) = session(model, runtime=shim.path).run(None, IMAGE)
    assert np.array_equal(made.run(None, IMAGE)[0], right)
    shim.fault("Compilation_finish", ResultCode.OP_FAILED, nth=1)
    with pytest.raises(Exception, match="Compilation_finish: ANEURALNETWORKS_OP_FAILED"):
        session(model, runtime=shim.path, device="host-cpu", fallback="none")


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5, 7])
def test_a_library_of_a_lower_level(level: int, tmp_path: Path) -> None:
    """Has fewer functions: no devices below 3, no reusable executions below 5."""
    old = built(tmp_path, level)
    model = prepared(
        onnx.load(ROOT / "models" / "digits.onnx"), tmp_path / "model", feature_level=level
    )
    options = {"device": REFERENCE} if level >= 3 else {"device": "default"}
    made = session(model, runtime=old.path, **options)
    assert made.run(None, IMAGE)[0].argmax() == 0
    (right,) = session(model).run(None, IMAGE)
    close = 0 if level >= 3 else 1e-5  # below 3, NNAPI chooses a device, which sums otherwise
    np.testing.assert_allclose(made.run(None, IMAGE)[0], right, rtol=close)
    del made
    assert old.live() == {}


def test_a_model_for_a_higher_level_is_refused(tmp_path: Path) -> None:
    from models.quantized import quantized  # needs its own imports only here

    model = prepared(quantized("digits", "s8s8"), tmp_path / "model", feature_level=4)
    old = built(tmp_path, 3)
    with pytest.raises(Exception, match="the context needs feature level 4, the runtime offers 3"):
        session(model, runtime=old.path)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (branching, "Model_setOperandValueFromModel"),
        (quantized_digits, "Model_setOperandSymmPerChannelQuantParams"),
    ],
)
def test_a_context_that_needs_more_than_it_says(cluster, says, tmp_path):
    """A function that the library has not is not called."""

    def understate(graph: onnx.GraphProto) -> None:
        change_context(
            graph, lambda data: changed(data, "alternatives", 0, setting(feature_level=1))
        )

    model = forged(cluster(), change=understate).SerializeToString()
    with pytest.raises(Exception, match=f"the runtime has no function ANeuralNetworks{says}"):
        session(model, runtime=built(tmp_path, 1).path, device="default")


def outcome_of(model: Path, right: np.ndarray, shim: Shim, options: dict[str, str]) -> str:
    """The error of making a session and of two runs; empty if the results are right."""
    try:
        made = session(model, runtime=shim.path, **options)
        for _ in range(2):
            assert np.array_equal(made.run(None, IMAGE)[0], right)
    except AssertionError:
        raise
    except Exception as error:
        return str(error)
    return ""


@pytest.mark.long
@pytest.mark.parametrize("level", [1, 3, 8])
def test_every_code_of_every_function(level: int, tmp_path: Path) -> None:
    """A right answer, or one sentence that names function and code; then nothing is left."""
    shim, folder = built(tmp_path, level), tmp_path / "model"
    model = prepared(onnx.load(ROOT / "models" / "digits.onnx"), folder, feature_level=level)
    options = {"compilation_timeout": "99", "execution_timeout": "99", "fallback": "none"}
    options["device"] = REFERENCE if level >= 3 else "default"
    right = session(model, runtime=shim.path, **options).run(None, IMAGE)[0]
    coded = [f.python_name for f in FUNCTIONS if f.returns == "int" and f.level <= level]
    for name in coded:
        shim.fault(name)
    assert outcome_of(model, right, shim, options) == ""
    called = [name for name in coded if shim.calls(name)]
    assert len(called) > 14
    for name, code, nth in product(called, CODES, (0, 1, 2)):
        shim.clear()
        shim.fault(name, code, nth=nth)
        said = outcome_of(model, right, shim, options)
        if name == "Burst_create":
            assert said == ""  # a burst only saves time
        elif said or nth == 0:
            assert f"{name}: ANEURALNETWORKS_{code.name}" in said, (name, code, nth)
            assert "\n" not in said.strip()
        elif nth == 1:
            assert code in TRANSIENT, (name, code)
        shim.clear()
        assert shim.live() == {}, (name, code, nth)
    assert outcome_of(model, right, shim, options) == ""


@pytest.mark.long
def test_1000_sessions_leave_nothing(shim: Shim, model: Path) -> None:
    """No NNAPI object, no descriptor, and no more memory than after the first hundred."""
    code = f"""
import os, resource, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.native.sessions import session
import numpy as np
image = {{"image": np.zeros((1, 1, 8, 8), np.float32)}}
def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6
def rounds(n):
    for _ in range(n):
        session({str(model)!r}).run(None, image)
rounds(100)
files, before = len(os.listdir("/proc/self/fd")), rss()
rounds(900)
assert len(os.listdir("/proc/self/fd")) == files
print(rss() - before)
"""
    done = python(code, timeout=1200)
    # ONNX Runtime and the library's own interpreter keep some; a leak of a container is 3 MB
    assert float(done.stdout) < 3
