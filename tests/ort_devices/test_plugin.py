"""Providers of ONNX Runtime as devices: names, types, answers and errors.

ONNX Runtime lists its own CPU provider as it lists those of plugin libraries, so it stands in for
one here; `test_gpu.py` has another provider.
"""

import sys
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.run_and_compare import RunResult
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import CompileOptions, Spin
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.ort_devices import plugin
from ep_nnapi.ort_devices.plugin import (
    EXTRAS,
    PluginDevice,
    is_plugin,
    plugin_device,
)
from ep_nnapi.sessions import cpu
from tests.cli.command import DIGITS
from tests.nnapi.build import relu
from tests.ort_devices.networks import Network, chain, computed

CPU = "ort:CPUExecutionProvider"


def tanh_of_elu() -> Model:
    net, tensor = Network(), Operand(F32, (2, 3))
    y = net.operation(spec.ELU, [net.add(tensor), 1.0], tensor)
    return net.model(net.operation(spec.TANH, [y], tensor))


def available(name: str) -> PluginDevice | None:
    try:
        return plugin_device(name)
    except OptionError:
        return None


def assert_computes(name: str, kind: DeviceCode, rtol: float = 0.0) -> None:
    """The device of that name and type computes as nnapi-reference."""
    device, model = plugin_device(name), chain()
    assert (device.name, device.type) == (name, kind)
    assert all(device.supported(model))
    (got,), (wanted,) = (computed(model, d) for d in (device, ReferenceDevice()))
    np.testing.assert_allclose(got, wanted, rtol, 1e-5)  # sums of 36 products in another order


def session_on(name: str) -> RunResult:
    """A run of all of a network on the device, which is right."""
    result = ep_nnapi.run(DIGITS, device=name)
    assert {c.device for c in result.report.clusters} == {name}
    assert result.report.taken == 8
    assert not result.verdict.negative
    return result


def test_it_computes_as_nnapi_reference() -> None:
    assert_computes(CPU, DeviceCode.CPU)
    assert plugin_device(CPU).version == onnxruntime.__version__


def test_sessions_run_on_it() -> None:
    assert session_on(CPU).worst <= 1e-6  # sums of float32 products in another order


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ort:Other", "no provider Other is registered with ONNX Runtime, which has CPUExec"),
        ("ort:CPUExecutionProvide", "did you mean CPUExecutionProvider"),
        ("ort:", "no provider  is registered"),
        ("ort:NnapiPluginExecutionProvider", "is this provider itself; name another one"),
    ],
)
def test_other_names_are_refused_in_a_sentence(name: str, says: str) -> None:
    ep_nnapi.register()
    with pytest.raises(OptionError, match=says) as refused:
        ep_nnapi.check(DIGITS, device=name)
    assert "\n" not in str(refused.value)


def test_its_own_name_is_the_one_that_is_registered() -> None:
    assert ep_nnapi.get_ep_name() == plugin.OWN_PROVIDER


def refusing(monkeypatch: pytest.MonkeyPatch, op_type: str) -> list[str]:
    """Makes the provider refuse models with that operator; returns a list of all it is asked."""
    asked: list[str] = []
    opened = cpu.session_of

    def session(proto: bytes, *rest: object) -> onnxruntime.InferenceSession:
        asked.append(op_type)
        if op_type.encode() in proto:
            raise RuntimeError(f"{op_type} is not taken\nand more")
        return opened(proto, *rest)

    monkeypatch.setattr(cpu, "session_of", session)
    return asked


@pytest.mark.parametrize("spin", Spin)
def test_a_model_is_opened_once_to_be_asked_about_and_compiled(spin: Spin, monkeypatch):
    asked = refusing(monkeypatch, "nothing")
    device, model = plugin_device(CPU), tanh_of_elu()
    assert all(device.supported(model))
    device.prepare(model, CompileOptions(spin=spin))
    assert len(asked) == 1


def test_a_provider_that_takes_a_part_answers_by_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = refusing(monkeypatch, "Elu")
    device, model = plugin_device(CPU), tanh_of_elu()
    assert device.supported(model) == (False, True)
    assert len(asked) == 3  # the model, then each operation
    assert device.supported(model) == (False, True)
    assert len(asked) == 4  # the model: operations are known
    with pytest.raises(RuntimeFailure, match="does not take it all: Elu is not taken") as refused:
        HostRuntime((device,)).compile(model, HostRuntime((device,)).devices()[0])
    assert "and more" not in str(refused.value)


def test_what_has_no_onnx_form_is_declined_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = refusing(monkeypatch, "nothing")
    assert plugin_device(CPU).supported(relu(Operand(F32, (0, 3)))) == (False,)
    assert not asked


def test_a_session_that_fell_to_the_cpu_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a plugin that finds no hardware."""
    device = plugin_device(CPU)
    found = SimpleNamespace(get_providers=lambda: ["Another"])
    monkeypatch.setattr(cpu, "session_of", lambda *rest: found)
    assert device.supported(tanh_of_elu()) == (False, False)


@pytest.mark.parametrize("name", EXTRAS)
def test_extras_that_are_missing_name_the_install_command(name: str, monkeypatch):
    monkeypatch.setitem(sys.modules, EXTRAS[name].package, None)  # as if it were not installed
    with pytest.raises(OptionError, match=rf"pip install 'ep-nnapi\[{EXTRAS[name].extra}\]'"):
        ep_nnapi.check(DIGITS, device=name)


@pytest.mark.parametrize("name", EXTRAS)
def test_extras_without_hardware_say_what_they_need(name: str, monkeypatch: pytest.MonkeyPatch):
    package = SimpleNamespace(get_ep_name=lambda: "OtherProvider", get_library_path=lambda: "x.so")
    monkeypatch.setitem(sys.modules, EXTRAS[name].package, package)
    with pytest.raises(OptionError, match=f"{name} is not there: OtherProvider needs a"):
        ep_nnapi.check(DIGITS, device=name)


def test_types_and_virtual_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def device(kind: str, **metadata: str) -> SimpleNamespace:
        hardware = SimpleNamespace(type=SimpleNamespace(name=kind), metadata=metadata)
        about = {"version": "3"}
        return SimpleNamespace(ep_name="Other", device=hardware, ep_metadata=about)

    listed = [device("CPU", is_virtual="1"), device("NPU")]
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: listed)
    found = plugin_device("ort:Other")
    assert isinstance(found, PluginDevice)
    assert (found.type, found.version) == (DeviceCode.ACCELERATOR, "3")
    listed.pop()
    with pytest.raises(OptionError, match="no provider Other is registered"):
        plugin_device("ort:Other")


def test_names() -> None:
    assert all(map(is_plugin, ("ort:x", "host-gpu", "host-openvino")))
    assert not any(map(is_plugin, (None, "host-cpu", "nnapi-reference", "gpu")))
