"""The device nnapi-reference: every operation on the CPU, by the numpy kernels of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.host.cache import cached
from ep_nnapi.nnapi.host.graph import Preparation, PreparedGraph
from ep_nnapi.nnapi.host.kernels import find
from ep_nnapi.nnapi.host.site import locate
from ep_nnapi.nnapi.host.together import TOGETHER
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, CompileOptions


@dataclass(frozen=True, slots=True)
class ReferenceDevice:
    """The device that every host runtime has.

    relaxed   what becomes of float32 results in models with the relaxed flag: they stay ("fp32"),
              as on Android's CPU, or are rounded ("fp16"), as an accelerator may
    """

    name: str = REFERENCE_DEVICE
    type: DeviceCode = DeviceCode.CPU
    version: str = "1"
    feature_level: int = 8
    relaxed: Literal["fp32", "fp16"] = "fp32"

    def supported(self, model: Model) -> tuple[bool, ...]:
        """For each operation, whether there is a kernel for its types."""
        sites = (locate(o, model.operands, self.feature_level) for o in model.operations)
        return tuple(find(at.operation.spec, at.code) is not None for at in sites)

    def prepare(self, model: Model, options: CompileOptions) -> PreparedGraph:
        """Binds a kernel to every operation; of the options, only the cache changes anything."""
        halves = model.relaxed and self.relaxed == "fp16"
        with TOGETHER, cached(options, self.name, self) as cache:
            return PreparedGraph(model, Preparation(self.feature_level, halves, cache))
