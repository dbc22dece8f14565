"""Costs: the work of nodes, microseconds for it on the CPU provider and on NNAPI, calibrations.

A calibration (calibration.json) is valid only for the device and the machine where it was measured.
Measurements of a desktop are never used to plan for a phone.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from math import isfinite, prod
from pathlib import Path
from typing import TypeAlias, TypeVar

from ep_nnapi.graph.dag import bytes_of, inputs_of, outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.errors import OptionError, module_logger
from ep_nnapi.nnapi.files import read_regular, write_output
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.operators import OPS
from ep_nnapi.options.table import HOST, SYSTEM, Options
from ep_nnapi.options.target import RuleSet
from partitioner import Costs

logger = module_logger(__name__)
T = TypeVar("T")
Shape: TypeAlias = tuple[int, ...]


class CostClass(StrEnum):
    """Operator families with about the same time per multiply-accumulate.

    quantized   convolutions and matrix products of 8-bit tensors
    function    element-wise functions such as exp: work is counted in elements
    other       element-wise arithmetic and data movement: work is counted in elements
    """

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    PRODUCT = "product"
    RECURRENT = "recurrent"
    QUANTIZED = "quantized"
    FUNCTION = "function"
    OTHER = "other"


@frozen
class Work:
    """Multiply-accumulates, and bytes read and written (including weights)."""

    macs: int = 0
    bytes: int = 0


def work(node: GraphNode) -> Work:
    """Returns the work of a node; unknown dimensions count as 1."""
    weights = sum(bytes_of(v) for v in node.inputs if v is not None and v.constant is not None)
    moved = sum(bytes_of(v) for v in (*inputs_of(node), *outputs_of(node)))
    shapes = [_shape(v) for v in node.inputs]
    out = _shape(next(iter(outputs_of(node)), None))
    _, count = MACS.get(node.op_type, (CostClass.OTHER, None))
    return Work(count(shapes, out) if count and len(shapes) > 1 else prod(out), moved + weights)


def cost_class(node: GraphNode) -> CostClass:
    """Returns the family of a node, from its operator, data types and convolution groups."""
    if node.op_type in FUNCTIONS:
        return CostClass.FUNCTION
    family, _ = MACS.get(node.op_type, (CostClass.OTHER, None))
    if family in (CostClass.OTHER, CostClass.RECURRENT):
        return family
    if node.quantized or node.op_type.startswith("QLinear"):
        return CostClass.QUANTIZED
    filters = _shape(node.inputs[1]) if len(node.inputs) > 1 else ()
    depthwise = family is CostClass.CONVOLUTION and node.attributes.get("group", 1) != 1
    return CostClass.DEPTHWISE if depthwise and filters[1:2] == (1,) else family


def _shape(value: Value | None) -> Shape:
    if value is None or value.dims is None:
        return ()
    return tuple(d if isinstance(d, int) else 1 for d in value.dims)


def _convolution(inputs: list[Shape], out: Shape) -> int:
    """Counts for each output element one filter [C / group, kH, kW]."""
    return prod(out) * prod(inputs[1][1:])


def _transposed(inputs: list[Shape], out: Shape) -> int:
    """Counts for each input element one filter [O / group, kH, kW]."""
    return prod(inputs[0]) * prod(inputs[1][1:])


def _product(inputs: list[Shape], out: Shape) -> int:
    """Counts for each output element the size of the inner dimension."""
    return prod(out) * (prod(inputs[0]) // max(1, prod(inputs[0][:-1])))


def _recurrent(inputs: list[Shape], out: Shape) -> int:
    """Counts for each step and batch entry the input weights and the recurrent weights."""
    steps = prod(inputs[0][:2])
    return steps * sum(prod(s) for s in inputs[1:3])


MACS: Mapping[str, tuple[CostClass, Callable[[list[Shape], Shape], int]]] = {
    "Conv": (CostClass.CONVOLUTION, _convolution),
    "FusedConv": (CostClass.CONVOLUTION, _convolution),
    "QLinearConv": (CostClass.CONVOLUTION, _convolution),
    "ConvTranspose": (CostClass.CONVOLUTION, _transposed),
    "Gemm": (CostClass.PRODUCT, _product),
    "MatMul": (CostClass.PRODUCT, _product),
    "FusedMatMul": (CostClass.PRODUCT, _product),
    "MatMulNBits": (CostClass.PRODUCT, _product),
    "DynamicQuantizeLSTM": (CostClass.RECURRENT, _recurrent),
    "LSTM": (CostClass.RECURRENT, _recurrent),
    "GRU": (CostClass.RECURRENT, _recurrent),
    "RNN": (CostClass.RECURRENT, _recurrent),
}
"""Counting functions by operator; for all others the work is the number of output elements."""

FUNCTIONS = frozenset(o.op_type for o in OPS if o.function)
"""Operators that compute a function of each element, mostly with exp."""


@frozen
class Rates:
    """Costs of one provider in microseconds.

    per_node   for each node that runs
    per_byte   for each byte read or written
    per_mac    for each multiply-accumulate, by operator family
    """

    per_node: float
    per_byte: float
    per_mac: Mapping[CostClass, float]

    def time(self, node: GraphNode) -> float:
        """Returns the estimated time of a node; `per_node` alone if its work cannot be counted."""
        try:
            done = work(node)
        except Exception:  # a bug in one operator's count must not abort planning
            logger.exception("the work of %s (%s) cannot be counted", node.name, node.op_type)
            return self.per_node
        macs = done.macs * self.per_mac[cost_class(node)]
        return self.per_node + done.bytes * self.per_byte + macs


@frozen
class CostModel:
    """Costs of running nodes on the CPU provider or on NNAPI, in microseconds.

    cpu, nnapi   rates of the two providers
    per_byte     for each byte of a tensor that enters or leaves a cluster
    per_cluster  for each run of a cluster
    """

    cpu: Rates
    nnapi: Rates
    per_byte: float
    per_cluster: float

    def costs(self, nodes: Iterable[GraphNode]) -> Costs:
        """Returns the costs of a graph's nodes, by node id."""
        here: dict[Hashable, float] = {}
        there: dict[Hashable, float] = {}
        for node in nodes:
            here[node.id] = self.cpu.time(node)
            there[node.id] = self.nnapi.time(node)
        return Costs(here, there, self.per_byte, self.per_cluster)


def mean(costs: Sequence[Costs]) -> Costs:
    """Returns the mean costs of the same nodes, of several sizes."""
    first, count = costs[0], len(costs)
    here, there = (
        {node: sum(side[node] for side in sides) / count for node in sides[0]}
        for sides in ([c.here for c in costs], [c.there for c in costs])
    )
    return Costs(here, there, first.per_byte, first.per_cluster)


def _uniform(per_mac: float) -> dict[CostClass, float]:
    return dict.fromkeys(CostClass, per_mac)


PHONE = CostModel(
    cpu=Rates(per_node=2.0, per_byte=1e-4, per_mac=_uniform(5e-5)),
    nnapi=Rates(per_node=2.0, per_byte=1e-4, per_mac=_uniform(1e-5)),
    per_byte=5e-4,
    per_cluster=500.0,
)
"""The default model without a calibration: a phone whose accelerator is five times as fast.

The numbers are round because the partitioning depends on their ratios alone:
- the CPU provider computes 20 G multiply-accumulates per second (a few big cores with two 4-wide
  vector operations per cycle at 50 % efficiency), the accelerator 100 G;
- both share the same memory at 10 GB/s, with an overhead of 2 us per node;
- a byte that enters or leaves a cluster costs as much as five bytes inside: it is copied to memory
  shared with the driver's process, and caches are written back, at about 2 GB/s;
- a run of a cluster costs half a millisecond of latency, as the driver is another process. Android
  tells driver vendors that a few milliseconds would make users prefer the CPU.
A single cluster is therefore faster on NNAPI from about 12 million multiply-accumulates on:
MobileNet (300 million) is, a small digit classifier is not.
Source: source.android.com, NNAPI driver implementation best practices, "Reduce minimal latency".
"""


VERSION = 1
_AGAIN = "measure again with ep-nnapi devices --calibrate"


@frozen
class Calibration:
    """A measured cost model, with the device and machine it was measured on.

    runtime         "host" for this package's own runtime, "system" for any other
    device          name of the device
    device_version  version of the device
    feature_level   feature level of the device
    machine         the computer, as named by `this_machine`
    model           the measured costs
    """

    runtime: str
    device: str
    device_version: str
    feature_level: int
    machine: str
    model: CostModel

    @staticmethod
    def of(runtime: str, device: Device, model: CostModel) -> Calibration:
        """Returns the calibration for a model that was measured on `device` on this machine."""
        kind = _kind(runtime)
        level = device.feature_level
        return Calibration(kind, device.name, device.version, level, this_machine(), model)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file atomically; raises OptionError if it cannot be written."""
        write_output(Path(path), json.dumps(self.to_json(), indent=1) + "\n")

    def to_json(self) -> dict[str, object]:
        """Returns the content of calibration.json as JSON-serializable data."""
        return {"version": VERSION, **asdict(self)}

    def mismatch(self, options: Options, device: Device) -> str | None:
        """Returns why the calibration is invalid for these options and `device`; None if valid."""
        phone = options.target is RuleSet.BUILTIN or _kind(options.runtime) != HOST
        if phone and self.runtime == HOST:
            wanted = "target builtin-nnapi" if options.target is RuleSet.BUILTIN else "this runtime"
            return f"was measured on a desktop, and {wanted} is a phone's; give one measured there"
        if options.target is RuleSet.BUILTIN and _kind(options.runtime) == HOST:
            return None  # measured on a phone; used to prepare models for it on this host
        if (self.runtime, self.device) != (_kind(options.runtime), device.name):
            return (
                f"is about device {self.device} of runtime {self.runtime}, not {device.name}; "
                "measure this one"
            )
        if self.device_version != device.version:
            return (
                f"is about version {self.device_version} of {device.name}, "
                f"which has {device.version} now; {_AGAIN}"
            )
        if self.machine != this_machine():
            return f"was measured on another machine ({self.machine}); measure this one"
        return None


def cost_model(
    options: Options, device: Device, recorded: Mapping[str, object] | None = None
) -> CostModel:
    """Returns the cost model for estimates: of the option `calibration` if set, else `PHONE`.

    recorded   content of the calibration in the options' device profile, which comes before `PHONE`
    Raises OptionError if the file cannot be read, has another version or is not for `device`.
    """
    if options.calibration is None:
        return PHONE if recorded is None else _recorded_model(options, device, recorded)
    path = Path(options.calibration)
    calibration = read(path)
    mismatch = calibration.mismatch(options, device)
    if mismatch is not None:
        raise OptionError(f"calibration {path} {mismatch}, or drop the option")
    return calibration.model


def _recorded_model(options: Options, device: Device, recorded: Mapping[str, object]) -> CostModel:
    """Returns the costs that were measured with a profile's device, on whichever machine."""
    where = f"the calibration in device profile {options.device_profile}"
    try:
        found = _calibration(recorded)
    except (KeyError, TypeError, ValueError):
        raise OptionError(
            f"{where} is not valid; record it again with ep-nnapi profile --times"
        ) from None
    mismatch = found.mismatch(options, device) if options.target is RuleSet.BUILTIN else None
    if mismatch is not None:
        raise OptionError(f"{where} {mismatch} with the option calibration")
    return found.model


def read(path: Path) -> Calibration:
    """Returns the calibration stored in a file; raises OptionError with a one-sentence message."""
    try:
        data = json.loads(read_regular(path))
    except FileNotFoundError:
        raise OptionError(f"calibration {path}: no such file; {_AGAIN} {path}") from None
    except (OSError, RecursionError, ValueError) as error:
        why = f": {error.strerror}" if isinstance(error, OSError) else ""
        raise OptionError(f"calibration {path} cannot be read{why}; {_AGAIN} {path}") from None
    version = data.get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise OptionError(
            f"calibration {path} is of version {version}, not {VERSION}; {_AGAIN} {path}"
        )
    try:
        return _calibration(data)
    except (KeyError, TypeError, ValueError):
        raise OptionError(
            f"calibration {path} is not a calibration file; {_AGAIN} {path}"
        ) from None


def this_machine() -> str:
    """Returns a description of this machine: architecture, processor name and processor count."""
    return f"{platform.machine()} {_processor()}, {os.cpu_count()} processors"


def _kind(runtime: str) -> str:
    return HOST if runtime == HOST else SYSTEM


def _processor() -> str:
    """Returns the processor's name, from /proc/cpuinfo where it is available."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (value for key, _, value in (line.partition(":") for line in lines) if _names(key))
    return next(names, platform.processor()).strip()


def _names(key: str) -> bool:
    return key.strip() in ("model name", "Hardware")


def _calibration(data: Mapping[str, object]) -> Calibration:
    if data["version"] != VERSION:
        raise ValueError("no version")
    model = _typed(data["model"], dict)
    return Calibration(
        _typed(data["runtime"], str),
        _typed(data["device"], str),
        _typed(data["device_version"], str),
        int(_number(data["feature_level"])),
        _typed(data["machine"], str),
        CostModel(
            _rates(_typed(model["cpu"], dict)),
            _rates(_typed(model["nnapi"], dict)),
            _number(model["per_byte"]),
            _number(model["per_cluster"]),
        ),
    )


def _rates(data: Mapping[str, object]) -> Rates:
    per_mac = _typed(data["per_mac"], dict)
    rates = {f: _number(per_mac[f]) for f in CostClass}
    return Rates(_number(data["per_node"]), _number(data["per_byte"]), rates)


def _typed(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"not of type {kind.__name__}")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("not a number")
    if not isfinite(value) or value < 0:
        raise ValueError("not a cost")
    return float(value)
