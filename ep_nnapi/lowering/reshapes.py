"""Reshapes after element-wise operations instead of before them, so that pairs of them cancel.

A convolution of sequences is a CONV_2D between two reshapes. An activation after it separates its
last reshape from the first one of the next convolution, and the layout of the images from that of
the sequences: each pair costs two transposes as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from ep_nnapi.graph.value import Constant, DType, Value, operand_shape
from ep_nnapi.lowering.arguments import Arg, View, value_of
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.lowering.fusion import needed
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import are_ones, identical
from ep_nnapi.nnapi.spec import RESHAPE, SELECT


def delay_reshapes(
    calls: Sequence[Call], kept: Collection[str], feature_level: int
) -> Sequence[Call]:
    """Returns calls that compute the same with fewer reshapes; the given ones if there are none.

    calls   without dead code, in topological order
    kept    names of the cluster's outputs
    """
    if sum(call.spec is RESHAPE for call in calls) < 2:
        return calls
    moved = needed(_Delayed(feature_level).through(calls), kept)
    return moved if len(moved) < len(calls) else calls


@dataclass(slots=True)
class _Delayed:
    """The reshaped values by name: their sources, and those that have their source's shape."""

    feature_level: int
    sources: dict[str, Value] = field(default_factory=dict)
    equal: dict[str, Value] = field(default_factory=dict)

    def through(self, calls: Sequence[Call]) -> list[Call]:
        """Returns the calls; reshapes that nothing reads any more are among them."""
        found: list[Call] = []
        for each in calls:
            call = each
            if not self.equal.keys().isdisjoint([v.name for v in each.reads]):
                inputs = tuple([self._replaced(arg) for arg in each.inputs])
                call = replace(each, inputs=inputs) if inputs != each.inputs else each
            found += self._before_reshape(call) or [self._reshape(call) or call]
        return found

    def _replaced(self, arg: Arg) -> Arg:
        value = value_of(arg)
        source = value and _same_type(self.equal.get(value.name), value)
        if source is None:
            return arg
        return View(source, arg.perm) if isinstance(arg, View) else source

    def _reshape(self, call: Call) -> Call | None:
        """Returns a reshape from the value before all reshapes; None for other operations."""
        x, y = call.inputs[0], call.outputs[0]
        if call.spec is not RESHAPE or not isinstance(x, Value) or not isinstance(y, Value):
            return None
        source = _same_type(self.sources.get(x.name), x) or x
        if source.constant is not None:
            return None
        self.sources[y.name] = source
        if identical(source.shape, y.shape):
            self.equal[y.name] = source
        return replace(call, inputs=(source, *call.inputs[1:]))

    def _before_reshape(self, call: Call) -> list[Call]:
        """Returns an element-wise operation on the sources and a reshape; [] for other calls."""
        out, names = call.outputs[0], call.spec.traits.elementwise
        if not names or not any(v.name in self.sources for v in call.reads):
            return []
        tensors = [arg for arg, p in zip(call.inputs, call.params, strict=True) if p.name in names]
        computed = [v for v in tensors if _is_computed(v, out)]
        sources = [_same_type(self.sources.get(v.name), v) for v in computed]
        first = sources[0] if sources else None
        if (
            first is None
            or not isinstance(out, Value)
            or not all(s is not None and identical(s.shape, first.shape) for s in sources)
            or any(not identical(v.shape, out.shape) for v in computed)
            or not all(_fits(v, call, first, out) for v in tensors if v not in computed)
        ):
            return []
        before = {v.name: source for v, source in zip(computed, sources, strict=True)}
        inputs = [before.get(a.name, a) if isinstance(a, Value) else a for a in call.inputs]
        result = before_reshape(out, first)
        sizes = operand_shape(out.shape)
        shape = Constant.of_sizes(sizes, (len(sizes),), DType.INT32)
        moved = replace(call, inputs=tuple(inputs), outputs=(result,))
        reshape = apply(RESHAPE, result, shape=shape, out=out).with_origin(call.origin)
        if not all(each.is_supported(self.feature_level) for each in (moved, reshape)):
            return []
        self.sources[out.name] = result
        return [moved, reshape]


def before_reshape(result: Value, like: Value) -> Value:
    """Returns what is reshaped to a result after all, in the shape of `like`."""
    return replace(result, name=f"{result.name}/before reshape", dims=like.shape)


def _is_computed(arg: Arg, out: Value | View) -> TypeGuard[Value]:
    """Return True for a tensor that is no constant, nor a number for all elements of others."""
    result = out.value if isinstance(out, View) else out
    return (
        isinstance(arg, Value)
        and arg.constant is None
        and (not are_ones(arg.shape) or are_ones(result.shape))
    )


def _fits(other: Arg, call: Call, source: Value, out: Value) -> bool:
    """Return True if an operation of `source` and this tensor has the shape of `source`.

    It is a number, or has one for each element of the last axis if that stays.
    SELECT takes tensors of equal rank; others broadcast.
    """
    if not isinstance(other, Value):
        return False
    row = identical(source.shape[-1:], other.shape) and identical(out.shape[-1:], other.shape)
    rank, most = (len(operand_shape(v.shape)) for v in (other, source))
    fits = rank == most or (rank < most and call.spec is not SELECT)
    return fits and (are_ones(other.shape) or row)


def _same_type(source: Value | None, value: Value) -> Value | None:
    """Returns the source of a value; None where the value is seen as one of another type."""
    if source is None or source.dtype is not value.dtype:
        return None
    return source if source.quantization == value.quantization else None
