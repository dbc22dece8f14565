"""Insertion of requantization calls, as required by NNAPI's rules for quantized operands.

Operations that only move elements keep the quantization parameters of their input. Some operations
have fixed output parameters. Signed types need feature level 4. Lowerings ignore these rules; this
module inserts the conversions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Quantization, Value
from ep_nnapi.lowering.arguments import Arg, View, value_of
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.spec import DEQUANTIZE, QUANTIZE
from ep_nnapi.operators.lib.quantizing import as_type, dequantized, is_8bit, requantized

SIGNED_LEVEL = 4
"""The feature level that introduced TENSOR_QUANT8_ASYMM_SIGNED."""

ChangeValue: TypeAlias = Callable[[Value], Value]


def insert_requantization(calls: Iterable[Call], feature_level: int) -> Iterator[Call]:
    """Yields the calls of one node, with the requantizations that they need.

    Raises Reject(QUANTIZATION) if results could be off by more than 1: if a rounded intermediate is
    computed with, or has a scale more than twice that of the output.
    """
    requantizer = _Requantizer(feature_level)
    for call in calls:
        if not _has_8bit(call):
            yield call
            continue
        for step in requantizer.calls_for(_unify_signedness(call)):
            yield step if feature_level >= SIGNED_LEVEL else _to_unsigned(step)


def _has_8bit(call: Call) -> bool:
    for arg in (*call.inputs, *call.outputs):
        value = arg.value if isinstance(arg, View) else arg
        if isinstance(value, Value) and value.quantization is not None and is_8bit(value):
            return True
    return False


@dataclass
class _Requantizer:
    """State of the pass over a node's calls: the names of rounded intermediates."""

    feature_level: int
    _rounded: set[str] = field(default_factory=set)

    def calls_for(self, call: Call) -> Iterator[Call]:
        """Yields the call, with its operands and results requantized where needed."""
        sources = [v for v in map(value_of, call.inputs) if v is not None and is_8bit(v)]
        results = [v for v in call.writes if is_8bit(v)]
        if not results:
            yield call
            return
        self._track_rounding(call, sources, results)
        if call.spec.traits.clamps and sources[0].quantization != results[0].quantization:
            yield from self._requantize_sources(call, sources[:1], results[0])
        elif call.spec == spec.CONCATENATION and self.feature_level < 3:
            apart = [s for s in sources if s.quantization != results[0].quantization]
            yield from self._requantize_sources(call, apart, results[0])
        else:
            yield from self._requantize_results(call, sources, results)

    def _track_rounding(self, call: Call, sources: list[Value], results: list[Value]) -> None:
        rounded, selects = any(s.name in self._rounded for s in sources), call.spec.traits.selects
        if rounded and not selects:
            detail = "it takes several operations, each of which rounds"
            raise Reject(Reason.QUANTIZATION, detail)
        if rounded or not selects:
            self._rounded.update(r.name for r in results)

    def _requantize_sources(self, call: Call, sources: list[Value], like: Value) -> Iterator[Call]:
        """Yields requantizations of the sources to the parameters of `like`, then the call."""
        converted: dict[str, Value] = {}
        for source in sources:
            if source.name not in converted:
                name = f"{source.name} for {like.name}"
                converted[source.name] = Value(name, source.dtype, source.dims, like.quantization)
                yield replace(requantized(source, converted[source.name]), origin=call.origin)
        yield _map_values(call, lambda v: converted.get(v.name, v))

    def _requantize_results(
        self, call: Call, sources: list[Value], results: list[Value]
    ) -> Iterator[Call]:
        """Yields the call, then requantizations of its results."""
        converted = {}
        for result in results:
            computed = _computed_quantization(call, sources, result)
            if computed != result.quantization:
                _require_fine_scale(call, computed, result)
                converted[result.name] = replace(
                    result, name=f"{result.name} of {call.spec.name}", quantization=computed
                )
        yield _map_values(call, lambda v: converted.get(v.name, v))
        for result in results:
            if result.name in converted:
                yield replace(requantized(converted[result.name], result), origin=call.origin)


def _computed_quantization(call: Call, sources: list[Value], result: Value) -> Quantization | None:
    """The quantization parameters with which the operation computes `result`."""
    traits = call.spec.traits
    if traits.output_quantization is not None:
        scale, zero_point = traits.output_quantization
        like = Value("", DType.UINT8, (), Quantization((scale,), (zero_point,)))
        return as_type(like, result.dtype).quantization
    if traits.keeps_quantization and sources:
        return sources[0].quantization
    return result.quantization


def _require_fine_scale(call: Call, computed: Quantization | None, result: Value) -> None:
    """Raises Reject if the first rounding may be off by more than one step of the result."""
    wanted = result.quantization
    if call.spec.traits.selects or computed is None or wanted is None:
        return
    if np.float32(computed.scale[0]) > 2 * np.float32(wanted.scale[0]):
        raise Reject(
            Reason.QUANTIZATION,
            f"{call.spec.name} computes with scale {computed.scale[0]:g}, too coarse for "
            f"{result.name}; quantize it with a scale of at least {computed.scale[0] / 2:g}",
        )


def _unify_signedness(call: Call) -> Call:
    """Converts 8-bit constants of the other signedness to the type that the call computes with."""
    kinds = [v.dtype for v in (*call.reads, *call.writes) if is_8bit(v)]

    def change(value: Value) -> Value:
        q = value.quantization
        if value.constant is None or q is None or not kinds:
            return value
        if q.per_tensor:
            return as_type(value, kinds[0])
        centred = value.dtype is DType.UINT8 and set(q.zero_point) == {128}
        return as_type(value, DType.INT8) if centred else value

    return _map_values(call, change)


def _to_unsigned(call: Call) -> Call:
    """Converts the call to unsigned types, with the pad value of PAD_V2, a raw integer."""
    found = _map_values(call, lambda v: as_type(v, DType.UINT8) if is_8bit(v) else v)
    padded = value_of(call.inputs[0])
    if call.spec != spec.PAD_V2 or padded is None or padded.dtype is not DType.INT8:
        return found
    *rest, added = found.inputs
    stored = added - np.iinfo(np.int8).min if isinstance(added, int) else added
    return replace(found, inputs=(*rest, stored))


def _map_values(call: Call, change: ChangeValue) -> Call:
    """The call with `change` applied to every value in it."""

    def changed(arg: Arg) -> Arg:
        if isinstance(arg, View):
            return View(change(arg.value), arg.perm)
        return change(arg) if isinstance(arg, Value) else arg

    outputs = tuple(
        View(change(o.value), o.perm) if isinstance(o, View) else change(o) for o in call.outputs
    )
    inputs = tuple(map(changed, call.inputs))
    pairs = zip((*inputs, *outputs), (*call.inputs, *call.outputs), strict=True)
    same = all(new is old for new, old in pairs)
    return call if same else replace(call, inputs=inputs, outputs=outputs)


LowerNode: TypeAlias = Callable[[GraphNode], Iterator[Call]]
"""Function that lowers a node to calls."""


def lower_in_floats(node: GraphNode, lower: LowerNode) -> Iterator[Call]:
    """Lowers the group `node` with `lower` in floats, between DEQUANTIZE and QUANTIZE.

    Constants are folded: they are dequantized ahead of time.
    """
    parts = [v for part in node.parts for v in part.outputs if v is not None]
    floats = (v.dtype for v in parts if v.dtype in (DType.FLOAT, DType.FLOAT16))
    dtype = next(floats, DType.FLOAT)
    reals: dict[str, Value] = {}
    for value in node.inputs:
        if value is None or value.quantization is None or value.name in reals:
            continue
        if value.constant is not None:
            reals[value.name] = dequantized(value, dtype)
            continue
        reals[value.name] = Value(f"{value.name} for {node.name}", dtype, value.dims)
        yield apply(DEQUANTIZE, value, out=reals[value.name])
    inputs = tuple(v and reals.get(v.name, v) for v in node.inputs)
    outputs = tuple(
        Value(f"{v.name} before it is quantized", dtype, v.dims) if v and v.quantization else v
        for v in node.outputs
    )
    yield from lower(replace(node, inputs=inputs, outputs=outputs))
    for before, after in zip(outputs, node.outputs, strict=True):
        if before is not None and after is not None and before is not after:
            yield apply(QUANTIZE, before, out=after)
