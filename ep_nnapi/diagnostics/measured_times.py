"""Measured times of the clusters and nodes of a run: `report --measure`."""

from __future__ import annotations

import json
import tempfile
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeAlias, TypeVar

import onnxruntime

from ep_nnapi.diagnostics.check import source
from ep_nnapi.diagnostics.device_times import DeviceTime, device_times
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.latency import measured
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource
from ep_nnapi.diagnostics.run_and_compare import nnapi_session
from ep_nnapi.diagnostics.session_runs import feeds_of, outputs_of
from ep_nnapi.options.table import parse, to_strings
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.provider.run_events import INPUTS, OUTPUTS, WHOLE_CLUSTER, RunEvent
from ep_nnapi.sessions.cpu import exact_options
from ep_nnapi.sessions.custom_ops import custom_ops

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


def measured_times(
    model: ModelSource, options: Mapping[str, object], inputs: Inputs = ()
) -> MeasuredTimes:
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
        custom_ops(parse(options).custom_ops_library),
        fixed_model(source(model), options) as (static, rest),
    ):
        settings.profile_file_prefix = str(Path(folder, "profile"))
        chosen = parse(rest)
        shown = replace(chosen, partitioning=chosen.partitioning.whole)
        provider, session = nnapi_session(static, to_strings(shown), settings)
        (fed, *_) = feeds_of(static, session, inputs, _SEED).runs

        def run() -> None:
            events: list[RunEvent] = []
            runs.append(events)
            provider.listeners.append(events.extend)
            outputs_of(session, fed, provider)
            provider.listeners.remove(events.extend)

        count = measured(run).runs
        profile = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return MeasuredTimes(
        _medians([_clusters(events) for events in runs[1:]]),
        _medians([_operations(events) for events in runs[1:]]),
        _medians(_cpu_nodes(profile)[1:]),
        device_times(provider),
        count,
    )


def _clusters(events: Iterable[RunEvent]) -> dict[Nodes, float]:
    """Returns the times of the clusters of one run."""
    found: dict[Nodes, float] = defaultdict(float)
    began: dict[Nodes, int] = {}
    for event in events:
        if event.name == WHOLE_CLUSTER:
            found[event.nodes] += (event.end_ns - event.start_ns) / 1000
        elif event.name == INPUTS:
            began[event.nodes] = event.start_ns
        elif event.name == OUTPUTS:
            found[event.nodes] += (event.end_ns - began.pop(event.nodes)) / 1000
    return found


def _operations(events: Iterable[RunEvent]) -> dict[Nodes, float]:
    """Returns the times of the NNAPI operations of one run."""
    found: dict[Nodes, float] = defaultdict(float)
    for event in events:
        if event.name not in (WHOLE_CLUSTER, INPUTS, OUTPUTS):
            found[event.nodes] += (event.end_ns - event.start_ns) / 1000
    return found


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
