"""Float fallback of a QDQ group: dequantize, compute in floats as ONNX defines it, quantize."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.spec import DEQUANTIZE, QUANTIZE
from ep_nnapi.operators.lib.quantizing import dequantized

Lower: TypeAlias = Callable[[GraphNode], Iterator[Call]]
"""Function that lowers a node to calls."""


def lower_in_floats(node: GraphNode, lower: Lower) -> Iterator[Call]:
    """Lowers the group `node` with `lower` in floats, between DEQUANTIZE and QUANTIZE.

    Constants are folded: they are dequantized ahead of time.
    """
    dtype = _float_type(node)
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
    outputs = tuple(v and _float_output(v, dtype) for v in node.outputs)
    yield from lower(replace(node, inputs=inputs, outputs=outputs))
    for before, after in zip(outputs, node.outputs, strict=True):
        if before is not None and after is not None and before is not after:
            yield apply(QUANTIZE, before, out=after)


def _float_output(value: Value, dtype: DType) -> Value:
    """The float value that is quantized to `value`; `value` itself if it is not quantized."""
    if value.quantization is None:
        return value
    return Value(f"{value.name} before it is quantized", dtype, value.dims)


def _float_type(node: GraphNode) -> DType:
    """The element type of the group's floats, FLOAT or FLOAT16."""
    for part in node.parts:
        for value in part.outputs:
            if value is not None and value.dtype in (DType.FLOAT, DType.FLOAT16):
                return value.dtype
    return DType.FLOAT
