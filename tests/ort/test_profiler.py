"""ONNX Runtime's profile of a session has an event for each NNAPI operation."""

import itertools
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest

from ep_nnapi.nnapi.host.prepared_graph import PreparedGraph
from ep_nnapi.ort import plugin
from ep_nnapi.provider.provider import open_provider
from models.zoo import sample_inputs
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import serialized
from tests.ort.conftest import NAME
from tests.runtimes import host_only

Event: TypeAlias = Mapping[str, Any]
DIGITS = Path(__file__).parents[2] / "models" / "digits.onnx"
SIZE, DEPTH = 512, 4
X = {"x": np.ones((SIZE, SIZE), np.float32)}


def products() -> bytes:
    """Matrix products, each so large that the rest of a run does not matter."""
    nodes = " ".join(f"[product{i}] v{i + 1} = MatMul (v{i}, w)" for i in range(DEPTH))
    ends = f"(float[{SIZE},{SIZE}] v0) => (float[{SIZE},{SIZE}] v{DEPTH})"
    return serialized(f"{ends} {{ {nodes} }}", w=np.full((SIZE, SIZE), 1 / SIZE, np.float32))


def profiled(
    path: Path,
    runs: int = 1,
    device: str = "nnapi-reference",
    threads: int = 1,
    data: bytes | None = None,
) -> list[Event]:
    """The events of a session's profile, which is JSON as trace viewers read it."""
    data = products() if data is None else data
    feeds = sample_inputs(onnx.load_from_string(data))
    attributes = {"enable_profiling": True, "profile_file_prefix": str(path / "profile")}
    session = nnapi_session(data, severity=4, attributes=attributes, device=device)

    def run() -> None:
        for _ in range(runs):
            session.run(None, feeds)

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    events: list[Event] = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return events


def clusters(events: list[Event]) -> list[Event]:
    return [
        e
        for e in events
        if e["name"].endswith("_kernel_time") and e["args"].get("provider") == NAME
    ]


BORDER = ["NNAPI inputs", "NNAPI outputs"]


def operations(events: list[Event]) -> list[Event]:
    """The events of NNAPI operations, or of whole clusters."""
    return [e for e in events if "device" in e["args"] and e["name"] not in BORDER]


def inside(cluster: Event, events: list[Event]) -> list[Event]:
    """The provider's events on the cluster's thread and within its time."""
    end = cluster["ts"] + cluster["dur"]
    return [
        e
        for e in events
        if "device" in e["args"]
        and e["tid"] == cluster["tid"]
        and cluster["ts"] <= e["ts"]
        and e["ts"] + e["dur"] <= end
    ]


@host_only
def test_each_operation_is_inside_of_its_cluster(tmp_path: Path):
    events = profiled(tmp_path)
    (cluster,) = clusters(events)
    found = inside(cluster, events)
    assert found == [e for e in events if "device" in e["args"]]
    assert [e["name"] for e in (found[0], found[-1])] == BORDER
    described = [(e["name"], e["args"]["nodes"], e["args"]["device"]) for e in operations(found)]
    expected = [("FULLY_CONNECTED", f"product{i}", "nnapi-reference") for i in range(DEPTH)]
    assert described == expected


@host_only
def test_it_is_the_trace_event_format(tmp_path: Path):
    """A list of complete events, whose arguments are strings: what Perfetto reads."""
    for event in operations(profiled(tmp_path)):
        assert set(event) == {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"}
        assert (event["ph"], event["pid"], event["cat"]) == ("X", os.getpid(), "Kernel")
        assert isinstance(event["ts"], int)
        assert event["dur"] >= 0
        # x, the weight with its bias, and the result
        assert event["args"]["bytes"] == str(4 * (3 * SIZE * SIZE + SIZE))


def test_the_operations_take_the_clusters_time(tmp_path: Path):
    """All but 5 % of it, in the run that other programs disturbed least."""
    events = profiled(tmp_path, runs=10)
    shares = [
        sum(e["dur"] for e in operations(inside(cluster, events))) / cluster["dur"]
        for cluster in clusters(events)
    ]
    assert len(shares) == 10
    assert 0.95 <= max(shares) <= 1


@host_only
def test_nothing_of_a_small_models_time_is_left_out(tmp_path: Path):
    """Digits take a millisecond: conversions at the border count, and calls from C to Python.

    Events do not overlap and have no gaps. In the shortest run, which other programs disturbed
    least, only ONNX Runtime's own part of the node's time is missing.
    """
    events = profiled(tmp_path, runs=100, data=DIGITS.read_bytes())
    shares = []
    for cluster in clusters(events):
        found = sorted(inside(cluster, events), key=lambda e: e["ts"])
        assert [found[0]["name"], found[-1]["name"]] == BORDER
        assert all(a["ts"] + a["dur"] == b["ts"] for a, b in itertools.pairwise(found))
        shares.append((cluster["dur"], sum(e["dur"] for e in found) / cluster["dur"]))
    assert len(shares) == 100
    _, share = min(shares)
    assert 0.95 <= share <= 1


@host_only
def test_runs_of_several_threads_do_not_mix(tmp_path: Path):
    events = profiled(tmp_path, runs=3, threads=3)
    found = clusters(events)
    assert len({c["tid"] for c in found}) == 3
    assert [len(operations(inside(c, events))) for c in found] == [DEPTH] * 9


def test_a_device_that_compiles_clusters_has_one_event_for_each(tmp_path: Path):
    events = profiled(tmp_path, device="host-cpu")
    (event,) = [e for e in events if "device" in e["args"]]
    assert (event["name"], event["args"]["device"]) == ("NNAPI cluster", "host-cpu")
    assert event["args"]["nodes"] == ", ".join(f"product{i}" for i in range(DEPTH))


def test_without_a_profile_nothing_is_measured(monkeypatch: pytest.MonkeyPatch):
    """Operations get no callback, and the provider has no listener."""
    given, opened = [], []
    execute = PreparedGraph.execute

    def noted(self: PreparedGraph, inputs: Any, outputs: Any, options: Any) -> Any:
        given.append(options)
        return execute(self, inputs, outputs, options)

    def open_noted(entries: Mapping[str, str]) -> Any:
        opened.append(open_provider(entries))
        return opened[-1]

    monkeypatch.setattr(PreparedGraph, "execute", noted)
    monkeypatch.setattr(plugin.factory, "open_provider", open_noted)
    session = nnapi_session(products(), severity=4, device="nnapi-reference")
    session.run(None, {"v0": X["x"]})
    assert [o.on_operation for o in given] == [None]
    assert [p.listeners for p in opened] == [[]]
