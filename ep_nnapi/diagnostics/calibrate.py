"""Calibration of the cost model by measuring a device and the CPU provider: `calibrate`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise, product
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import numpy as np
from onnx import numpy_helper, parser
from onnxruntime import GraphOptimizationLevel, InferenceSession

from ep_nnapi.costs import Calibration, CostClass, CostModel, Rates, cost_class, work
from ep_nnapi.diagnostics.check import partitioned_at
from ep_nnapi.diagnostics.model_sources import ModelSource, ProgressCallback
from ep_nnapi.diagnostics.session_runs import (
    nnapi_session,
    open_session,
    outputs_of,
    read_graphs,
    source,
)
from ep_nnapi.graph.dag import bytes_of
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.clock import run_time
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import require_writable
from ep_nnapi.nnapi.profile.device import Profile
from ep_nnapi.nnapi.profile.file import write
from ep_nnapi.nnapi.profile.record import RecordingRuntime, record
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.table import DEFAULT_RUNTIME, HOST, Options, parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.options.values import Fallback
from ep_nnapi.provider.devices import choose_device, open_runtime, runtime_of
from ep_nnapi.provider.provider import Provider
from ep_nnapi.quantization.propagate import propagate_quantization
from ep_nnapi.sessions.cpu import quiet_options

SMALL, LARGE = 64, 1 << 17  # floats: negligible, and typical of mobile networks
SHORT, LONG = 1, 9  # additions in a chain


@dataclass(frozen=True, slots=True)
class Chain:
    """A model of a sequence of nodes from one input to one output.

    feeds           input data: evenly spaced small numbers
    border          size of the input and the output, in bytes
    grouped_nodes   the nodes as the cost model counts them, with a QDQ group as one node
    """

    model: bytes
    feeds: Mapping[str, Array]
    border: int
    grouped_nodes: tuple[GraphNode, ...]

    @staticmethod
    def of(x: str, y: str, nodes: str, **constants: Array) -> Chain:
        """Returns the model of nodes from x to y; these and the types are in ONNX's text format."""
        head = '<ir_version: 8, opset_import: ["": 17]> probe'
        proto = parser.parse_model(f"{head} ({x} x) => ({y} y) {{ {nodes} }}")
        tensors = (numpy_helper.from_array(array, name) for name, array in constants.items())
        proto.graph.initializer.extend(tensors)
        model, graphs = bytes(proto.SerializeToString()), list[Graph]()
        read_graphs(model, lambda graph: graphs.append(propagate_quantization(graph)))
        (given,), (made,) = graphs[0].inputs, graphs[0].outputs
        numbers = np.linspace(0, 1, int(np.prod(given.shape)), dtype=np.float32)
        numbers = numbers.reshape(given.shape) * (200 if given.dtype is DType.UINT8 else 1)
        feeds = {"x": numbers.astype(given.dtype.numpy)}
        return Chain(model, feeds, bytes_of(given) + bytes_of(made), graphs[0].nodes)

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of all nodes."""
        return sum(work(n).macs for n in self.grouped_nodes)

    @property
    def bytes(self) -> int:
        """Number of bytes that all nodes read and write."""
        return sum(work(n).bytes for n in self.grouped_nodes)


def chain(length: int, size: int) -> Chain:
    """Returns a chain of `length` additions: x + x, + x and so on, with `size` floats."""
    names = ["x", *(f"sum{i}" for i in range(1, length)), "y"]
    sums = (f"{after} = Add(x, {before})" for before, after in pairwise(names))
    return Chain.of(f"float[{size}]", f"float[{size}]", "\n".join(sums))


_LSTM = "y = LSTM<hidden_size = 64>(x, w, r)"
_GROUP = """
a = DequantizeLinear(x, s, z)
b = DequantizeLinear(w, s, z)
c = Conv<pads = [1, 1, 1, 1]>(a, b)
y = QuantizeLinear(c, s, z)
"""


def family_probes() -> Iterator[tuple[CostClass, Chain]]:
    """Yields a probe for each operator family, with sizes typical of mobile networks."""
    pads, sequence = "pads = [1, 1, 1, 1]", ("float[16,1,64]", "float[16,1,1,64]")
    rows, lstm = ("float[64,256]", "float[64,512]"), np.full((1, 256, 64), 0.01, np.float32)
    stored = (np.arange(32 * 32 * 9) % 200).astype(np.uint8).reshape(32, 32, 3, 3)
    scale, zero = np.array(0.02, np.float32), np.array(100, np.uint8)
    image, pixels = ("float[1,32,56,56]",) * 2, ("uint8[1,32,56,56]",) * 2
    conv, grouped = f"y = Conv<{pads}>(x, w)", f"y = Conv<{pads}, group = 32>(x, w)"
    for family, probe in (
        (CostClass.CONVOLUTION, Chain.of(*image, conv, w=_weights(32, 32, 3, 3))),
        (CostClass.DEPTHWISE, Chain.of(*image, grouped, w=_weights(32, 1, 3, 3))),
        (CostClass.PRODUCT, Chain.of(*rows, "y = MatMul(x, w)", w=_weights(256, 512))),
        (CostClass.RECURRENT, Chain.of(*sequence, _LSTM, w=lstm, r=lstm)),
        (CostClass.QUANTIZED, Chain.of(*pixels, _GROUP, w=stored, s=scale, z=zero)),
        (CostClass.FUNCTION, Chain.of(*image, "y = Sigmoid(x)")),
        (CostClass.OTHER, Chain.of(*image, "y = Mul(x, w)", w=_weights(32, 1, 1))),
    ):
        if {cost_class(n) for n in probe.grouped_nodes} != {family}:
            raise AssertionError(f"the probe of {family} is of another family")
        yield family, probe


def _weights(*shape: int) -> Array:
    """Returns small varied numbers."""
    return (np.arange(np.prod(shape), dtype=np.float32) % 17 / 16 - 0.4).reshape(shape)


Key: TypeAlias = tuple[int, int] | CostClass
"""Identifies a probe: the size and length of a chain, or an operator family."""
Times: TypeAlias = Mapping[Key, float]
"""Microseconds per run of each probe; without the probes that the device does not support."""

_MEASURE_SECONDS = 0.25  # for each of 22 sessions: about six seconds in all
_MIN_RUNS = 2  # minimum number of runs


@checked_arguments
def calibrate(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    runtime: str = HOST,
    progress: ProgressCallback | None = None,
) -> Calibration:
    """Measures a device and the CPU provider, and writes calibration.json to `path`.

    device   name of the device (default: the runtime's choice)
    progress called with the number of measured sessions and of all
    Takes several seconds, in ordinary ONNX Runtime sessions; the machine should be idle. The write
    is atomic. Raises OptionError (there is no such device, it cannot run the probes, or `path`
    cannot be written) and RuntimeFailure.
    """
    require_writable(os.fspath(path), "output")
    calibration = measure_costs(device, runtime, progress)
    calibration.write(path)
    return calibration


def measure_costs(
    device: str | None, runtime: str, progress: ProgressCallback | None = None
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


def probes() -> dict[Key, Chain]:
    """Returns all probe models to measure."""
    found: dict[Key, Chain] = dict(family_probes())
    found.update({(s, n): chain(n, s) for s in (SMALL, LARGE) for n in (SHORT, LONG)})
    return found


def measured(
    found: Mapping[Key, Chain], options: Options | None, advance: Callable[[], None] | None = None
) -> dict[Key, float]:
    """Returns the probes' times on NNAPI under `options`, or on the CPU provider if None.

    advance   called before each probe
    """
    times = {}
    for key, probe in found.items():
        if advance is not None:
            advance()
        if options is None:
            times[key] = _fastest(open_session(probe.model, quiet_options()), probe)
            continue
        provider, session = nnapi_session(probe.model, options, quiet_options())
        if provider.report.taken == provider.report.nodes:
            times[key] = _fastest(session, probe, provider)
    return times


def _fastest(session: InferenceSession, probe: Chain, provider: Provider | None = None) -> float:
    """Returns the microseconds of the fastest run, as other load only makes runs slower."""
    feeds = probe.feeds
    outputs_of(session, feeds, provider)
    best, runs, began = float("inf"), 0, perf_counter()
    while runs < _MIN_RUNS or perf_counter() - began < _MEASURE_SECONDS:
        start = run_time()
        outputs_of(session, feeds, provider)
        best, runs = min(best, run_time() - start), runs + 1
    return best * 1e6


def fit(found: Mapping[Key, Chain], cpu: Times, nnapi: Times) -> CostModel:
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

    def per_mac(self, probe: Chain, time: float) -> float:
        """Returns the time per MAC of a probe whose nodes take `time` in all."""
        known = self.per_node * len(probe.grouped_nodes) + self.per_byte * probe.bytes
        return _ratio(time - known, probe.macs)


def _floor(found: Mapping[Key, Chain], times: Times) -> _Floor:
    step = {s: (times[s, LONG] - times[s, SHORT]) / (LONG - SHORT) for s in (SMALL, LARGE)}
    moved = {s: found[s, SHORT].bytes for s in (SMALL, LARGE)}
    per_byte = _ratio(step[LARGE] - step[SMALL], moved[LARGE] - moved[SMALL])
    start = {s: times[s, SHORT] - SHORT * step[s] for s in (SMALL, LARGE)}
    return _Floor(start, max(0.0, step[SMALL] - moved[SMALL] * per_byte), per_byte)


def _ratio(time: float, count: float) -> float:
    return max(0.0, time / count)


_FLAGS = (NnapiFlag.NONE, NnapiFlag.USE_FP16, NnapiFlag.USE_NCHW)
"""Flags with which given models are partitioned, so that a device is asked about their operations.
"""


@checked_arguments
def record_profile(
    path: str | os.PathLike[str],
    models: Sequence[ModelSource] = (),
    *,
    runtime: str = DEFAULT_RUNTIME,
    device: str | None = None,
    times: bool = False,
    progress: ProgressCallback | None = None,
) -> Profile:
    """Asks a device which operations it supports, and writes a device profile to `path`.

    models    models whose very operations are recorded too, so that their answers are exact
    runtime   as the option `runtime`
    device    as the option `device` (default: the runtime's choice)
    times     True to also measure the device and the CPU provider beside it, as `calibrate` does;
              sessions with the profile estimate by these times
    progress  called with the number of measured sessions and of all
    Takes a minute or so. Without `times` the device is only asked: it compiles the models, and runs
    nothing. Raises OptionError (no such device, nothing that can be measured, `path` cannot be
    written), ModelError and RuntimeFailure.
    """
    require_writable(os.fspath(path), "output")
    options = parse({"runtime": runtime, "device": device})
    opened = runtime_of(options)
    chosen = choose_device(opened, options.device, NnapiFlag.NONE)
    recording = RecordingRuntime(opened)
    for model, flags in product(map(source, models), _FLAGS):
        asked = replace(options, device=chosen.name, flags=flags)
        partitioned_at(model, asked, GraphOptimizationLevel.ORT_ENABLE_BASIC, recording)
    measured = measure_costs(chosen.name, options.runtime, progress).to_json() if times else None
    profile = replace(record(opened, chosen, recording.exact), calibration=measured)
    write(profile, Path(path))
    return profile
