"""Measured times of a run: every cluster, operation and CPU node that runs has one."""

import json
from itertools import count
from pathlib import Path

import pytest

import ep_nnapi
from ep_nnapi.diagnostics import measured_times as timing
from ep_nnapi.diagnostics.measured_times import MeasuredTimes, measured_times
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import parse
from tests.cli.command import DIGITS
from tests.html_report.models import blocks
from tests.provider.test_planner import IF_MODEL


def parts(found: MeasuredTimes) -> set[str]:
    """The names of all nodes that a time is for."""
    return {n for nodes in found.clusters for n in nodes} | set(found.cpu_nodes)


def test_every_part_of_a_run_has_a_time():
    model = blocks(10)
    report, found = ep_nnapi.check(model), measured_times(model, parse({}))
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
    found = measured_times(DIGITS, parse({"device": "nnapi-reference"}))
    (cluster,) = found.clusters.values()
    assert 0 < sum(found.operations.values()) <= 1.5 * cluster  # medians need not add up


def test_a_device_that_runs_clusters_as_a_whole():
    found = measured_times(DIGITS, parse({"device": "host-cpu"}))
    assert (len(found.clusters), found.operations, found.devices) == (1, {}, ())


def test_a_branch_that_is_not_taken_has_no_time():
    found = measured_times(IF_MODEL, parse({}))
    report = ep_nnapi.check(IF_MODEL)
    assert len(found.clusters) < len(report.clusters)


@pytest.mark.parametrize("device", ["nnapi-reference", "host-cpu"])
def test_devices_behind_the_c_api_measure_themselves(device: str):
    found = measured_times(
        DIGITS, parse({"runtime": ep_nnapi.libneuralnetworks_path(), "device": device})
    )
    (time,) = found.devices
    assert (time.cluster, time.device) == (0, device)
    assert time.in_driver or time.on_hardware


# Latency: the median of the runs after a warm-up, limited in number and in time


def clocked(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> timing.Timed:
    """The measurement of runs of these durations after the warm-up, the last one repeated."""
    runs = count(-1)
    now = [0.0]

    def run() -> None:
        number = next(runs)
        now[0] += 1000.0 if number < 0 else seconds[min(number, len(seconds) - 1)]

    monkeypatch.setattr(timing, "run_time", lambda: now[0])
    return timing.measured(run)


def test_the_median_is_of_the_runs_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = clocked(monkeypatch, 0.1, 0.125, 0.5)
    assert (found.milliseconds, found.runs) == (pytest.approx(125), 3)


def test_a_slow_model_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clocked(monkeypatch, 3.0) == timing.Timed(3000.0, 1)


def test_a_fast_model_runs_a_hundred_times(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clocked(monkeypatch, 2.0**-20).runs == 100


# A profile of one more session, with each NNAPI operation; tests/cli/test_run.py has the verb

OPERATIONS = ["CONV_2D", "MAX_POOL_2D", "CONV_2D", "MAX_POOL_2D", "FULLY_CONNECTED"]


def operations(path: Path) -> list[str]:
    """The NNAPI operations, without what is around them."""
    names = [e["name"] for e in json.loads(path.read_text()) if "device" in e.get("args", {})]
    return [name for name in names if not name.startswith("NNAPI ")]


def test_the_trace_is_all_that_it_writes(tmp_path: Path):
    trace = tmp_path / "trace.json"
    ep_nnapi.run(DIGITS, profile=trace)
    assert operations(trace) == OPERATIONS
    assert list(tmp_path.iterdir()) == [trace]


def test_the_session_has_the_options_of_the_run(tmp_path: Path):
    trace = tmp_path / "trace.json"
    ep_nnapi.run(DIGITS, profile=trace, exclude="Conv,Relu,MaxPool")
    assert operations(trace) == ["RESHAPE", "FULLY_CONNECTED"]


def test_a_file_that_is_there_is_replaced(tmp_path: Path):
    trace = tmp_path / "trace.json"
    trace.write_text("old")
    ep_nnapi.run(DIGITS, profile=str(trace))
    assert operations(trace) == OPERATIONS


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path):
    trace = tmp_path / "nowhere" / "trace.json"
    with pytest.raises(OptionError, match=f"{trace} cannot be written: No such file"):
        ep_nnapi.run(DIGITS, profile=trace)
