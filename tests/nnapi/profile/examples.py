"""The example profiles of the package: of sample devices, and of a device of each feature level.

`python -m tests.nnapi.profile.examples` writes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ep_nnapi.nnapi.codes import HIGHEST_LEVEL, DeviceCode, OperandCode
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.prepared_graph import PreparedGraph
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.profile.device import Profile
from ep_nnapi.nnapi.profile.file import EXAMPLES, write
from ep_nnapi.nnapi.profile.form import OperationUse, uses
from ep_nnapi.nnapi.profile.record import record_all
from ep_nnapi.nnapi.profile.sample import Sample
from ep_nnapi.nnapi.runtime import CompileOptions

Rule = Callable[[OperationUse], bool]
"""True if a device supports an operation."""

_F32 = OperandCode.TENSOR_FLOAT32
_QUANTIZED = (OperandCode.TENSOR_QUANT8_ASYMM, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED)


@dataclass(frozen=True)
class SampleDevice:
    """A device that supports what its rule says, and computes as nnapi-reference."""

    name: str
    rule: Rule
    type: DeviceCode = DeviceCode.ACCELERATOR
    version: str = "1"
    feature_level: int = 8
    reference: ReferenceDevice = field(default_factory=ReferenceDevice)

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool for each operation: what the rule says."""
        return tuple(map(self.rule, uses(model)))

    def prepare(self, model: Model, options: CompileOptions) -> PreparedGraph:
        """Prepare a model for nnapi-reference."""
        return self.reference.prepare(model, options)


def everything(use: OperationUse) -> bool:
    """Support all operations."""
    return bool(use.spec.name)


def float_only(use: OperationUse) -> bool:
    """Support operations whose first operand is TENSOR_FLOAT32."""
    return use.inputs[0].type is _F32


def quantized_only(use: OperationUse) -> bool:
    """Support operations whose first operand, or a SELECT's second one, has 8 bits."""
    return use.inputs[1 if use.spec.name == "SELECT" else 0].type in _QUANTIZED


def minimal(use: OperationUse) -> bool:
    """Support ADD, CONCATENATION and CONV_2D of TENSOR_FLOAT32."""
    return use.spec.name in ("ADD", "CONCATENATION", "CONV_2D") and float_only(use)


_POINTWISE = ("ABS", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU", "RELU1", "RELU6", "SQRT")
_BINARY = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SUB")
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D")
_OTHERS = ("MEAN", "PAD", "PAD_V2", "PRELU", "RESHAPE", "RESIZE_BILINEAR", "SOFTMAX")


def float_engine(use: OperationUse) -> bool:
    """Support float32 networks in NHWC with constant weights, as engines for phone CPUs do."""
    name, named = use.spec.name, {p.name: o for p, o in use.named_inputs}
    known = (*_POINTWISE, *_BINARY, *_CONVOLUTIONS, *_POOLS, *_OTHERS)
    if name not in known or not float_only(use) or _scalar(named, "layout", False):
        return False
    if not all(isinstance(o.value, Data) for o in use.inputs if not o.type.tensor):
        return False
    weights = [o for n, o in named.items() if n in ("filter", "weights", "bias", "alpha", "axes")]
    weights += [o for n, o in named.items() if n in ("paddings", "shape")]
    if not all(isinstance(o.value, Data) for o in weights):
        return False
    judge = _CHECKS.get(name)
    return judge is None or judge(use, named)


def _pool(use: OperationUse, named: dict[str, Operand]) -> bool:
    """A window of one element takes no stride."""
    window = [_scalar(named, f"filter_{side}", 1) for side in ("width", "height")]
    strides = [_scalar(named, f"stride_{side}", 1) for side in ("width", "height")]
    return window != [1, 1] or max(strides) == 1


def _mean(use: OperationUse, named: dict[str, Operand]) -> bool:
    """The mean of images over rows and columns, whose axes are kept."""
    axes = sorted(int(i) for i in named["axes"].array)
    return axes == [1, 2] and len(use.inputs[0].dimensions) == len(use.outputs[0].dimensions) == 4


def _softmax(use: OperationUse, named: dict[str, Operand]) -> bool:
    return _scalar(named, "beta", 1.0) == 1 and _scalar(named, "axis", -1) == -1


def _prelu(use: OperationUse, named: dict[str, Operand]) -> bool:
    """A slope for each channel."""
    return bool(np.prod(named["alpha"].dimensions[:-1]) == 1)


def _resize(use: OperationUse, named: dict[str, Operand]) -> bool:
    half = _scalar(named, "half_pixel_centers", False)
    return bool(half) or not _scalar(named, "align_corners", False)


_CHECKS: dict[str, Callable[[OperationUse, dict[str, Operand]], bool]] = {
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "MEAN": _mean,
    "SOFTMAX": _softmax,
    "PRELU": _prelu,
    "RESIZE_BILINEAR": _resize,
}


def _scalar(
    named: dict[str, Operand], name: str, default: bool | int | float
) -> bool | int | float:
    value: bool | int | float = named[name].array.item() if name in named else default
    return value


RULES: dict[str, Rule] = {
    "sample-float": float_only,
    "sample-float-engine": float_engine,
    "sample-minimal": minimal,
    "sample-quant": quantized_only,
}
"""The rule of each sample device, by its name."""


def devices() -> list[SampleDevice]:
    """The devices that the examples are recorded from."""
    levels = range(1, HIGHEST_LEVEL + 1)
    by_level = [SampleDevice(f"level-{n}", everything, feature_level=n) for n in levels]
    return by_level + [SampleDevice(name, rule) for name, rule in RULES.items()]


def profiles(samples: Iterable[Sample] | None = None) -> list[Profile]:
    """The profiles of all example devices, recorded now."""
    runtimes = [HostRuntime([device], device.feature_level) for device in devices()]
    return record_all([(r, r.devices()[0]) for r in runtimes], samples)


def path_of(name: str) -> Path:
    """The file of the example device of that name."""
    return EXAMPLES / f"{name}.json.gz"


if __name__ == "__main__":
    for profile in profiles():
        write(profile, path_of(profile.device.name))
