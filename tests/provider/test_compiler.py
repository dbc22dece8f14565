"""Lowering and compilation for one device: what it declines, and for which cause."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest

from ep_nnapi.capability.graph import Progress, judge_graph
from ep_nnapi.epcontext.layout import FORMAT_VERSION
from ep_nnapi.lowering.model_builder import Lowered
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import Reason, RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.listing import listing
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device
from ep_nnapi.options.table import Options
from ep_nnapi.options.table import parse as parse_options
from ep_nnapi.options.target import Target
from ep_nnapi.ort_devices.composites import RULES
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.session import PreparedSession
from ep_nnapi.provider import compiler as compilers
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.device_health import Declined
from ep_nnapi.provider.dynamic_cluster import DynamicCluster
from ep_nnapi.provider.load_epcontext import Compatibility, CompiledFor, parse, validate
from ep_nnapi.provider.planner import Planner
from tests.cases import each
from tests.faulty import FaultyDevice, compiler_of
from tests.onnx_graph import graph_of, parsed
from tests.provider.test_planner import CHAIN, SHAPE


def lowered(device: FaultyDevice):
    graph = graph_of(CHAIN)
    verdicts = judge_graph(graph, Target(8), Options(), Progress(lambda: 0.0))
    members = [verdicts.samples[0][n.id] for n in graph.nodes]
    return compiler_of(device).lower(members, graph.inputs, graph.outputs)


def test_a_cluster_is_one_model_that_runs():
    device = FaultyDevice()
    model = lowered(device)
    assert [op.spec.name for op in model.model.operations] == ["ABS", "NEG", "EXP", "TANH"]
    x = np.ones(SHAPE, np.float32)
    (y,) = compiler_of(device).compile(model).compilation.run([x])
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
    compiler_of(FaultyDevice()).check_supported(model)
    with pytest.raises(Declined, match="faulty declines NEG"):
        compiler_of(FaultyDevice(declines=frozenset({"NEG"}))).check_supported(model)


# Operators that a device computes whole

_RNG = np.random.default_rng(7)
PRODUCT = parsed(
    """(float[n, 16] x) => (float[n, 5] y) {
    q, s, z = DynamicQuantizeLinear (x) p = MatMulInteger (q, w, z, wz)
    r = Cast <to = 1> (p) y = Mul (r, s) }""",
    w=_RNG.integers(-127, 128, (16, 5)).astype(np.int8),
    wz=np.int8(3),
)
CONVOLUTION = parsed(
    """(float[n, 2, 8, w] x) => (float[n, 4, 8, w] y) {
    q, s, z = DynamicQuantizeLinear (x) p = ConvInteger <pads = [1, 1, 1, 1]> (q, taps, z)
    r = Cast <to = 1> (p) e = Mul (r, s) y = Relu (e) }""",
    taps=_RNG.integers(-127, 128, (4, 2, 3, 3)).astype(np.int8),
)
NORMS = parsed(
    """(float[n, 6, 16] x) => (float[n, 6, 16] y) {
    a = LayerNormalization (x, scale, shift) y = LayerNormalization (a, scale) }""",
    scale=_RNG.uniform(0.5, 1.5, 16).astype(np.float32),
    shift=_RNG.normal(size=16).astype(np.float32),
)
WHOLE = pytest.mark.parametrize(
    "model", [PRODUCT, CONVOLUTION, NORMS], ids=["product", "convolution", "norms"]
)


def opened(model: onnx.ModelProto) -> DynamicCluster:
    """The cluster of a model on host-cpu, as a session has it, for all sizes at once."""
    runtime = HostRuntime((ReferenceDevice(), CpuDevice(threads=1)))
    reference, fast = runtime.devices()
    compiler = Compiler(Target(8), runtime, reference, fast=(fast,))
    planner = Planner(compiler, parse_options({"fallback": "reference"}))
    (cluster,) = planner.plan(graph_of(model)).clusters
    assert isinstance(cluster, DynamicCluster)
    assert [made.placed.device.name for made in cluster.opened] == ["host-cpu"]
    return cluster


def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[Lowered]:
    """What clusters are lowered to from now on."""
    found, lower = list[Lowered](), compilers.lower
    monkeypatch.setattr(
        compilers, "lower", lambda *a, **k: found.append(lower(*a, **k)) or found[-1]
    )
    return found


def outputs_of(cluster: DynamicCluster, x: np.ndarray) -> np.ndarray:
    found: dict[int, np.ndarray] = {}
    allocate = lambda i, shape: found.setdefault(i, np.zeros(shape, np.float32))  # noqa: E731
    cluster.bind(["x"], ["y"])([x], allocate, lambda: None)
    return found[0]


def sample(model: onnx.ModelProto) -> np.ndarray:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    shape = [d.dim_value or 6 for d in dims]
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def names_of(lowered: Lowered) -> Sequence[str]:
    return [operation.spec.name for operation in lowered.model.operations]


@WHOLE
def test_members_of_operators_are_made_when_somebody_asks_for_them(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
):
    made = lowerings(monkeypatch)
    cluster = opened(model)
    outputs_of(cluster, sample(model))
    (whole,) = made
    assert names_of(whole).count("WHOLE_OPERATOR") == 2
    assert [len(c.members) for c in whole.model.composites] == [1, 1]
    compiled = cluster.record.compiled
    (found,) = cluster.models
    assert len(made) == 2
    assert found.operations == made[1].model.operations
    assert all(len(c.members) > 1 for c in found.composites)
    assert "WHOLE_OPERATOR" not in names_of(made[1])
    assert compiled is not None
    assert compiled.operations == len(cluster.opened[0].placed.lowered.members.model.operations)


@WHOLE
def test_they_are_those_of_a_device_that_computes_no_operator_whole(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
):
    found = []
    for names in (CpuDevice.whole_operators, ()):
        monkeypatch.setattr(CpuDevice, "whole_operators", names)
        cluster = opened(model)
        (each_model,) = cluster.models
        compiled = cluster.record.compiled
        assert compiled is not None
        counts = compiled.operations, compiled.weight_bytes, compiled.opened
        found.append((listing(each_model, data=True), each_model.composites, counts))
    assert found[0] == found[1]


@WHOLE
def test_a_device_that_declines_an_operator_has_its_members(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
):
    want = outputs_of(opened(model), sample(model))
    for name in ("MatMulInteger", "ConvInteger", "LayerNormalization"):
        monkeypatch.setitem(RULES, name, replace(RULES[name], accepts=lambda _: False))
    made = lowerings(monkeypatch)
    cluster = opened(model)
    assert ["WHOLE_OPERATOR" in names_of(each_one) for each_one in made] == [True, False]
    placed = names_of(cluster.opened[0].placed.lowered)
    assert [name for name in placed if name != "TRANSPOSE"] == names_of(made[1])
    got = outputs_of(cluster, sample(model))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)  # means in another order


@WHOLE
def test_the_reference_device_computes_the_members_where_the_device_fails(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
):
    want = outputs_of(opened(model), sample(model))
    cluster = opened(model)

    def fail(*_: object) -> None:
        raise RuntimeFailure("ANeuralNetworksExecution_compute", "OP_FAILED", "the device is gone")

    monkeypatch.setattr(PreparedSession, "execute", fail)
    got = outputs_of(cluster, sample(model))
    np.testing.assert_allclose(got, want, atol=0.05 * np.abs(want).max())  # a tie is a step
    assert [by.to for by in cluster.record.substitutes] == [REFERENCE_DEVICE]


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
