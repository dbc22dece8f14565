"""Measured times of a run: latency, clusters, nodes, devices; and a trace of it."""

from __future__ import annotations

import json
import tempfile
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeAlias, TypeVar

import onnxruntime

from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource
from ep_nnapi.diagnostics.session_runs import feeds_of, nnapi_session, outputs_of, source
from ep_nnapi.nnapi.clock import run_time
from ep_nnapi.nnapi.files import write_output
from ep_nnapi.options.table import Options
from ep_nnapi.ort.api import EP_NAME
from ep_nnapi.provider.cluster_record import INPUTS, OUTPUTS, WHOLE_CLUSTER, RunEvent
from ep_nnapi.provider.provider import Provider
from ep_nnapi.sessions.cpu import exact_options

_MAX_SECONDS = 0.5  # of measurement for each session, after its warm-up run
_MAX_RUNS = 100


@dataclass(frozen=True, slots=True)
class Timed:
    """Median time of a number of runs, in milliseconds."""

    milliseconds: float
    runs: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of a run with the first inputs on each provider; `cpu` is None if it cannot run."""

    nnapi: Timed
    cpu: Timed | None


def measured(run: Callable[[], object]) -> Timed:
    """Returns the median time of a run, after one warm-up run."""
    run()
    times: list[float] = []
    while not times or (sum(times) < _MAX_SECONDS and len(times) < _MAX_RUNS):
        began = run_time()
        run()
        times.append(run_time() - began)
    return Timed(1000 * median(times), len(times))


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Median durations of a cluster's runs in milliseconds, None where they are not measured.

    cluster      its number in the report
    on_hardware  on the device's hardware
    in_driver    in the driver, with the transport within the device
    """

    cluster: int
    device: str
    on_hardware: float | None
    in_driver: float | None


def device_times(provider: Provider) -> tuple[DeviceTime, ...]:
    """Returns the times of the clusters whose device measured them."""
    found = []
    for number, cluster in enumerate(provider.clusters):
        runs = tuple(cluster.record.durations)
        times = _milliseconds(d.on_hardware for d in runs), _milliseconds(d.in_driver for d in runs)
        if times != (None, None):
            found.append(DeviceTime(number, cluster.report.device, *times))
    return tuple(found)


def _milliseconds(nanoseconds: Iterable[int | None]) -> float | None:
    known = [ns for ns in nanoseconds if ns is not None]
    return median(known) / 1e6 if known else None


def record_trace(path: Path, model: ModelSource, feeds: Feeds, options: Options) -> None:
    """Writes ONNX Runtime's profile of a session to `path`, as JSON for Perfetto.

    The session has these options but for the receipt, and runs all inputs. Raises OptionError if
    the file cannot be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = exact_options()
        settings.enable_profiling = True
        settings.profile_file_prefix = str(Path(folder, "profile"))
        provider, session = nnapi_session(model, replace(options, receipt=None), settings)
        for fed in feeds.runs:
            outputs_of(session, fed, provider)
        write_output(path, Path(session.end_profiling()).read_bytes())


_Key = TypeVar("_Key", str, tuple[str, ...])
Nodes: TypeAlias = tuple[str, ...]
_KERNEL_TIME = "_kernel_time"
_SEED = 0


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """Median microseconds in a run, after a warm-up run; what runs several times in it is summed.

    clusters    by the nodes of the cluster, with the conversions at its border
    operations  NNAPI operations by the ONNX nodes that each computes, where the device times them
    cpu_nodes   nodes on the CPU provider by name, as ONNX Runtime's profiler has them
    devices     what the devices measured themselves
    runs        number of runs
    """

    clusters: Mapping[Nodes, float] = field(default_factory=dict)
    operations: Mapping[Nodes, float] = field(default_factory=dict)
    cpu_nodes: Mapping[str, float] = field(default_factory=dict)
    devices: tuple[DeviceTime, ...] = ()
    runs: int = 0

    @property
    def by_node(self) -> dict[str, float]:
        """Times by node; that of an NNAPI operation at the first node that it computes."""
        first = {nodes[0]: us for nodes, us in self.operations.items() if nodes}
        return {**first, **self.cpu_nodes}


def measured_times(model: ModelSource, options: Options, inputs: Inputs = ()) -> MeasuredTimes:
    """Runs the model with the first of the inputs and returns the times of its parts.

    inputs  as for `run` (default: random numbers)

    ONNX Runtime optimizes it at level basic, and the partition is maximal, as in the report.
    Raises ModelError, OptionError and RuntimeFailure.
    """
    settings = exact_options()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    settings.enable_profiling = True
    runs: list[list[RunEvent]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        fixed_model(source(model), options) as (static, rest),
    ):
        settings.profile_file_prefix = str(Path(folder, "profile"))
        shown = replace(rest, partitioning=rest.partitioning.whole)
        provider, session = nnapi_session(static, shown, settings)
        (fed, *_) = feeds_of(static, session, inputs, _SEED).runs

        def run() -> None:
            events: list[RunEvent] = []
            runs.append(events)
            provider.listeners.append(events.extend)
            outputs_of(session, fed, provider)
            provider.listeners.remove(events.extend)

        count = measured(run).runs
        profile = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    clusters, operations = zip(*map(_clusters_and_operations, runs[1:]), strict=True)
    return MeasuredTimes(
        _medians(clusters),
        _medians(operations),
        _medians(_cpu_nodes(profile)[1:]),
        device_times(provider),
        count,
    )


def _clusters_and_operations(
    events: Iterable[RunEvent],
) -> tuple[dict[Nodes, float], dict[Nodes, float]]:
    """Returns the times of the clusters and of the NNAPI operations of one run."""
    clusters, operations = defaultdict[Nodes, float](float), defaultdict[Nodes, float](float)
    began: dict[Nodes, int] = {}
    for event in events:
        if event.name == INPUTS:
            began[event.nodes] = event.start_ns
        elif event.name == OUTPUTS:
            clusters[event.nodes] += (event.end_ns - began.pop(event.nodes)) / 1000
        else:
            found = clusters if event.name == WHOLE_CLUSTER else operations
            found[event.nodes] += (event.end_ns - event.start_ns) / 1000
    return clusters, operations


def _cpu_nodes(profile: Sequence[Mapping[str, object]]) -> list[dict[str, float]]:
    """Returns the times of nodes on the CPU provider by run, from ONNX Runtime's profile."""
    starts = sorted(_number(e["ts"]) for e in profile if e.get("name") == "model_run")
    found: list[dict[str, float]] = [defaultdict(float) for _ in starts]
    for event in profile:
        args, name = event.get("args"), str(event.get("name"))
        provider = args.get("provider") if isinstance(args, dict) else None
        if provider not in (None, EP_NAME) and name.endswith(_KERNEL_TIME):
            run = bisect(starts, _number(event["ts"])) - 1
            found[run][name.removesuffix(_KERNEL_TIME)] += _number(event["dur"])
    return found


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _medians(runs: Sequence[Mapping[_Key, float]]) -> dict[_Key, float]:
    keys = dict.fromkeys(key for run in runs for key in run)
    return {key: median(run.get(key, 0.0) for run in runs) for key in keys}
