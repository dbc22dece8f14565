"""Records of clusters: sums of compilations, runs by what computed them, times."""

from __future__ import annotations

from dataclasses import replace

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.model import Data, Operand
from ep_nnapi.nnapi.spec import F32
from ep_nnapi.provider.cluster_record import MOST_REASONS, ClusterRecord
from ep_nnapi.report import Phase, Substitute
from tests.ort_devices.expressions import Expression

BY = Substitute("npu", "nnapi-reference", Phase.RUN, "out of luck")


def test_compilations_add_up():
    net = Expression()
    model = net.ends(net.two(spec.ADD, net.x, net.numbers(8)))
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
