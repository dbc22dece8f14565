"""Measured times of a run: every cluster, operation and CPU node that runs has one."""

from __future__ import annotations

import pytest

import ep_nnapi
from ep_nnapi.diagnostics.measured_times import MeasuredTimes, measured_times
from tests.cli.command import DIGITS
from tests.html_report.models import blocks
from tests.provider.test_outline import IF_MODEL


def parts(found: MeasuredTimes) -> set[str]:
    """The names of all nodes that a time is for."""
    return {n for nodes in found.clusters for n in nodes} | set(found.cpu_nodes)


def test_every_part_of_a_run_has_a_time():
    model = blocks(10)
    report, found = ep_nnapi.check(model), measured_times(model, {})
    assert set(found.clusters) == {c.nodes for c in report.clusters}
    assert set(found.cpu_nodes) == {r.node for r in report.rejections}
    assert min(*found.clusters.values(), *found.cpu_nodes.values()) > 0
    assert {n for nodes in found.operations for n in nodes} == parts(found) - set(found.cpu_nodes)
    assert found.runs >= 1


def test_times_by_node():
    """An operation's time is at the first node that it computes."""
    found = MeasuredTimes({}, {("conv", "relu"): 2.0}, {"det": 1.0})
    assert found.by_node == {"conv": 2.0, "det": 1.0}


def test_operations_take_no_longer_than_their_cluster():
    found = measured_times(DIGITS, {"device": "nnapi-reference"})
    (cluster,) = found.clusters.values()
    assert 0 < sum(found.operations.values()) <= 1.5 * cluster  # medians need not add up


def test_a_device_that_runs_clusters_as_a_whole():
    found = measured_times(DIGITS, {"device": "host-cpu"})
    assert (len(found.clusters), found.operations, found.devices) == (1, {}, ())


def test_a_branch_that_is_not_taken_has_no_time():
    found = measured_times(IF_MODEL, {})
    report = ep_nnapi.check(IF_MODEL)
    assert len(found.clusters) < len(report.clusters)


@pytest.mark.parametrize("device", ["nnapi-reference", "host-cpu"])
def test_devices_behind_the_c_api_measure_themselves(device: str):
    found = measured_times(DIGITS, {"runtime": ep_nnapi.libneuralnetworks_path(), "device": device})
    (time,) = found.devices
    assert (time.cluster, time.device) == (0, device)
    assert time.in_driver or time.on_hardware
