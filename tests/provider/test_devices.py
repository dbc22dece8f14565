"""Selection of a session's device by name and flags."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.session_runs import open_session
from ep_nnapi.nnapi import validate
from ep_nnapi.nnapi.codes import DeviceCode, ResultCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.library import binding, runtime
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, CompileOptions, Spin
from ep_nnapi.options.table import options_of_session, parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.ort_devices import to_onnx
from ep_nnapi.provider.devices import (
    NoRuntime,
    choose_device,
    device_order,
    devices,
    fallback_device,
    open_runtime,
    session_runtime,
)
from ep_nnapi.provider.planner import Planner
from ep_nnapi.provider.provider import Provider
from ep_nnapi.report.report import PREVIEW
from ep_nnapi.sessions.cpu import session_of
from tests.end_to_end.sessions import nnapi_session
from tests.faulty import FAULTY, FaultyDevice, compiler_of
from tests.native import sessions
from tests.native.build import needs_compiler
from tests.nnapi.library.recorded import built
from tests.nnapi.profile.examples import SampleDevice, everything
from tests.onnx_graph import graph_of, parsed
from tests.provider.test_planner import CHAIN
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
def test_the_cpu_of_a_driver_comes_before_nnapis_own(name, flags, chosen):
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


@pytest.mark.usefixtures("no_system")
def test_a_file_with_alternatives_runs(tmp_path: Path):
    path = sessions.prepared(SMALL, tmp_path, alternatives="nnapi:3,cpu")
    for options in ({}, {"device": "gpu"}):
        made = nnapi_session(path, severity=4, runtime="system", **options)
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
        nnapi_session(path if prepared else tmp_path / "model.onnx", severity=4, runtime="system")


def test_a_path_of_no_library_is_an_invalid_option(tmp_path: Path):
    with pytest.raises(OptionError, match="it must be host, system"):
        nnapi_session(tmp_path / "model.onnx", runtime=str(tmp_path / "none.so"))


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


SHAPE = (1, 3, 8, 8)


def image_model() -> onnx.ModelProto:
    """A convolution, whose image host-cpu takes in NCHW."""
    weights = np.random.default_rng(5).standard_normal((4, 3, 3, 3)).astype(np.float32)
    text = """(float[1,3,8,8] x) => (float[1,4,8,8] y) {
        [Conv_0] c = Conv <pads = [1, 1, 1, 1]> (x, w) [Relu_1] y = Relu (c) }"""
    return parsed(text, w=weights)


def division_model() -> onnx.ModelProto:
    """A division of integers, which host-cpu declines: a divisor of 0 would end the process."""
    return parsed("(int32[3] x) => (int32[3] y) { [Add_0] t = Add (x, x) [Div_1] y = Div (t, x) }")


def devices_of(found: onnx.ModelProto, *, fast: bool = True, **options: object) -> list[str]:
    """The devices of the clusters."""
    provider = Provider(parse(options), fast=fast)
    provider.plan(graph_of(found))
    return [cluster.device for cluster in provider.report.clusters]


@pytest.mark.fast_devices
@pytest.mark.parametrize(
    ("options", "device"),
    [
        ({}, "host-cpu"),
        ({"device": "nnapi-reference"}, "nnapi-reference"),
        ({"device": "host-cpu"}, "host-cpu"),
        ({"flags": "CPU_ONLY"}, "nnapi-reference"),  # NNAPI's own CPU implementation
        ({"flags": "USE_FP16"}, "nnapi-reference"),  # it emulates float16
        ({"flags": "USE_FP16", "relaxed": "precise"}, "host-cpu"),
        ({"flags": "USE_FP16", "feature_level": 1}, "host-cpu"),  # where no model is relaxed
    ],
)
def test_the_first_device_that_takes_a_cluster_runs_it(options, device):
    assert devices_of(image_model(), **options) == [device]


@pytest.mark.fast_devices
def test_a_cluster_that_the_first_declines_goes_whole_to_the_next():
    assert devices_of(division_model()) == ["nnapi-reference"]


def rms_norm_model() -> onnx.ModelProto:
    """RMS normalization of dequantized numbers, by a reciprocal, as dynamic quantization has it."""
    constants = {name: np.float32(v) for name, v in (("two", 2), ("eps", 1e-5), ("scale", 0.05))}
    text = """(float[1,4,16] x) => (float[1,4,16] y) { q = QuantizeLinear (x, scale, zero)
        d = DequantizeLinear (q, scale, zero) p = Pow (d, two) m = ReduceMean <axes = [-1]> (p)
        a = Add (m, eps) r = Sqrt (a) c = Reciprocal (r) y = Mul (d, c) }"""
    return parsed(text, zero=np.uint8(128), **constants)


@pytest.mark.fast_devices
def test_an_rms_normalization_of_dequantized_numbers_runs_on_host_cpu():
    """DivMulFusion of ONNX Runtime 1.32 makes an invalid model where it meets an Identity."""
    content = rms_norm_model().SerializeToString()
    provider = Provider(parse({}))
    session = open_session(content, onnxruntime.SessionOptions(), provider)
    assert [cluster.device for cluster in provider.report.clusters] == ["host-cpu"]
    x = {"x": np.random.default_rng(3).standard_normal((1, 4, 16)).astype(np.float32)}
    (ours,), (theirs,) = (s.run(None, x) for s in (session, session_of(content)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)  # float32 sums in another order


@pytest.mark.fast_devices
def test_a_device_that_is_named_leaves_what_it_declines_to_the_cpu_provider():
    assert devices_of(division_model(), device="host-cpu") == ["host-cpu"]


@host_only  # the library converts a model when it is asked and again when it compiles
@pytest.mark.fast_devices
@pytest.mark.parametrize("options", [{}, {"device": "host-cpu"}], ids=str)
def test_a_cluster_is_validated_and_converted_once(options, monkeypatch: pytest.MonkeyPatch):
    """Devices are asked what they support of the variant that is compiled then, and no other."""
    seen: dict[str, list[Model]] = {"_lower_model": [], "_check": []}

    def count(place: object, name: str, position: int) -> None:
        original = getattr(place, name)

        def counted(*arguments: Any) -> object:
            seen[name].append(arguments[position])
            return original(*arguments)

        monkeypatch.setattr(place, name, counted)

    count(to_onnx, "_lower_model", 0)
    count(validate._Validator, "_check", 1)
    devices_of(image_model(), **options)
    assert [len(models) for models in seen.values()] == [1, 1]


@pytest.mark.fast_devices
@pytest.mark.parametrize(
    ("options", "device"),
    [
        ({}, "host-cpu"),
        ({"device": "nnapi-reference"}, "nnapi-reference"),
        ({"flags": "USE_FP16"}, "nnapi-reference"),
    ],
    ids=str,
)
def test_check_run_and_compare_use_the_devices_of_a_session(options: dict[str, object], device):
    given = image_model().SerializeToString()
    compared = ep_nnapi.compare(given, **options)
    reports = [ep_nnapi.check(given, **options), ep_nnapi.run(given, **options).report]
    for report in (*reports, compared.report):
        assert [c.device for c in report.clusters] == [device]
        assert report.summary.endswith(PREVIEW) == ("flags" in options)
    assert [c.report.device for c in compared.clusters.values()] == [device]


@pytest.mark.fast_devices
def test_a_session_gives_the_cpu_providers_numbers():
    """Both run the same kernels on the same layout: not one bit differs."""
    content = image_model().SerializeToString()
    x = {"x": np.random.default_rng(6).standard_normal(SHAPE).astype(np.float32)}
    (ours,) = nnapi_session(content, attributes={"intra_op_num_threads": 1}).run(None, x)
    (theirs,) = session_of(content).run(None, x)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.fast_devices
def test_images_are_not_transposed_for_host_cpu():
    """The permutations of the border are in the model, where its convolutions cancel them."""
    provider = Provider(parse({"device": "host-cpu"}))
    (cluster,) = provider.plan(graph_of(image_model()))
    border = cluster.lowered.border
    assert all(c.plain for c in (*border.inputs, *border.outputs))


@pytest.mark.parametrize(
    ("key", "options", "spins"),
    [
        ("", {}, [Spin.ALWAYS]),
        ("", {"spinning": "runs"}, [Spin.IN_RUNS]),
        ("", {"exclude": "Abs_a"}, [Spin.IN_RUNS]),
        ("", {"exclude": "Neg_b"}, [Spin.IN_RUNS] * 2),
        ("if.then_branch", {}, [Spin.IN_RUNS]),
    ],
    ids=["the whole model", "not asked for", "beside the CPU provider", "two clusters", "a branch"],
)
def test_threads_spin_between_runs_of_one_cluster_that_is_the_whole_model(key, options, spins):
    asked: list[Spin] = []

    class Device(ReferenceDevice):
        def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
            asked.append(options.spin)
            return super().prepare(model, options)

    compiler = compiler_of(Device())
    Planner(compiler, parse(options)).plan(replace(graph_of(CHAIN), key=key))
    assert asked == spins
