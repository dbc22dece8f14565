"""Binding of kernels to the operations of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.host.arguments import Values
from ep_nnapi.nnapi.host.blockwise import Blocked, Lookup
from ep_nnapi.nnapi.host.codec import is_coded
from ep_nnapi.nnapi.host.kernel import Kernel
from ep_nnapi.nnapi.host.kernel_call import Call, Outs
from ep_nnapi.nnapi.host.named_operation import Site, indexes
from ep_nnapi.nnapi.host.run import Run


class Bound(Protocol):
    """A kernel bound to an operation; thread-safe, runs may call it concurrently."""

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """Compute and return the outputs; each is written to its array in `outs`, if not None."""
        ...


def bind(kernel: Kernel, at: Site, constants: Mapping[int, object]) -> Bound:
    """Bind `kernel` to the operation `at`; `constants` are known values by operand index."""
    call = Call(kernel, at, constants)
    if kernel.pointwise and at.types["input"].type.numpy.itemsize == 1:
        (index,) = indexes(at.inputs["input"])
        if set(at.operation.inputs) - constants.keys() == {index}:
            return Lookup(call, index, at.types["input"], at.types["output"], constants)
    if kernel.elementwise and any(is_coded(o) for o in call.types):
        return Blocked(call, call.types[0])
    return call
