"""Runs of a compiled cluster, and what runs it after its device has failed."""

import threading
from dataclasses import dataclass, replace

import numpy as np
import onnx
import pytest

from ep_nnapi.graph.value import DType
from ep_nnapi.lowering.border import Border, BoundBorder, Crossing, Place
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.runtime import Compilation, CompileOptions, RunOptions
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.provider.cluster_record import (
    INPUTS,
    MOST_REASONS,
    OUTPUTS,
    WHOLE_CLUSTER,
    ClusterRecord,
    RunEvent,
)
from ep_nnapi.provider.compiled_cluster import CompiledCluster, Runner, direct_run
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.observed_cluster import Observation, ObservedCluster
from ep_nnapi.report.report import Phase, Substitute
from tests.faulty import FaultyDevice, compiler_of
from tests.nnapi.build import one
from tests.provider.test_planner import CHAIN, SHAPE, plan

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE)
WANTED = np.tanh(np.exp(-np.abs(X)))


def runner(device: FaultyDevice, **options: object) -> Runner:
    (cluster,) = plan(CHAIN, device, **options).clusters
    assert isinstance(cluster, CompiledCluster)
    return cluster.bind(["x"], ["y"])


def run(bound: Runner) -> np.ndarray:
    found: dict[int, np.ndarray] = {}

    def allocate(index: int, shape: tuple[int, ...]) -> np.ndarray:
        assert index not in found  # each output once, also if the run is repeated elsewhere
        return found.setdefault(index, np.zeros(shape, np.float32))

    bound([X], allocate, lambda: None)
    return found[0]


@pytest.mark.parametrize("fallback", ["reference", "cpu"])
def test_the_fallback_computes_what_the_device_did_not(fallback: str, caplog):
    """From the first failure on, with one warning; the device is not tried again."""
    device = FaultyDevice(fails_at=frozenset({1}))
    bound = runner(device, fallback=fallback)
    for _ in range(4):
        np.testing.assert_allclose(run(bound), WANTED, rtol=1e-6)  # exp and tanh
    assert next(device.calls) == 2
    assert bound.cluster.record.failures.count == 1
    (warning,) = (r.getMessage() for r in caplog.records)
    assert "device faulty failed" in warning
    assert "in the cluster of Abs_a, Neg_b, Exp_c, Tanh_y" in warning
    assert f"fallback={fallback} from now on" in warning


def test_without_a_fallback_every_failure_is_the_runs_error():
    bound = runner(FaultyDevice(fails_at=frozenset({-1})), fallback="none")
    for _ in range(2):
        with pytest.raises(RuntimeFailure, match="OP_FAILED"):
            run(bound)
    assert bound.cluster.record.failures.count == 2


def test_inputs_that_the_fallback_cannot_compute_either_do_not_cost_the_cluster_its_device(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    device = FaultyDevice(fails_at=frozenset({0}))
    bound = runner(device, fallback="reference")
    impossible = RuntimeFailure("ANeuralNetworksExecution_compute", "OP_FAILED", "index 3 of 3")

    def refuse(*_: object) -> None:
        raise impossible

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "_fallback", lambda *_: (refuse, None))
        with pytest.raises(RuntimeFailure, match="index 3 of 3"):
            run(bound)
    np.testing.assert_allclose(run(bound), WANTED, rtol=1e-6)  # exp and tanh
    assert next(device.calls) == 2
    assert bound.cluster.compiler.health.left_out(device.name) is None
    assert caplog.records == []


# Records of clusters: sums of compilations, runs by what computed them, times

BY = Substitute("npu", "nnapi-reference", Phase.RUN, "out of luck")


def test_compilations_add_up():
    x = Operand(F32, (2, 3, 8))
    model = one(spec.ADD, [x, np.ones(8), 0], [x])
    outer = replace(model, operands=(*model.operands, Operand(F32, value=model)))
    record = ClusterRecord()
    assert record.compiled is None
    record.add_compilation(model, 5)
    record.add_compilation(outer, 7)  # with the operations of the inner model
    record.add_compilation(model, 100, BY)  # on another device
    found = record.compiled
    weights = sum(o.value.bytes.size for o in model.operands if isinstance(o.value, Data))
    assert weights == 8 * 4 + 4, "eight numbers, and the scalar that is the activation"
    assert (found.operations, found.weight_bytes, found.nanoseconds) == (3, 3 * 32, 12)
    assert record.substitutes == {BY: 0}


def test_runs_are_counted_by_what_computed_them():
    record = ClusterRecord()
    for by in (None, BY, None, BY, None):
        record.add_run(by, record.start())
    record.add_direct_runs(None, lambda: (10, 0, 0))
    record.add_direct_runs(BY, lambda: (20, 0, 0))
    assert (record.device_runs, record.substitutes) == (13, {BY: 22})
    assert record.times() is None


def test_times_are_those_of_python_and_of_c():
    record = ClusterRecord(timed=True)
    assert record.times() is None
    record.add_run(None, record.start())
    total, least = record.times()
    assert total == least > 0
    record.add_direct_runs(None, lambda: (2, 3, 1))
    assert record.times() == (total + 3, 1)


def test_a_sentence_for_each_size_does_not_fill_the_memory():
    record = ClusterRecord()
    for i in range(100):
        record.add_run(replace(BY, reason=f"size {i}"), 0)
    found = record.substitutes
    assert len(found) == MOST_REASONS + 1
    assert found[replace(BY, reason="size 0")] == 1
    assert found[replace(BY, reason="further reasons")] == 100 - MOST_REASONS


# A cluster that is observed runs on both providers, and its readers get the CPU provider's


def observed(device: FaultyDevice) -> tuple[np.ndarray, list[Observation]]:
    (cluster,) = plan(CHAIN, device, fallback="cpu").clusters
    seen: list[Observation] = []
    wrapped = ObservedCluster(cluster, lambda run: seen.append(_copied(run)))
    assert wrapped.node_ids == cluster.node_ids
    out = np.zeros_like(X)
    wrapped.bind(["x"], ["y"])([X], lambda index, shape: out, lambda: None)
    return out, seen


def _copied(run: Observation) -> Observation:
    nodes = onnx.load(run.model, load_external_data=False).graph.node
    assert [n.op_type for n in nodes] == ["Abs", "Neg", "Exp", "Tanh"]
    return replace(run, inputs={n: a.copy() for n, a in run.inputs.items()})


def test_both_outputs_are_observed_and_the_cpus_are_passed_on():
    out, (seen,) = observed(FaultyDevice(wrong=0.25))
    np.testing.assert_allclose(out, WANTED, rtol=1e-6)  # exp and tanh
    np.testing.assert_array_equal(seen.cpu["y"], out)
    np.testing.assert_allclose(seen.nnapi["y"], WANTED + 0.25, rtol=1e-6)
    np.testing.assert_array_equal(seen.inputs["x"], X)
    assert seen.report.nodes == ("Abs_a", "Neg_b", "Exp_c", "Tanh_y")
    assert seen.failure is None


def test_a_failure_is_observed_and_no_fallback_hides_it():
    out, (seen,) = observed(FaultyDevice(fails_at=frozenset({-1})))
    np.testing.assert_allclose(out, WANTED, rtol=1e-6)
    assert seen.nnapi is None
    assert seen.failure is not None
    assert seen.failure.code == "ANEURALNETWORKS_OP_FAILED"
    assert seen.failure.__traceback__ is None


def test_a_cluster_without_its_onnx_nodes_cannot_be_observed():
    (cluster,) = plan(CHAIN).clusters
    with pytest.raises(ValueError, match="fallback = cpu"):
        ObservedCluster(replace(cluster, cpu=None), lambda run: None).bind(["x"], ["y"])


FLOAT = np.dtype(np.float32)


@dataclass
class Direct(Compilation):
    session: object | None = "session"

    def direct_session(self) -> object | None:
        return self.session


def compiler(**changes: object) -> Compiler:
    return replace(compiler_of(), **changes)


def border(*outputs: Crossing) -> BoundBorder:
    """Inputs b and a of the cluster are operands 0 and 1; outputs go by their names."""
    inputs = Crossing("a", DType.FLOAT, (2,), 1, None, (2,), FLOAT), crossing("b", 0)
    return Border(inputs, outputs).bind(["a", "b"], [c.name for c in outputs])


def crossing(name: str, operand: int, **changes: object) -> Crossing:
    return replace(Crossing(name, DType.FLOAT, (3,), operand, None, (3,), FLOAT), **changes)


PLAIN = border(crossing("y", 1), crossing("z", 0))


def test_tensors_are_in_the_order_of_the_models_operands():
    found = direct_run(compiler(), Direct(), PLAIN)
    assert found is not None
    assert found.session == "session"
    assert found.tensors.inputs == found.given == (Place(1, (3,)), Place(0, (2,)))
    assert found.tensors.outputs == (Place(1, (3,)), Place(0, (3,)))


@pytest.mark.parametrize(
    "converted",
    [
        crossing("y", 0, perm=(0,)),
        crossing("y", 0, dtype=DType.INT64),
        crossing("y", 0, nnapi_shape=(3, 1)),
        crossing("y", 1),
    ],
    ids=["permuted", "cast", "reshaped", "not the only output"],
)
def test_converted_tensors_need_the_runner(converted: Crossing):
    assert direct_run(compiler(), Direct(), border(converted)) is None


def test_an_operand_that_is_two_outputs_needs_the_runner():
    assert direct_run(compiler(), Direct(), border(crossing("y", 0), crossing("z", 0))) is None


@pytest.mark.parametrize(
    "changes", [{"limits": RunOptions(timeout_ns=1)}, {"listeners": [print]}], ids=str
)
def test_runs_that_are_watched_need_the_runner(changes: dict[str, object]):
    assert direct_run(compiler(**changes), Direct(), PLAIN) is None


def test_runs_that_are_timed_go_as_those_of_a_session():
    assert direct_run(compiler(measure=True), Direct(), PLAIN) is not None


def test_devices_without_a_session_need_the_runner():
    assert direct_run(compiler(), Direct(None), PLAIN) is None

    class Other(Compilation):
        pass

    assert direct_run(compiler(), Other(), PLAIN) is None


NODES = ["Abs_a", "Neg_b", "Exp_c", "Tanh_y"]


def reference() -> Runner:
    (cluster,) = plan(CHAIN).clusters
    return cluster.bind(["x"], ["y"])


def events_of(bound: Runner, runs: int = 1) -> list[RunEvent]:
    found: list[RunEvent] = []
    bound.cluster.compiler.listeners.append(found.extend)
    for _ in range(runs):
        run(bound)
    return found


def test_an_operation_has_its_nodes_device_and_bytes():
    _, *found, _ = events_of(reference())
    assert [(e.name, e.nodes) for e in found] == [
        (name, (node,)) for name, node in zip(("ABS", "NEG", "EXP", "TANH"), NODES, strict=True)
    ]
    size = 2 * 4 * int(np.prod(SHAPE))  # one float32 tensor is read, one written
    assert {e.bytes for e in found} == {size}
    assert {(e.device, e.thread) for e in found} == {("nnapi-reference", threading.get_native_id())}


def test_around_the_operations_are_inputs_and_outputs():
    """Their events meet those of the operations, so that nothing of a run is missing."""
    before, first, *_, last, after = events_of(reference())
    assert (before.name, after.name) == (INPUTS, OUTPUTS)
    assert (before.end_ns, after.start_ns) == (first.start_ns, last.end_ns)
    assert before.start_ns < before.end_ns
    assert after.start_ns < after.end_ns
    assert list(before.nodes) == list(after.nodes) == NODES


class Opaque(FaultyDevice):
    """Runs a model as a whole, as accelerators do."""

    def prepare(self, model: Model, options: CompileOptions) -> PreparedModel:
        prepared = super().prepare(model, options)

        class Whole:
            def execute(self, inputs, outputs, run_options):
                return prepared.execute(inputs, outputs, replace(run_options, on_operation=None))

        return Whole()


def test_a_device_that_does_not_time_operations_has_one_event_for_the_cluster():
    (event,) = events_of(runner(Opaque()))
    assert (event.name, list(event.nodes), event.device) == (WHOLE_CLUSTER, NODES, "faulty")
    assert event.bytes == 2 * 4 * int(np.prod(SHAPE))  # x and y
    assert event.start_ns < event.end_ns


@pytest.mark.parametrize("fallback", ["reference", "cpu"])
def test_a_fallback_is_named(fallback: str):
    """In the run that fails, and in those after it, which do not try the device again."""
    device = FaultyDevice(fails_at=frozenset({0}))
    found = events_of(runner(device, fallback=fallback), runs=2)
    assert [e.device for e in found] == [f"fallback={fallback}"] * 2


def test_a_listener_that_is_removed_hears_nothing():
    bound = reference()
    found = events_of(bound)
    heard = len(found)
    bound.cluster.compiler.listeners.clear()
    run(bound)
    assert len(found) == heard == len(NODES) + 2


def test_every_listener_hears_every_event():
    bound = reference()
    first = events_of(bound)
    second = events_of(bound)
    assert first[len(NODES) + 2 :] == second
