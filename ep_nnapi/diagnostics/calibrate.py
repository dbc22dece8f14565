"""Calibration of the cost model by measuring a device and the CPU provider: `calibrate`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import TypeAlias

from onnxruntime import InferenceSession

from ep_nnapi.costs.calibration import Calibration
from ep_nnapi.costs.cost_model import CostClass, CostModel, Rates
from ep_nnapi.diagnostics.check import open_session, provider_of_session, quiet_options
from ep_nnapi.diagnostics.probe_models import LARGE, LONG, SHORT, SMALL, Probe, chain, family_probes
from ep_nnapi.diagnostics.session_runs import outputs_of
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import HOST, Options, parse
from ep_nnapi.options.values import Fallback
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.provider.devices import choose_device, open_runtime
from ep_nnapi.provider.provider import Provider
from ep_nnapi.sessions.cpu import CPU

Progress: TypeAlias = Callable[[int, int], None]
Key: TypeAlias = tuple[int, int] | CostClass
"""Identifies a probe: the size and length of a chain, or an operator family."""
Times: TypeAlias = Mapping[Key, float]
"""Microseconds per run of each probe; without the probes that the device does not support."""

_MEASURE_SECONDS = 0.25  # for each of 22 sessions: about six seconds in all
_MIN_RUNS = 2  # minimum number of runs


def calibrate(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    runtime: str = HOST,
    progress: Progress | None = None,
) -> Calibration:
    """Measures a device and the CPU provider, and writes calibration.json to `path`.

    device   name of the device (default: the runtime's choice)
    progress called with the number of measured sessions and of all
    Takes several seconds, in ordinary ONNX Runtime sessions; the machine should be idle. The write
    is atomic. Raises OptionError (there is no such device, it cannot run the probes, or `path`
    cannot be written) and RuntimeFailure.
    """
    calibration = measure_costs(device, runtime, progress)
    calibration.write(path)
    return calibration


def measure_costs(
    device: str | None, runtime: str, progress: Progress | None = None
) -> Calibration:
    """Returns the calibration of a device on this machine; see `calibrate`."""
    options = parse({"device": device, "runtime": runtime, "fallback": Fallback.NONE})
    opened = open_runtime(options.runtime)
    flags = options.lowering_target(opened.feature_level).flags
    chosen = choose_device(opened, options.device, flags)
    found = probes()
    done = count(1)

    def advance() -> None:
        if progress is not None:
            progress(next(done), 2 * len(found))

    times = measured(found, options, advance)
    if any((size, length) not in times for size in (SMALL, LARGE) for length in (SHORT, LONG)):
        raise OptionError(f"device {chosen.name} does not add floats: there is nothing to measure")
    model = fit(found, measured(found, None, advance), times)
    return Calibration.of(options.runtime, chosen, model)


def probes() -> dict[Key, Probe]:
    """Returns all probe models to measure."""
    found: dict[Key, Probe] = dict(family_probes())
    found.update({(s, n): chain(n, s) for s in (SMALL, LARGE) for n in (SHORT, LONG)})
    return found


def measured(
    found: Mapping[Key, Probe], options: Options | None, advance: Callable[[], None] | None = None
) -> dict[Key, float]:
    """Returns the probes' times on NNAPI under `options`, or on the CPU provider if None.

    advance   called before each probe
    """
    times = {}
    for key, probe in found.items():
        if advance is not None:
            advance()
        if options is None:
            times[key] = _fastest(open_session(probe.model, quiet_options(), [CPU]), probe)
            continue
        register()
        with provider_of_session(options) as (strings, opened):
            session = open_session(probe.model, quiet_options(), [(EP_NAME, strings), CPU])
            provider = opened()
        if provider.report.taken == provider.report.nodes:
            times[key] = _fastest(session, probe, provider)
    return times


def _fastest(session: InferenceSession, probe: Probe, provider: Provider | None = None) -> float:
    """Returns the microseconds of the fastest run, as other load only makes runs slower."""
    feeds = probe.feeds
    outputs_of(session, feeds, provider)
    best, runs, began = float("inf"), 0, perf_counter()
    while runs < _MIN_RUNS or perf_counter() - began < _MEASURE_SECONDS:
        start = perf_counter()
        outputs_of(session, feeds, provider)
        best, runs = min(best, perf_counter() - start), runs + 1
    return best * 1e6


def fit(found: Mapping[Key, Probe], cpu: Times, nnapi: Times) -> CostModel:
    """Returns the cost model fitted to the measured times.

    A chain's time is a start time plus a step time for each node. The step time with small tensors
    is the cost per node, and its increase with large tensors the cost per byte. The start time on
    NNAPI less that on the CPU is the cost per cluster, and its increase with large tensors the cost
    per byte of the cluster's inputs and outputs. The rest of a family probe's time is the cost per
    multiply-accumulate (MAC). No cost is negative.
    """
    here, there = _floor(found, cpu), _floor(found, nnapi)
    more = {size: there.start[size] - here.start[size] for size in (SMALL, LARGE)}
    crossing = {size: found[size, SHORT].border for size in (SMALL, LARGE)}
    per_byte = _ratio(more[LARGE] - more[SMALL], crossing[LARGE] - crossing[SMALL])
    per_cluster = max(0.0, more[SMALL] - crossing[SMALL] * per_byte)
    on_cpu, on_nnapi = {}, {}
    for family in CostClass:
        probe = found[family]
        on_cpu[family] = here.per_mac(probe, cpu[family] - here.start[SMALL])
        # unused for families that the device does not support, so any number will do
        on_nnapi[family] = on_cpu[family]
        if family in nnapi:
            outside = here.start[SMALL] + per_cluster + probe.border * per_byte
            on_nnapi[family] = there.per_mac(probe, nnapi[family] - outside)
    return CostModel(
        Rates(here.per_node, here.per_byte, on_cpu),
        Rates(there.per_node, there.per_byte, on_nnapi),
        per_byte,
        per_cluster,
    )


@dataclass(frozen=True, slots=True)
class _Floor:
    """Costs of a provider found from chains; `start` is the time before the first node, by size."""

    start: Mapping[int, float]
    per_node: float
    per_byte: float

    def per_mac(self, probe: Probe, time: float) -> float:
        """Returns the time per MAC of a probe whose nodes take `time` in all."""
        known = self.per_node * len(probe.grouped_nodes) + self.per_byte * probe.bytes
        return _ratio(time - known, probe.macs)


def _floor(found: Mapping[Key, Probe], times: Times) -> _Floor:
    step = {s: (times[s, LONG] - times[s, SHORT]) / (LONG - SHORT) for s in (SMALL, LARGE)}
    moved = {s: found[s, SHORT].bytes for s in (SMALL, LARGE)}
    per_byte = _ratio(step[LARGE] - step[SMALL], moved[LARGE] - moved[SMALL])
    start = {s: times[s, SHORT] - SHORT * step[s] for s in (SMALL, LARGE)}
    return _Floor(start, max(0.0, step[SMALL] - moved[SMALL] * per_byte), per_byte)


def _ratio(time: float, count: float) -> float:
    return max(0.0, time / count)
