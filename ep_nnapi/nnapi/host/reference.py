"""Reference device nnapi-reference: all operations on the CPU with numpy kernels."""

from __future__ import annotations

from dataclasses import dataclass

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.digest import with_token
from ep_nnapi.nnapi.host.cache import cached
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.host.kernels import find
from ep_nnapi.nnapi.host.named_operation import name_operands
from ep_nnapi.nnapi.host.prepared_graph import Preparation, PreparedGraph
from ep_nnapi.nnapi.host.scratch_limit import fits_scratch_limit
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, CompileOptions
from ep_nnapi.nnapi.shapes.scratch import SCRATCH
from ep_nnapi.nnapi.spec import LSH_PROJECTION


@dataclass(frozen=True, slots=True)
class ReferenceDevice:
    """CPU device, the default device of the host runtime."""

    name: str = REFERENCE_DEVICE
    type: DeviceCode = DeviceCode.CPU
    version: str = "1"
    feature_level: int = 8

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool per operation: True if it has a kernel for its types and enough memory."""
        return tuple(self._supports(model, n) for n in range(len(model.operations)))

    def _supports(self, model: Model, n: int) -> bool:
        operation, match = model.operations[n], model.match(n, self.feature_level)
        if find(operation.spec, match.typing.types.get("T")) is None:
            return False
        return operation.spec not in SCRATCH or fits_scratch_limit(
            name_operands(operation, match, model.operands), model.operands
        )

    def prepare(self, model: Model, options: CompileOptions) -> PreparedGraph:
        """Bind kernels to all operations; relaxed models emulate float16 unless `precise`."""
        hashing = any(o.spec is LSH_PROJECTION for o in model.operations)  # hashes float32 bytes
        emulate_float16 = model.relaxed and not options.precise and not hashing
        named = with_token(options, model)
        with CONCURRENT_RUNS, cached(named, self.name, self) as cache:
            return PreparedGraph(model, Preparation(self.feature_level, emulate_float16, cache))
