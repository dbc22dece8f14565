"""Shape inference from the sizes of a graph's inputs, and constant folding of shape arithmetic.

Models exported with symbolic dimensions contain arithmetic on sizes: Shape, Gather, Concat and then
Reshape, or Range, Equal and then Where. Once the inputs have static shapes, the results of such
arithmetic are constants, and shapes that depend on them are known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np
from onnx import TensorProto, TypeProto, defs, helper, numpy_helper, shape_inference

from ep_nnapi.graph.dag import bytes_of, outputs_of
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.to_onnx import node_of
from ep_nnapi.graph.value import Array, Constant, DType, Value
from ep_nnapi.nnapi.operand import MAX_BYTES
from ep_nnapi.sizes.ceil_mode import counted
from ep_nnapi.sizes.proxies import counterpart

_NUMBERS = 512 * 512
"""Maximum elements of a folded result: an attention mask for BERT's longest sequence."""

_SHAPE_LIKE = 64
"""Maximum elements of constants that are passed to shape inference."""

_ARITHMETIC = frozenset(
    (
        *("Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal"),
        *("Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND"),
        *("Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod"),
        *("Mul", "Neg", "NonZero", "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd"),
        *("Reshape", "ScatterElements", "ScatterND", "Shape", "Sign", "Size", "Slice", "Split"),
        *("Squeeze", "Sub", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor"),
    )
)
"""Operators that are folded: their results are bitwise the same on every machine."""

_HOLDERS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
_INFERRED = frozenset(("", "ai.onnx.ml", "com.microsoft", "com.ms.internal.nhwc"))
"""Domains for which ONNX Runtime has shape inference."""
_SELECTING = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))
"""Operators with data-dependent output shapes."""

_OF_SIZES = frozenset(("Shape", "Size", "EyeLike"))
"""Operators in `_ARITHMETIC` that read only shapes, no elements."""

Assume: TypeAlias = Callable[[GraphNode], Sequence[Value]]
"""Function that returns a node's outputs with sample sizes in place of unknown ones."""


def is_sized(value: Value) -> bool:
    """True if `value` has a static shape."""
    return value.dims is not None and all(isinstance(d, int) for d in value.dims)


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of shape inference and folding: a graph's values by name.

    agree    True if the shapes are consistent with each other
    assumed  the values that have assumed shapes in `values`, here without these
    """

    values: Mapping[str, Value]
    agree: bool
    assumed: Mapping[str, Value]


def settle(
    nodes: Iterable[GraphNode],
    known: Mapping[str, Value],
    declared: Collection[str],
    assume: Assume | None = None,
) -> Settled:
    """Infers shapes and folds shape arithmetic, starting from the values in `known`, by name.

    nodes      single nodes in topological order; `known` has all their outputs
    declared   names of values with shapes declared in the model, which are checked by inference
    assume     gives shapes to outputs without any, if their node's inputs are consistent

    A folded value has its elements as its constant and `settled` set.
    """
    found, agree = dict(known), True
    assumed: dict[str, Value] = {}
    for node in nodes:
        seen = replace(
            node,
            inputs=tuple(v and found.get(v.name, v) for v in node.inputs),
            outputs=tuple(v and found[v.name] for v in node.outputs),
        )
        outputs, fit = outputs_of(seen), True
        if not all(is_sized(v) for v in outputs) or any(v.name in declared for v in outputs):
            try:
                outputs = _sized(seen)
            except shape_inference.InferenceError:
                fit = False
        held = all(bytes_of(v) <= MAX_BYTES for v in outputs)
        agree = agree and fit and held and not _reads_beyond(seen)
        results = _computed(seen, outputs)
        found.update((v.name, v) for v in results)
        if assume is not None and fit and not all(map(is_sized, results)):
            sized = assume(replace(seen, outputs=tuple(results)))
            before = {v.name: v for v in results if not is_sized(v)}
            found.update((v.name, v) for v in sized if v.name in before)
            assumed.update(
                (v.name, before[v.name]) for v in sized if is_sized(v) and v.name in before
            )
    return Settled(found, agree, assumed)


def contradicts(node: GraphNode) -> bool:
    """True if the declared output shape of a node that ONNX Runtime does not infer is wrong."""
    if counterpart(node) is node or not all(map(is_sized, outputs_of(node))):
        return False
    if not all(is_sized(v) for v in node.inputs if v is not None):
        return False
    try:
        return _sized(node)[0].dims != outputs_of(node)[0].dims
    except shape_inference.InferenceError:
        return False


def only_declared(node: GraphNode) -> bool:
    """True if its output shapes are declared and may be data-dependent: inference finds none."""
    if not _data_may_decide(node) or not all(map(is_sized, outputs_of(node))):
        return False
    unsized = replace(node, outputs=tuple(v and replace(v, dims=None) for v in node.outputs))
    try:
        return not all(map(is_sized, _sized(unsized)))
    except shape_inference.InferenceError:
        return True


def is_believed(node: GraphNode) -> bool:
    """True if its declared output shapes cannot be verified by shape inference.

    That holds for nodes with subgraphs, with inputs that are not tensors, and of unknown domains.
    """
    unknown = node.domain not in _INFERRED or node.op_type in _HOLDERS
    return unknown or any(v is not None and v.dtype is DType.UNDEFINED for v in node.inputs)


def _data_may_decide(node: GraphNode) -> bool:
    """True if a node may compute other, data-dependent shapes than its static output shapes."""
    given = [v for v in node.inputs if v is not None and v.constant is None]
    if node.domain or is_believed(node):
        return False
    return node.op_type in _SELECTING or any(
        not is_sized(v) or (v.dtype is DType.INT64 and v.rank <= 1) for v in given
    )


def _sized(node: GraphNode) -> tuple[Value, ...]:
    """The outputs with the sizes that ONNX's shape inference finds; others are unchanged.

    Raises InferenceError if the inputs are inconsistent.
    """
    like = counterpart(node)
    try:
        schema = defs.get_schema(like.op_type, like.since, like.domain)
        types = shape_inference.infer_node_outputs(
            schema,
            node_of(like),
            {v.name: _type(v) for v in like.inputs if v is not None},
            {v.name: t for v in like.inputs if v is not None and (t := _tensor(v)) is not None},
            opset_imports=[helper.make_opsetid(like.domain, like.since)],
        )
    except shape_inference.InferenceError:
        raise
    except Exception:  # no ONNX schema for the operator, or an operator with subgraphs
        return outputs_of(node)
    inferred = tuple(v and _with_sizes(v, types.get(v.name)) for v in node.outputs)
    return counted(replace(node, outputs=inferred))


def _reads_beyond(node: GraphNode) -> bool:
    """True for a Gather out of range, as of position embeddings for too long a sequence."""
    if node.domain or node.op_type != "Gather":
        return False
    table, indices = node.inputs[:2]
    if table is None or not is_sized(table) or indices is None or not indices.settled:
        return False
    axis = node.attributes.get("axis", 0)
    size = table.shape[axis] if isinstance(axis, int) else 0
    numbers = indices.constant.array if indices.constant is not None else np.zeros(0)
    return bool(np.any((numbers < -size) | (numbers >= size)))


def _with_sizes(value: Value, inferred: TypeProto | None) -> Value:
    if inferred is None or not inferred.tensor_type.HasField("shape"):
        return value
    dims = inferred.tensor_type.shape.dim
    if all(d.HasField("dim_value") for d in dims):
        return replace(value, dims=tuple(d.dim_value for d in dims))
    known = value.dims if value.dims is not None else (None,) * len(dims)
    if len(known) != len(dims):
        return value
    pairs = zip(known, dims, strict=True)
    return replace(
        value,
        dims=tuple(
            d.dim_value if d.HasField("dim_value") and not isinstance(k, int) else k
            for k, d in pairs
        ),
    )


def _type(value: Value) -> TypeProto:
    return helper.make_tensor_type_proto(int(value.dtype), value.dims)


def _tensor(value: Value) -> TensorProto | None:
    """The elements of a constant that may be a shape; None for others."""
    constant = value.constant
    if constant is None or not value.dtype.readable or prod(constant.shape) > _SHAPE_LIKE:
        return None
    return numpy_helper.from_array(constant.array)


def _computed(node: GraphNode, outputs: Sequence[Value]) -> Sequence[Value]:
    """The outputs, folded to constants where possible."""
    if node.domain or node.op_type not in _ARITHMETIC or not all(map(_is_small, outputs)):
        return outputs
    if node.op_type not in _OF_SIZES and not _are_numbers(node):
        return outputs
    try:
        with np.errstate(all="ignore"):  # a result of a division by zero may be unused
            arrays = _evaluated(node)
    except Exception:  # invalid for the current sizes: the error is left to the run
        return outputs
    pairs = list(zip(outputs, arrays, strict=True))
    if any(v.dtype.numpy != a.dtype for v, a in pairs):
        return outputs
    return [replace(v, dims=a.shape, constant=Constant.of(a), settled=True) for v, a in pairs]


def _is_small(value: Value) -> bool:
    """True if an output is small enough to fold; one of unknown size counts as small."""
    return not is_sized(value) or value.size <= _NUMBERS


def _are_numbers(node: GraphNode) -> bool:
    given = [v for v in node.inputs if v is not None]
    if node.op_type == "Range" and any(v.dtype is DType.FLOAT for v in given):
        return False  # ONNX Runtime accumulates the steps, so rounding differs
    return bool(given) and all(
        v.constant is not None and v.dtype.readable and prod(v.constant.shape) <= _NUMBERS
        for v in given
    )


def _evaluated(node: GraphNode) -> list[Array]:
    """Evaluates the node; operators in `_OF_SIZES` get a broadcast zero, which takes no memory."""
    from onnx.reference import ReferenceEvaluator  # slow import, which few models need

    given = {v.name: _array(v, node) for v in node.inputs if v is not None}
    graph = helper.make_graph(
        [node_of(node)],
        "arithmetic",
        [helper.make_tensor_value_info(n, int(DType.of(a.dtype)), None) for n, a in given.items()],
        [helper.make_tensor_value_info(v.name, int(v.dtype), None) for v in outputs_of(node)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", node.since)])
    return [np.asarray(a) for a in ReferenceEvaluator(model).run(None, given)]


def _array(value: Value, node: GraphNode) -> Array:
    if node.op_type in _OF_SIZES or value.constant is None:
        return np.broadcast_to(np.zeros((), value.dtype.numpy), value.shape)
    return value.constant.array
