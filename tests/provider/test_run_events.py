"""Runs of clusters tell listeners what they compute, where, and when."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi.host.runtime import PreparedModel
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions
from ep_nnapi.provider.compiled_cluster import Runner
from ep_nnapi.provider.run_events import INPUTS, OUTPUTS, WHOLE_CLUSTER, RunEvent
from tests.faulty import FaultyDevice
from tests.provider.test_compiled_cluster import run, runner
from tests.provider.test_planner import CHAIN, SHAPE, plan

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
