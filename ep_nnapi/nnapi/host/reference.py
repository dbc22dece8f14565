"""Reference device nnapi-reference: all operations on the CPU with numpy kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.host.named_operation import name_operands
from ep_nnapi.nnapi.host.scratch_limit import fits_scratch_limit
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, CompileOptions
from ep_nnapi.nnapi.shapes.scratch import SCRATCH
from ep_nnapi.nnapi.spec import LSH_PROJECTION

if TYPE_CHECKING:
    from ep_nnapi.nnapi.host.prepared_graph import PreparedGraph


@frozen
class ReferenceDevice:
    """CPU device, the default device of the host runtime."""

    name: str = REFERENCE_DEVICE
    type: DeviceCode = DeviceCode.CPU
    version: str = "1"
    feature_level: int = 8

    def supported(self, model: Model) -> tuple[bool, ...]:
        """One bool per operation: True if there is enough memory; all have kernels."""
        return tuple(
            operation.spec not in SCRATCH or self._fits(model, n)
            for n, operation in enumerate(model.operations)
        )

    def _fits(self, model: Model, n: int) -> bool:
        match = model.match(n, self.feature_level)
        named = name_operands(model.operations[n], match, model.operands)
        return fits_scratch_limit(named, model.operands)

    def prepare(self, model: Model, options: CompileOptions) -> PreparedGraph:
        """Bind kernels to all operations; relaxed models emulate float16 unless `precise`."""
        from ep_nnapi.nnapi.host.cache import cached
        from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
        from ep_nnapi.nnapi.host.prepared_graph import Preparation, PreparedGraph  # all kernels
        from ep_nnapi.nnapi.runtime import with_token

        hashing = any(o.spec is LSH_PROJECTION for o in model.operations)  # hashes float32 bytes
        emulate_float16 = model.relaxed and not options.precise and not hashing
        named = with_token(options, model)
        with CONCURRENT_RUNS, cached(named, self.name, self) as cache:
            return PreparedGraph(model, Preparation(self.feature_level, emulate_float16, cache))
