"""Compilations that hold for many sizes: one computes them all, others are made outside it."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import parser

import ep_nnapi
from ep_nnapi.lowering.border import Place
from ep_nnapi.nnapi.codes import ResultCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.registry import host_runtime
from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.library.runtime import LibraryRuntime
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.open_dimensions import LEVEL
from ep_nnapi.nnapi.profile.device import ProfiledRuntime
from ep_nnapi.nnapi.profile.record import record_all
from ep_nnapi.nnapi.profile.seeds import seeds
from ep_nnapi.nnapi.runtime import CompileOptions, Spin
from ep_nnapi.nnapi.sizes import Size
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import Target
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.provider import open_compilation
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.dynamic_cluster import DynamicCluster, DynamicRunner
from ep_nnapi.provider.planner import Planner
from ep_nnapi.sessions import device_session
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from tests.end_to_end.sessions import nnapi_session
from tests.faulty import FaultyDevice, compiler_of
from tests.nnapi.library.recorded import Recorded
from tests.onnx_graph import graph_of
from tests.programs import python
from tests.provider.test_dynamic_cluster import SUM, on_host_cpu, run
from tests.provider.test_planner import plan
from tests.runtimes import host_only

pytestmark = [host_only, pytest.mark.fast_devices]

HEADS = """
agraph (float[batch, length, 8] x, float[batch, past, 8] cache, int64[batch, length] ids)
    => (float[batch, length, 8] y, float[batch, total, 8] grown)
    <float[8, 8] w = {WEIGHTS}, int64[1] minus = {-1}, float[9, 8] table = {TABLE},
     int64[1] two = {2}, int64[1] one = {1}, int64[1] zero = {0}> {
    rows = Gather (table, ids)
    sum = Add (x, rows)
    grown = Concat <axis = 1> (cache, sum)
    keys = Transpose <perm = [0, 2, 1]> (grown)
    scores = MatMul (sum, keys)
    weights = Softmax <axis = -1> (scores)
    mixed = MatMul (weights, grown)
    shape = Shape (mixed)
    front = Slice (shape, zero, one)
    length = Slice (shape, one, two)
    target = Concat <axis = 0> (front, length, two, minus)
    halves = Reshape (mixed, target)
    turned = Transpose <perm = [0, 2, 1, 3]> (halves)
    back = Transpose <perm = [0, 2, 1, 3]> (turned)
    flat = Reshape (back, shape)
    y = MatMul (flat, w)
}
"""


def decoder() -> onnx.ModelProto:
    """Attention of one head over a cache that grows."""
    rng = np.random.default_rng(0)
    text = '<ir_version: 8, opset_import: ["" : 17]>' + HEADS
    for name, count in (("WEIGHTS", 64), ("TABLE", 72)):
        numbers = ", ".join(f"{n:.4f}" for n in rng.normal(size=count))
        text = text.replace(f"{{{name}}}", f"{{{numbers}}}")
    return parser.parse_model(text)


def feeds(batch: int, length: int, past: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch + length + past)
    return {
        "x": rng.normal(size=(batch, length, 8)).astype(np.float32),
        "cache": rng.normal(size=(batch, past, 8)).astype(np.float32),
        "ids": rng.integers(0, 9, (batch, length)),
    }


def session(model: onnx.ModelProto, **options: object) -> ort.InferenceSession:
    return nnapi_session(model, severity=4, attributes={"intra_op_num_threads": 1}, **options)


def same(
    ours: ort.InferenceSession, cpu: ort.InferenceSession, given: Mapping[str, object]
) -> None:
    pairs = zip(ours.run(None, given), cpu.run(None, given), strict=True)
    for got, want in pairs:
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)  # sums in another order


def receipt(cluster: int = 0) -> dict[str, object]:
    gc.collect()
    return ep_nnapi.receipts()[-1]["clusters"][cluster]


STEPS = [(2, 5, 3), (1, 1, 1), (1, 1, 2), (1, 1, 30), (1, 7, 30), (3, 1, 4), (2, 64, 64)]


def test_one_compilation_computes_a_decoder_with_a_growing_cache() -> None:
    model = decoder()
    ours, cpu = session(model), session_of(model.SerializeToString())
    for batch, length, past in STEPS:
        for _ in range(2):  # the second one without Python
            same(ours, cpu, feeds(batch, length, past))
    found = receipt()
    assert (found["device"], found["device_runs"], found["fallbacks"]) == ("host-cpu", 14, [])
    assert found["compiled"]["operations"] == len_of_one(model)


TABLES = """
agraph (int64[batch, length] ids) => (float[batch, length, 8] y)
    <int64[1, 9] kinds = {KINDS}, float[9, 8] table = {TABLE}, int64 one = {1},
     int64[1] zero = {0}, int64[1] first = {1}, int64[1] last = {9}> {
    other = Equal (ids, one)
    count = Not (other)
    counted = Cast <to = 7> (count)
    positions = CumSum (counted, one)
    shape = Shape (ids)
    batch = Slice (shape, zero, first)
    to = Concat <axis = 0> (batch, last)
    all = Expand (kinds, to)
    kind = GatherElements <axis = 1> (all, positions)
    kinds_rows = Gather (table, kind)
    rows = Gather (table, positions)
    y = Add (rows, kinds_rows)
}"""


def test_sizes_beyond_a_table_of_the_models_are_no_failure_of_the_device() -> None:
    """The sizes that a session supposes count positions that the table has not."""
    numbers = np.linspace(-1, 1, 72, dtype=np.float32)
    text = TABLES.replace("{TABLE}", f"{{{', '.join(map(str, numbers))}}}")
    text = text.replace("{KINDS}", "{0, 1, 0, 1, 0, 1, 0, 1, 0}")
    model = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>' + text)
    ours, cpu = session(model), session_of(model.SerializeToString())
    for length in (8, 3, 5, 7):
        same(ours, cpu, {"ids": np.full((1, length), 2, np.int64)})
    found = receipt()
    assert (found["device_runs"], found["compiled"]["compilations"]) == (4, 1)


WITH_PYTHONS_PROTOBUF = """
import ep_nnapi
from tests.provider.test_open_compilation import decoder, session
made = session(decoder())
(cluster,) = ep_nnapi.receipts()[0]["clusters"]
print(len(cluster["compiled"]["open_sizes"]))
"""


def test_protobuf_in_python_makes_no_conditions() -> None:
    """Which onnxruntime-extensions, for one, asks for where it is imported before onnx."""
    chosen = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    assert python(WITH_PYTHONS_PROTOBUF, env=chosen).stdout == "1\n"


def test_the_first_run_is_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial in the session's creation has found that runs are short."""
    monkeypatch.setattr(device_session, "LONG_RUN", 1000.0)  # however busy the machine is
    model = decoder()
    ours, cpu = session(model), session_of(model.SerializeToString())
    monkeypatch.delattr(DynamicRunner, "__call__")
    for step in STEPS:
        same(ours, cpu, feeds(*step))
    assert receipt()["device_runs"] == len(STEPS)


def len_of_one(model: onnx.ModelProto) -> int:
    """The operations of one compilation: what a session has that has run nothing."""
    alive = session(model)
    count: int = receipt()["compiled"]["operations"]
    del alive
    return count


@pytest.mark.parametrize(
    ("name", "axes", "sizes"),
    [
        ("mobilenet_v2", ("height", "width"), (96, 65, 100)),
        ("espcn", ("height", "width"), (33, 64)),
        ("transformer_encoder", ("tokens",), (32, 5, 17)),
    ],
)
def test_a_network_of_any_size_is_compiled_once(name, axes, sizes):
    model = zoo.MODELS[name](dynamic=("batch", "size"))
    ours, cpu = session(model), session_of(model.SerializeToString())
    once = receipt()["compiled"]
    for size in sizes:
        given = zoo.sample_inputs(model, **dict.fromkeys(axes, size))
        for got, want in zip(ours.run(None, given), cpu.run(None, given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)  # sums in another order
    found = receipt()
    assert found["compiled"]["operations"] == once["operations"]
    assert (found["device_runs"], found["fallbacks"]) == (len(sizes), [])


def test_sizes_outside_the_conditions_get_a_compilation_of_their_own(monkeypatch):
    """A table of 6 rows is sliced to the length: more elements than rows are another case."""
    asked, prepare = list[Spin](), CpuDevice.prepare

    def noted(device: CpuDevice, model: Model, options: CompileOptions) -> PreparedModel:
        asked.append(options.spin)
        return prepare(device, model, options)

    monkeypatch.setattr(CpuDevice, "prepare", noted)
    text = """<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[length, 3] x) => (float[part, 3] y) <int64[1] a = {0}, int64[1] b = {6}> {
        few = Slice (x, a, b)
        y = Tanh (few)
    }"""
    model = parser.parse_model(text)
    ours, cpu = session(model), session_of(model.SerializeToString())
    for rows in (2, 6, 7, 100, 5, 9):
        same(ours, cpu, {"x": np.random.default_rng(rows).normal(size=(rows, 3)).astype("f4")})
    found = receipt()
    assert (found["device_runs"], found["fallbacks"]) == (6, [])
    assert asked == [Spin.ALWAYS, Spin.IN_RUNS]  # between runs too, of one as in the CPU provider
    assert found["compiled"]["operations"] == 2 * len_of_one(model)


def test_runs_without_python_are_offered_once_for_all_sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device_session, "LONG_RUN", 1000.0)  # however busy the machine is
    bound = on_host_cpu()
    for rows in (2, 3, 4):
        run(bound, rows)
    (found,) = bound.direct_runs()
    (place,) = found.given
    assert isinstance(place, Place)
    assert [isinstance(size, Size) for size in place.shape] == [True, False]
    assert found.sizes is not None
    assert found.sizes.symbols == {"n": (0, 0, False)}


def test_a_thousand_sizes_take_no_more_memory_and_threads() -> None:
    """Those of 3 beside the caller's: 2 of host-cpu, 2 of the CPU provider for an empty cache."""
    gc.collect()
    threads = len(os.listdir("/proc/self/task"))
    ours = session(decoder(), intra_op_num_threads=3)
    for past in range(65):
        ours.run(None, feeds(1, 1, past))
    before = memory()
    for past in range(65, 1065):
        ours.run(None, feeds(1, 1, past))
    assert memory() - before < 8 << 20
    assert len(os.listdir("/proc/self/task")) <= threads + 4
    assert receipt()["device_runs"] == 1064


CONTENTS = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[rows, 3] x, float[count] k) => (float[part, 3] y)
    <int64[1] four = {4}, int64[1] factor = {FACTOR}, int64[1] zero = {0}> {
    shape = Shape (k)
    less = Sub (shape, four)
    end = Mul (less, factor)
    wide = Cast <to = 11> (end)
    sine = Sin (wide)
    added = Cast <to = 1> (sine)
    sum = Add (x, added)
    y = Slice (sum, zero, end)
}"""
"""The sine is computed outside, so that the cluster after it has `end` as an input."""


@pytest.mark.parametrize("factor", [1, 1 << 30, -1], ids=["some", "huge", "negative"])
def test_contents_of_inputs_determine_shapes(factor: int) -> None:
    model = parser.parse_model(CONTENTS.replace("FACTOR", str(factor)))
    ours, cpu = session(model), session_of(model.SerializeToString())
    rng = np.random.default_rng(0)
    for rows, count in ((70, 64), (70, 30), (9, 8), (8, 4), (9, 3), (9, 7), (90, 90), (50, 53)):
        for _ in range(2):
            x = rng.normal(size=(rows, 3)).astype("f4")
            same(ours, cpu, {"x": x, "k": np.zeros(count, "f4")})
    assert receipt()["device_runs"] == 14 or factor != 1  # all but those without elements


def opened(model: onnx.ModelProto) -> DynamicCluster:
    """The last cluster of the model, with a compilation for open sizes on host-cpu."""
    runtime = host_runtime()
    device = next(d for d in runtime.devices() if d.name == "host-cpu")
    planner = Planner(Compiler(Target(8), runtime, device), parse({}))
    cluster = planner.plan(graph_of(model)).clusters[-1]
    assert isinstance(cluster, DynamicCluster)
    return cluster


def test_contents_are_checked_and_other_devices_compile_them_as_numbers() -> None:
    cluster = opened(parser.parse_model(CONTENTS.replace("FACTOR", "1")))
    (made,) = cluster.opened
    shapes = {"x": (70, 3), "added": (1,), "end": (1,)}
    for end, found in ((60, 60), (1, 1), (69, 69), (71, None), (0, None), (-5, None)):
        contents = {"end": np.array([end])}
        symbols = made.symbols(shapes, contents)
        assert (symbols and symbols["end[0]"]) == found
    assert made.symbols({**shapes, "end": (2,)}, {"end": np.array([5, 5])}) is None
    bound = made.lowered.bind({"rows": 70, "end[0]": 7})
    reference = next(d for d in host_runtime().devices() if d.name == "nnapi-reference")
    compiled = host_runtime().compile(bound.model, reference)
    x = np.arange(210, dtype=np.float32).reshape(70, 3)
    given = {"x": x, "added": np.ones(1, np.float32), "end": np.array([7], np.int32)}
    (y,) = compiled.run([given[c.name] for c in bound.border.inputs])
    np.testing.assert_array_equal(y, x[:7] + 1)


def memory() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


NAMED = """<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1, past, 3] cache, float[1, length, 3] x, float[1, total, 3] mask)
    => (float[1, all, 3] y) {
    grown = Concat <axis = 1> (cache, x)
    y = Mul (grown, mask)
}"""


def test_a_size_that_is_named_as_a_sum_is_checked_in_each_run() -> None:
    model = parser.parse_model(NAMED)
    model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "past + length"
    cluster = opened(model)
    (made,) = cluster.opened

    def shapes(past: int, length: int, total: int) -> dict[str, tuple[int, ...]]:
        sizes = {"cache": past, "x": length, "mask": total}
        return {name: (1, size, 3) for name, size in sizes.items()}

    assert made.symbols(shapes(3, 2, 5)) == {"past": 3, "length": 2}
    assert made.symbols(shapes(4, 2, 1)) is None  # broadcast, which the sum is not
    assert made.symbols(shapes(4, 2, 5)) is None
    bound = cluster.bind(["cache", "x", "mask"], ["y"])
    x = {n: np.ones(s, np.float32) for n, s in shapes(3, 2, 5).items()}
    bound([*x.values()], lambda _, shape: np.zeros(shape, np.float32), lambda: None)
    (direct,) = bound.direct_runs()
    assert direct.sizes is not None
    values = {name: (3, 2, 5)[at] for name, (at, *_) in direct.sizes.symbols.items()}
    assert all(c.holds(values) for c in direct.sizes.conditions)
    values = {name: (3, 2, 6)[at] for name, (at, *_) in direct.sizes.symbols.items()}
    assert not all(c.holds(values) for c in direct.sizes.conditions)


def dynamic(device: FaultyDevice, **options: object) -> DynamicCluster:
    (cluster,) = plan(decoder(), device, **options).clusters
    assert isinstance(cluster, DynamicCluster)
    return cluster


def decoded(cluster: DynamicCluster) -> None:
    """Runs the steps; their results are the CPU provider's."""
    cpu, bound = session_of(decoder().SerializeToString()), cluster.bind(INPUTS, OUTPUTS)
    for step in STEPS:
        given, found = feeds(*step), dict[int, np.ndarray]()
        arrays = [given[name] for name in INPUTS]
        bound(arrays, lambda i, s, to=found: to.setdefault(i, np.zeros(s, "f4")), lambda: None)
        for i, want in enumerate(cpu.run(OUTPUTS, given)):
            np.testing.assert_allclose(found[i], want, rtol=2e-5, atol=2e-6)  # other sums


INPUTS, OUTPUTS = ["x", "cache", "ids"], ["y", "grown"]


def test_a_device_that_takes_open_dimensions_compiles_once() -> None:
    device = FaultyDevice(opens=True)
    cluster = dynamic(device)
    decoded(cluster)
    (model,) = device.compiled
    assert {model.operands[i].dimensions for i in model.inputs[:3]} == {(0, 0, 8), (0, 0)}
    assert (cluster.record.device_runs, cluster.record.substitutes) == (len(STEPS), {})


@pytest.mark.parametrize(("level", "asked"), [(3, 1), (2, 0)])
def test_a_device_that_declines_them_compiles_for_sizes_and_is_asked_once(
    level: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At level 2, where executions tell no sizes, it is not asked."""
    opened: list[object] = []
    of = open_compilation.with_open_dimensions
    monkeypatch.setattr(
        open_compilation, "with_open_dimensions", lambda m: opened.append(m) or of(m)
    )
    device = FaultyDevice(opens=level < LEVEL, feature_level=level)
    compiler = compiler_of(device, level)
    (cluster,) = Planner(compiler, parse({"fallback": "none"})).plan(graph_of(SUM)).clusters
    assert isinstance(cluster, DynamicCluster)
    bound = cluster.bind(["x"], ["y"])
    for rows in (2, 3, 4, 5, 6):
        run(bound, rows)
    assert (len(opened), len(device.compiled)) == (asked, 5)
    assert cluster.record.substitutes == {}


@pytest.mark.parametrize("opens", [False, True])
def test_a_profile_remembers_what_the_device_said_of_open_dimensions(opens: bool) -> None:
    runtime = HostRuntime([FaultyDevice(opens=opens)])
    samples = (s for s in seeds() if s.spec.name in ("ADD", "TANH"))
    (profile,) = record_all([(runtime, runtime.devices()[0])], samples)
    profiled = ProfiledRuntime(profile, HostRuntime())
    compiler = Compiler(Target(8), profiled, profiled.devices()[0])
    (cluster,) = Planner(compiler, parse({"fallback": "none"})).plan(graph_of(SUM)).clusters
    assert isinstance(cluster, DynamicCluster)
    bound = cluster.bind(["x"], ["y"])
    for rows in (2, 3, 4):
        run(bound, rows)
    assert cluster.record.device_runs == 3
    assert len(cluster.opened) == opens


def test_a_library_that_fails_in_executions_with_open_dimensions_compiles_for_sizes() -> None:
    """It is found out before the first run: that one is the device's."""
    functions = Recorded()
    runtime = LibraryRuntime(functions)
    device = next(d for d in runtime.devices() if d.name == "nnapi-reference")
    for fails in (False, True):
        wrong = {"Execution_getOutputOperandDimensions": ResultCode.OP_FAILED} if fails else {}
        functions.fails = wrong
        planner = Planner(Compiler(Target(8), runtime, device), parse({}))
        (cluster,) = planner.plan(graph_of(decoder())).clusters
        assert isinstance(cluster, DynamicCluster)
        assert len(cluster.opened) == (not fails)
        functions.calls.clear()
        decoded(cluster)
        assert (functions.calls["Compilation_finish"] == 0) is not fails
        assert cluster.record.device_runs == (2 if fails else len(STEPS))
