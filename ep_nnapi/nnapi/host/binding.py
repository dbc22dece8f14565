"""A kernel bound to one operation of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ep_nnapi.graph.value import Array
from ep_nnapi.nnapi.host.arguments import Values
from ep_nnapi.nnapi.host.blocked import Blocked, Lookup
from ep_nnapi.nnapi.host.call import Call, Outs
from ep_nnapi.nnapi.host.codec import is_coded
from ep_nnapi.nnapi.host.kernel import Kernel
from ep_nnapi.nnapi.host.run import Run
from ep_nnapi.nnapi.host.site import Site, indexes


class Bound(Protocol):
    """A kernel ready to be called in any number of runs at once."""

    def __call__(self, values: Values, outs: Outs, run: Run) -> list[Array]:
        """The outputs, those that `outs` holds an array for in that array."""
        ...


def bind(kernel: Kernel, at: Site, constants: Mapping[int, object]) -> Bound:
    """The kernel for the operation `at`; `constants`, by operand index, are known already."""
    call = Call(kernel, at, constants)
    if kernel.pointwise and at.types["input"].type.numpy.itemsize == 1:
        (index,) = indexes(at.inputs["input"])
        if set(at.operation.inputs) - constants.keys() == {index}:
            return Lookup(call, index, at.types["input"], at.types["output"], constants)
    if kernel.elementwise and any(is_coded(o) for o in call.types):
        return Blocked(call, call.types[0])
    return call
