"""Lowering and compilation for one device: what it declines, and for which cause."""

import numpy as np
import pytest

from ep_nnapi.capability.graph import Progress, judge_graph
from ep_nnapi.epcontext.layout import FORMAT_VERSION
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device
from ep_nnapi.options.table import Options
from ep_nnapi.options.target import Target
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.load_epcontext import Compatibility, CompiledFor, parse, validate
from tests.cases import each
from tests.faulty import FaultyDevice
from tests.onnx_graph import graph_of
from tests.provider.test_planner import CHAIN, SHAPE


def compiler(device: FaultyDevice) -> Compiler:
    runtime = HostRuntime([device])
    return Compiler(Target(8), runtime, runtime.devices()[0])


def lowered(device: FaultyDevice):
    graph = graph_of(CHAIN)
    verdicts = judge_graph(graph, Target(8), Options(), Progress(lambda: 0.0))
    members = [verdicts.samples[0][n.id] for n in graph.nodes]
    return compiler(device).lower(members, graph.inputs, graph.outputs)


def test_a_cluster_is_one_model_that_runs():
    device = FaultyDevice()
    model = lowered(device)
    assert [op.spec.name for op in model.model.operations] == ["ABS", "NEG", "EXP", "TANH"]
    x = np.ones(SHAPE, np.float32)
    (y,) = compiler(device).compile(model).compilation.run([x])
    np.testing.assert_allclose(y, np.tanh(np.exp(-np.abs(x))), rtol=1e-6)  # two functions


def test_declined_operations_name_their_nodes():
    with pytest.raises(Declined) as caught:
        lowered(FaultyDevice(declines=frozenset({"EXP", "TANH"})))
    assert caught.value.names == {"Exp_c", "Tanh_y"}
    assert caught.value.reason is Reason.DRIVER
    assert caught.value.detail == "faulty declines EXP, TANH"
    assert not caught.value.too_large


def test_a_prepared_model_is_checked_again():
    model = lowered(FaultyDevice())
    compiler(FaultyDevice()).check_supported(model)
    with pytest.raises(Declined, match="faulty declines NEG"):
        compiler(FaultyDevice(declines=frozenset({"NEG"}))).check_supported(model)


# Compatibility of compiled models: all pairs of prepared and available level, formats, devices

LEVELS = range(1, 9)


def device(level: int, name: str = "npu") -> Device:
    return Device(name, DeviceCode.ACCELERATOR, "1", level)


OPTIMAL = Compatibility.OPTIMAL


@each("available", LEVELS)
@each("prepared", LEVELS)
def test_all_pairs_of_levels(prepared: int, available: int):
    """Of a model that needs the level it was prepared for."""
    compiled = CompiledFor(FORMAT_VERSION, prepared, prepared, "npu")
    expected = {
        prepared == available: Compatibility.OPTIMAL,
        prepared < available: Compatibility.PREFER_RECOMPILATION,
        prepared > available: Compatibility.UNSUPPORTED,
    }[True]
    assert compiled.on(device(available)) is expected


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [
        # prepared for more than the device has, and needs no more than it has
        (CompiledFor(FORMAT_VERSION, 8, 4, "npu"), Compatibility.PREFER_RECOMPILATION),
        (CompiledFor(FORMAT_VERSION, 8, 5, "npu"), Compatibility.UNSUPPORTED),
        (CompiledFor(FORMAT_VERSION - 1, 4, 4, "npu"), Compatibility.UNSUPPORTED),
        (CompiledFor(FORMAT_VERSION + 1, 4, 4, "npu"), Compatibility.UNSUPPORTED),
        (CompiledFor(FORMAT_VERSION, 4, 4, "gpu"), Compatibility.PREFER_RECOMPILATION),
        # with alternatives: one of NNAPI's, none of them, none that runs at all
        (CompiledFor(FORMAT_VERSION, 8, 0, "gpu", ("nnapi:8", "nnapi:4", "cpu")), OPTIMAL),
        (
            CompiledFor(FORMAT_VERSION, 8, 0, "npu", ("nnapi:8", "cpu")),
            Compatibility.PREFER_RECOMPILATION,
        ),
        (
            CompiledFor(FORMAT_VERSION, 8, 5, "npu", ("nnapi:8", "nnapi:5")),
            Compatibility.UNSUPPORTED,
        ),
    ],
)
def test_other_needs_formats_and_devices(compiled: CompiledFor, expected: Compatibility):
    assert compiled.on(device(4)) is expected


def test_the_string_is_read_back():
    for names in ((), ("nnapi:5", "nnapi:3", "litert", "cpu")):
        compiled = CompiledFor(2, 5, 3, "vendor npu = 1", names)
        assert parse(str(compiled)) == compiled


@pytest.mark.parametrize("info", ["", "format=2", "ep-nnapi format=x level=1 needed=1 device=a"])
def test_a_foreign_string_is_not_applicable(info: str):
    assert parse(info) is None
    assert validate(info) is Compatibility.NOT_APPLICABLE


def test_the_default_device_is_asked():
    assert validate(str(CompiledFor(FORMAT_VERSION, 8, 8, REFERENCE_DEVICE))) is (
        Compatibility.OPTIMAL
    )
