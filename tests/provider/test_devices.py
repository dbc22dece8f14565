"""Selection of a session's device by name and flags."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.nnapi.codes import DeviceCode, ResultCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.library import binding, runtime
from ep_nnapi.nnapi.profile.examples import SampleDevice, everything
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.options.table import options_of_session, parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.provider.devices import (
    NoRuntime,
    choose_device,
    device_order,
    devices,
    fallback_device,
    open_runtime,
    session_runtime,
)
from tests.faulty import FAULTY, FaultyDevice
from tests.native import sessions
from tests.nnapi.library.recorded import built, needs_compiler
from tests.onnx_graph import parsed
from tests.runtimes import host_only

BOTH = HostRuntime([ReferenceDevice(), FaultyDevice()])


@host_only
def test_the_host_runtime_is_opened_once():
    assert open_runtime("host") is open_runtime("host")
    assert REFERENCE_DEVICE in {d.name for d in devices()}


@pytest.mark.parametrize(
    ("name", "flags", "chosen"),
    [
        (None, NnapiFlag.NONE, FAULTY),  # an accelerator before a CPU, whatever the order
        (REFERENCE_DEVICE, NnapiFlag.NONE, REFERENCE_DEVICE),
        (None, NnapiFlag.CPU_ONLY, REFERENCE_DEVICE),
        (None, NnapiFlag.CPU_DISABLED, FAULTY),
        (FAULTY, NnapiFlag.CPU_DISABLED, FAULTY),
    ],
)
def test_choice(name: str | None, flags: NnapiFlag, chosen: str):
    assert choose_device(BOTH, name, flags).name == chosen


DRIVERS = HostRuntime(
    [
        ReferenceDevice(),
        SampleDevice("first", everything, DeviceCode.CPU),
        SampleDevice("second", everything, DeviceCode.CPU),
    ]
)


@pytest.mark.parametrize(
    ("name", "flags", "chosen"),
    [
        (None, NnapiFlag.NONE, "first"),
        ("cpu", NnapiFlag.NONE, "first"),
        (None, NnapiFlag.CPU_ONLY, REFERENCE_DEVICE),
    ],
)
def test_the_cpu_of_a_driver_comes_before_nnapis_own(
    name: str | None, flags: NnapiFlag, chosen: str
):
    """Android's sample drivers are of type CPU, as those of engines for phone CPUs."""
    assert choose_device(DRIVERS, name, flags).name == chosen


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("vpu", NnapiFlag.NONE, "device 'vpu' is unknown; there are nnapi-reference, faulty"),
        ("fault", NnapiFlag.NONE, "did you mean faulty"),
        (FAULTY, NnapiFlag.CPU_ONLY, "CPU_ONLY leaves no device"),
        (REFERENCE_DEVICE, NnapiFlag.CPU_DISABLED, "CPU_DISABLED leaves no device"),
    ],
)
def test_no_device_is_left(name: str, flags: NnapiFlag, message: str):
    with pytest.raises(OptionError, match=message):
        choose_device(BOTH, name, flags)


def test_the_fallback_is_the_reference_device():
    _, device = fallback_device()
    assert (device.name, device.type) == (REFERENCE_DEVICE, DeviceCode.CPU)


@host_only
@pytest.mark.fast_devices
@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, ("host-cpu", REFERENCE_DEVICE)),
        ({"device": "host-cpu"}, ("host-cpu",)),
        ({"device": REFERENCE_DEVICE}, (REFERENCE_DEVICE,)),
        ({"flags": "CPU_ONLY"}, (REFERENCE_DEVICE,)),
    ],
)
def test_the_order_in_which_sessions_use_devices(options: dict[str, str], order: tuple[str, ...]):
    assert device_order(parse(options)) == order


SMALL = parsed("(float[2,3] x) => (float[2,3] y) { y = Exp(x) }")
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def no_system(monkeypatch: pytest.MonkeyPatch) -> None:
    binding.load.cache_clear()
    monkeypatch.setattr(binding, "SYSTEM_PATHS", ())


def session(model: Path, **options: object) -> onnxruntime.InferenceSession:
    config = onnxruntime.SessionOptions()
    config.log_severity_level = 4
    ep_nnapi.append_execution_provider(config, **options)
    return onnxruntime.InferenceSession(str(model), config)


@pytest.mark.usefixtures("no_system")
def test_a_file_with_alternatives_runs(tmp_path: Path):
    path = sessions.prepared(SMALL, tmp_path, alternatives="nnapi:3,cpu")
    for options in ({}, {"device": "gpu"}):
        made = session(path, runtime="system", **options)
        np.testing.assert_allclose(made.run(None, {"x": X})[0], np.exp(X), rtol=1e-6)
        receipt = ep_nnapi.receipts()[-1]
        (cluster,) = receipt["clusters"]
        assert cluster["alternative"] == "cpu"
        assert "there is no libneuralnetworks.so" in cluster["tried"][0]["reason"]
        assert cluster["tried"][0]["alternative"] == "nnapi:3 on nnapi"
        del made


@pytest.mark.usefixtures("no_system")
@pytest.mark.parametrize("prepared", [False, True])
def test_all_else_is_refused(prepared: bool, tmp_path: Path):
    path = sessions.prepared(SMALL, tmp_path, feature_level=3)
    with pytest.raises(Exception, match=r"there is no libneuralnetworks\.so"):
        session(path if prepared else tmp_path / "model.onnx", runtime="system")


def test_a_path_of_no_library_is_an_invalid_option(tmp_path: Path):
    with pytest.raises(OptionError, match="it must be host, system"):
        session(tmp_path / "model.onnx", runtime=str(tmp_path / "none.so"))


@needs_compiler
@pytest.mark.parametrize("hangs", [False, True])
def test_a_library_that_does_not_list_its_devices_is_none(hangs: bool, tmp_path: Path):
    shim = built(tmp_path)
    runtime._devices.cache_clear()
    shim.fault("getDeviceCount", 0 if hangs else ResultCode.DEAD_OBJECT, milliseconds=500 * hangs)
    given = {"trial_timeout": 0.1} if hangs else {}
    options = options_of_session({"runtime": shim.path, "cache_dir": tmp_path, **given})
    found = session_runtime(options)
    shim.clear()
    assert isinstance(found, NoRuntime)
    assert ("did not list its devices within 0.1 s" if hangs else "DEAD_OBJECT") in found.why
    later = session_runtime(options)
    assert isinstance(later, NoRuntime) is hangs
    if hangs:
        assert "an earlier start ended in it" in later.why
