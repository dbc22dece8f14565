"""Binding of kernels to the operations of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.arguments import Values
from ep_nnapi.nnapi.host.blockwise import BlockwiseCall, LookupTable
from ep_nnapi.nnapi.host.codec import is_coded
from ep_nnapi.nnapi.host.kernel import Kernel
from ep_nnapi.nnapi.host.kernel_call import KernelCall, Outs
from ep_nnapi.nnapi.host.named_operation import NamedOperation, indexes
from ep_nnapi.nnapi.host.run import Run


class Bound(Protocol):
    """A kernel bound to an operation; thread-safe, runs may call it concurrently."""

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """Compute and return the outputs; each is written to its array in `outs`, if not None."""
        ...


def bind(kernel: Kernel, op: NamedOperation, constants: Mapping[int, object]) -> Bound:
    """Bind `kernel` to the operation `op`; `constants` are known values by operand index."""
    call = KernelCall(kernel, op, constants)
    if kernel.pointwise and op.types["input"].type.numpy.itemsize == 1:
        (index,) = indexes(op.inputs["input"])
        if set(op.operation.inputs) - constants.keys() == {index}:
            return LookupTable(call, index, op.types["input"], op.types["output"], constants)
    if kernel.elementwise and any(is_coded(o) for o in call.types):
        return BlockwiseCall(call, call.types[0])
    return call
