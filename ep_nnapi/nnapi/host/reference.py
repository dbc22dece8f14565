"""Reference device nnapi-reference: all operations on the CPU with numpy kernels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import Reject
from ep_nnapi.nnapi.host.kernel import NamedOperation, mapped, name_operands
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.model import Data, Model, Operand
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, CompileOptions
from ep_nnapi.nnapi.shapes import infer
from ep_nnapi.nnapi.shapes.operands import ShapeError, ShapeOperand, Tensor
from ep_nnapi.nnapi.shapes.scratch import SCRATCH, require_scratch
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
            model.checked or operation.spec not in SCRATCH or self._fits(model, n)
            for n, operation in enumerate(model.operations)
        )

    def _fits(self, model: Model, n: int) -> bool:
        match = model.match(n, self.feature_level)
        named = name_operands(model.operations[n], match, model.operands)
        return fits_scratch_limit(named, model.operands)

    def prepare(self, model: Model, options: CompileOptions) -> PreparedGraph:
        """Bind kernels to all operations; relaxed models emulate float16 unless `precise`."""
        from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
        from ep_nnapi.nnapi.host.prepared_graph import PreparedGraph, Preparing  # all kernels

        hashing = any(o.spec is LSH_PROJECTION for o in model.operations)  # hashes float32 bytes
        emulate_float16 = model.relaxed and not options.precise and not hashing
        with CONCURRENT_RUNS:
            return PreparedGraph(model, Preparing(self.feature_level, emulate_float16))


_LIMIT_FACTOR = 16
"""Factor on the limit for lowerings: ROI_ALIGN of a small image needs 5 in Android's tests."""
_ADAPTIVE = ("height_sampling_points", "width_sampling_points")
"""For 0 in these scalars the sampling depends on the run's regions, so memory is unknown."""


def fits_scratch_limit(op: NamedOperation, operands: Sequence[Operand]) -> bool:
    """Return False if an operation needs more scratch memory than `require_scratch` allows.

    True if sizes or scalars are unknown before the run: then the run checks.
    """
    read = [operands[i] for i in op.operation.inputs if i < len(operands)]
    scalars = [o for o in read if not o.type.tensor and not isinstance(o.value, Data)]
    tensors = [o for o in read if o.type.tensor]
    if op.operation.spec not in SCRATCH or scalars or not all(o.known for o in tensors):
        return True
    named = mapped(op.inputs, lambda i: _known(operands[i]))
    if any(named.get(name) == 0 for name in _ADAPTIVE):
        return True
    outputs = [operands[i] for i in op.operation.outputs]
    try:
        if all(o.known for o in outputs):
            sizes = [o.size for o in outputs]
        else:
            written = infer(op.operation.spec, named, len(outputs))
            sizes = [prod(s or 0 for s in dims) for dims in written if dims and None not in dims]
        if len(sizes) == len(outputs):
            elements = sum(o.size for o in tensors) + sum(sizes)
            require_scratch(op.operation.spec, named, elements, _LIMIT_FACTOR)
    except Reject:
        return False
    except ShapeError:  # the run reports it
        return True
    return True


def _known(operand: Operand) -> ShapeOperand:
    if operand.type.tensor:
        return Tensor(operand.dimensions)
    return operand.item
