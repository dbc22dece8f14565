"""The device nnapi-reference: every operation on the CPU, by the numpy kernels of this package."""

from __future__ import annotations

from dataclasses import dataclass

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.host.cache import cached
from ep_nnapi.nnapi.host.graph import Preparation, PreparedGraph
from ep_nnapi.nnapi.host.kernels import find
from ep_nnapi.nnapi.host.room import has_room
from ep_nnapi.nnapi.host.site import locate
from ep_nnapi.nnapi.host.together import TOGETHER
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, CompileOptions
from ep_nnapi.nnapi.spec import LSH_PROJECTION


@dataclass(frozen=True, slots=True)
class ReferenceDevice:
    """The device that every host runtime has."""

    name: str = REFERENCE_DEVICE
    type: DeviceCode = DeviceCode.CPU
    version: str = "1"
    feature_level: int = 8

    def supported(self, model: Model) -> tuple[bool, ...]:
        """For each operation, whether there is a kernel for its types and it has room to run."""
        sites = (locate(o, model.operands, self.feature_level) for o in model.operations)
        return tuple(
            find(at.operation.spec, at.code) is not None and has_room(at, model.operands)
            for at in sites
        )

    def prepare(self, model: Model, options: CompileOptions) -> PreparedGraph:
        """Binds a kernel to every operation; relaxed models become halves, or stay precise."""
        hashing = any(o.spec is LSH_PROJECTION for o in model.operations)  # the bytes of float32
        halves = model.relaxed and not options.precise and not hashing
        with TOGETHER, cached(options, self.name, self) as cache:
            return PreparedGraph(model, Preparation(self.feature_level, halves, cache))
