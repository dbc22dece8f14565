"""Clusters with symbolic dimensions: one compilation for each of the shapes in the cache."""

import logging
import re
from dataclasses import replace

import numpy as np
import onnx
import pytest

from ep_nnapi.lowering.border import Place
from ep_nnapi.nnapi.host.registry import host_runtime
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import Target
from ep_nnapi.provider.buckets import MOST_WAITING, SizeAdmission
from ep_nnapi.provider.cluster_record import WHOLE_CLUSTER, RunEvent
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.dynamic_cluster import DynamicCluster, DynamicRunner
from ep_nnapi.provider.planner import Planner
from ep_nnapi.sessions import device_session
from tests.faulty import FaultyDevice
from tests.onnx_graph import graph_of
from tests.provider.test_planner import model, plan

SUM = model("Add x w -> a", "Tanh a -> y", constants="w")
for info in (*SUM.graph.input, *SUM.graph.output):
    info.type.tensor_type.shape.dim[0].dim_param = "n"
SUM.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.ones(3, np.float32), "w"))


def runner(device: FaultyDevice, **options: object) -> DynamicRunner:
    (cluster,) = plan(SUM, device, **options).clusters
    assert isinstance(cluster, DynamicCluster)
    return cluster.bind(["x"], ["y"])


def on_host_cpu(**options: object) -> DynamicRunner:
    runtime = host_runtime()
    device = next(d for d in runtime.devices() if d.name == "host-cpu")
    planner = Planner(Compiler(Target(8), runtime, device), parse(options))
    (cluster,) = planner.plan(graph_of(SUM)).clusters
    assert isinstance(cluster, DynamicCluster)
    return cluster.bind(["x"], ["y"])


def run(bound: DynamicRunner, rows: int) -> None:
    x = np.linspace(-1, 1, 3 * rows, dtype=np.float32).reshape(rows, 3)
    found: dict[int, np.ndarray] = {}
    bound([x], lambda i, shape: found.setdefault(i, np.zeros(shape, np.float32)), lambda: None)
    np.testing.assert_allclose(found[0], np.tanh(x + 1), rtol=1e-6)  # tanh


def test_a_run_that_compiles_says_so_and_how_long_it_took(caplog: pytest.LogCaptureFixture):
    bound = runner(FaultyDevice())
    with caplog.at_level(logging.INFO, "ep_nnapi"):
        run(bound, 2)
        run(bound, 2)
    (said,) = (r.getMessage() for r in caplog.records if "of a run" in r.getMessage())
    assert re.fullmatch(r"\d\.\d{3} s of a run compile the cluster of .* for \(\(2, 3\),\)", said)


def test_sizes_beyond_the_first_run_on_the_cpu_provider_with_one_warning(caplog):
    """Those that are compiled take so long that none of the others is worth it."""
    device = FaultyDevice()
    bound = runner(device, shape_cache=1, new_sizes=2)
    run(bound, 1)
    bound._admission.add_compilation(1, 1e6)
    for rows in (3, 4, 3):
        run(bound, rows)
    assert len(device.compiled) == 1
    (warning,) = caplog.messages
    assert "Add_a" in warning
    assert "(3, 3)" in warning
    for way_out in ("--fix", "--sizes", "--shape-cache", "--new-sizes", "worth_it"):
        assert way_out in warning
    record = bound.cluster.record
    ((by, runs),) = record.substitutes.items()
    assert (record.device_runs, runs) == (1, 3)
    assert by.reason == "sizes beyond the first 2 wait to be compiled"


def test_all_sizes_are_compiled_where_nothing_may_take_the_devices_place():
    device = FaultyDevice()
    bound = runner(device, shape_cache=1, new_sizes=1, fallback="none")
    for rows in (1, 2, 3):
        run(bound, rows)
    assert len(device.compiled) == 3


def test_the_least_recently_used_shapes_are_compiled_again():
    device = FaultyDevice()
    bound = runner(device, shape_cache=2, new_sizes=9)
    for rows, compiled in ((1, 1), (2, 2), (1, 2), (3, 3), (1, 3), (2, 4)):  # 3 evicts 2
        run(bound, rows)
        assert len(device.compiled) == compiled, rows


def test_shapes_that_do_not_compile_run_on_the_cpu(caplog: pytest.LogCaptureFixture):
    """At once, with one warning for them."""
    bound = runner(FaultyDevice(fails_on=frozenset({"TANH"})))
    run(bound, 2)
    run(bound, 2)
    (warning,) = (r.getMessage() for r in caplog.records)
    assert (
        "sizes {'x': (2, 3)} of the cluster of Add_a to Tanh_y run on the CPU provider" in warning
    )


def test_their_runs_have_an_event():
    """In the run that compiles in vain, and in those after it."""
    bound = runner(FaultyDevice(fails_on=frozenset({"TANH"})))
    events: list[RunEvent] = []
    bound.cluster.compiler.listeners.append(events.extend)
    run(bound, 2)
    run(bound, 2)
    assert [(e.name, e.device) for e in events] == [(WHOLE_CLUSTER, "fallback=cpu")] * 2
    assert [list(e.nodes) for e in events] == [["Add_a", "Tanh_y"]] * 2


def test_runs_without_it_are_offered_for_the_sizes_in_the_cache_and_count_as_uses(monkeypatch):
    monkeypatch.setattr(device_session, "LONG_RUN", 1000.0)  # however busy the machine is
    monkeypatch.setattr(DynamicCluster, "_compiled_open", lambda *_, **__: None)
    bound = on_host_cpu(shape_cache=2, new_sizes=9)
    assert bound.direct_runs() == []
    for rows in (1, 2):
        run(bound, rows)
    two, one = bound.direct_runs()  # the last one first
    assert two.given == (Place(0, (2, 3), contents=None),)
    assert two.session is not one.session
    one.used()
    run(bound, 3)
    assert [found.given[0].shape for found in bound.direct_runs()] == [(3, 3), (1, 3)]
    two.used()  # no longer in the cache
    assert len(bound.direct_runs()) == 2


def test_they_are_given_by_the_contents_of_inputs_that_determine_shapes():
    shapes = ((2,), (4,)), (b"12345678",)
    bound = replace(on_host_cpu(), inputs=("x", "s"))
    bound.cluster = replace(bound.cluster, shape_inputs=("s",))
    assert bound._given(shapes) == (Place(0, (2,)), Place(1, (4,), contents=b"12345678"))


def test_inputs_without_elements_run_on_the_cpu_without_an_attempt(caplog):
    """As of a decoder's empty cache; whatever the other sizes are, with one warning."""
    device = FaultyDevice()
    bound = runner(device)
    run(bound, 0)
    run(bound, 0)
    (warning,) = caplog.messages
    assert "x has no elements; in NNAPI a size of 0 means unknown" in warning
    assert device.compiled == []
    assert [*bound.cluster.record.substitutes.values()] == [2]


def test_the_first_sizes_are_compiled_when_they_are_met():
    admission = SizeAdmission(2)
    for sizes in ("a", "b"):
        assert admission.admits(sizes)
        admission.add_compilation(sizes, 1.0)
    assert not admission.admits("c")


def test_others_are_when_their_runs_have_taken_as_long_as_a_compilation():
    admission = SizeAdmission(1)
    admission.add_compilation("a", 1.0)
    assert admission.add_cpu_run("b", 0.75)
    assert not admission.add_cpu_run("c", 0.5)
    assert not admission.admits("b")
    admission.add_cpu_run("b", 0.25)
    assert admission.admits("b")
    admission.add_compilation("b", 1.0)
    assert not admission.admits("b")  # evicted, it waits again


def test_only_the_first_of_all_waiting_runs_is_the_first():
    admission = SizeAdmission(1)
    admission.add_compilation("a", 1.0)
    assert admission.add_cpu_run("b", 1.0)
    admission.add_compilation("b", 1.0)  # none waits any more
    assert not admission.add_cpu_run("c", 1.0)


def test_none_waits_without_a_limit():
    admission = SizeAdmission(None)
    for sizes in range(9):
        admission.add_compilation(sizes, 1.0)
    assert admission.admits(9)


def test_sizes_that_never_repeat_are_forgotten():
    admission = SizeAdmission(1)
    admission.add_compilation("a", 1.0)
    for sizes in range(MOST_WAITING + 1):
        admission.add_cpu_run(sizes, 0.6)
    for sizes, admitted in ((0, False), (MOST_WAITING, True)):
        admission.add_cpu_run(sizes, 0.6)
        assert admission.admits(sizes) is admitted
