"""The device host-cpu: what it takes, how runs behave."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from ep_nnapi.nnapi import runtime as interface
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.host.registry import host_runtime, is_named_only, least_work, sources
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions
from ep_nnapi.nnapi.spec import F16, F32, Q8
from ep_nnapi.ort_devices.device import LARGE, ORT_DEVICES, CpuDevice
from tests.nnapi.build import relu
from tests.ort_devices.networks import Network, chain, compiled, computed, feed

CPU = CpuDevice()


def test_the_host_runtime_has_the_device():
    (found,) = (d for d in host_runtime().devices() if d.name == "host-cpu")
    assert (found.type, found.feature_level) == (DeviceCode.CPU, 8)


def test_given_arrays_are_filled():
    model = chain()
    wanted = computed(model, ReferenceDevice())
    out = np.empty_like(wanted[0])
    (result,) = compiled(model, CPU).run(feed(model), [out])
    assert result is out
    np.testing.assert_allclose(out, wanted[0], 0, 1e-5)  # sums of 36 products in another order


def test_arrays_of_another_shape_are_refused():
    model = chain()
    with pytest.raises(RuntimeFailure, match=r"the output has \(1, 8, 6, 4\)"):
        compiled(model, CPU).run(feed(model), [np.empty((1, 8, 6, 5), np.float32)])


def test_an_input_left_out_is_refused():
    with pytest.raises(RuntimeFailure, match="input 0 is missing"):
        compiled(chain(), CPU).run([None])


def test_models_with_other_operations_are_refused():
    with pytest.raises(RuntimeFailure, match="host-cpu: the shape of operand 0 is unknown"):
        compiled(relu(Operand(F32, (0, 3))), CPU)


def test_one_compilation_runs_in_several_threads():
    model = chain(Q8)
    made = compiled(model, CPU)
    (wanted,) = made.run(feed(model))
    with ThreadPoolExecutor(4) as pool:
        for (result,) in pool.map(lambda _: made.run(feed(model)), range(32)):
            np.testing.assert_array_equal(result, wanted)


def test_relaxed_models_are_computed_in_float32():
    model = chain()
    exact, relaxed = (computed(m, CPU) for m in (model, replace(model, relaxed=True)))
    np.testing.assert_array_equal(relaxed[0], exact[0])


def test_float16_is_computed_in_float32_and_rounded_at_the_end():
    """2048 + 1 + 1: each sum alone would be rounded back to 2048."""
    net = Network()
    x = net.add(Operand(F16, (1,)))
    once = net.tensor(np.array([1]), F16)
    a = net.operation(spec.ADD, [x, once, 0], Operand(F16, (1,)))
    b = net.operation(spec.ADD, [a, once, 0], Operand(F16, (1,)))
    (result,) = computed(net.model(b), CPU, [np.array([2048], np.float16)])
    assert result.tolist() == [2050]


def slow() -> Model:
    """A chain that takes a second or so."""
    net = Network()
    y = net.add(Operand(F32, (1 << 20,)))
    for _ in range(300):
        y = net.operation(spec.SIN, [y], Operand(F32, (1 << 20,)))
    return net.model(y)


ONES = np.ones(1 << 20, np.float32)


def test_runs_end_at_their_deadline():
    with pytest.raises(RuntimeFailure, match="the run's deadline is over"):
        compiled(slow(), CPU).run([ONES], (), RunOptions(timeout_ns=50_000_000))


def test_runs_end_when_they_are_stopped():
    class Stopped(Exception):
        pass

    calls = []

    def stop() -> None:
        calls.append(None)
        if len(calls) > 2:
            raise Stopped

    with pytest.raises(RuntimeFailure, match="Stopped"):
        compiled(slow(), CPU).run([ONES], (), RunOptions(stop=stop))


def test_a_cache_costs_no_digest_of_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No device has a cache: finding a model by its weights takes as long as preparing it."""
    asked: list[Model] = []
    monkeypatch.setattr(interface, "model_digest", lambda model: asked.append(model) or bytes(32))
    options, runtime = CompileOptions(cache_dir=str(tmp_path)), host_runtime()
    for device in runtime.devices():
        runtime.compile(chain(), device, options)
    assert not asked


def test_the_installed_package_registers_its_devices():
    assert ORT_DEVICES in sources()


@pytest.mark.parametrize(
    ("name", "named_only", "work"),
    [
        ("host-cpu", False, LARGE),
        ("host-gpu", True, 0),
        ("ort:SomeProvider", True, 0),
        ("nnapi-reference", False, inf),
        ("another", False, inf),
    ],
)
def test_devices_by_name(name: str, named_only: bool, work: float):
    assert (is_named_only(name), least_work(name)) == (named_only, work)
