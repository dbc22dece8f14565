"""Shape inference from the sizes of a graph's inputs, and constant folding of shape arithmetic.

Models exported with symbolic dimensions contain arithmetic on sizes: Shape, Gather, Concat and then
Reshape, or Range, Equal and then Where. Once the inputs have static shapes, the results of such
arithmetic are constants, and shapes that depend on them are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from onnx import TypeProto, defs, helper, numpy_helper, shape_inference

from ep_nnapi.graph.dag import outputs_of
from ep_nnapi.graph.graph import MICROSOFT_DOMAIN, GraphNode
from ep_nnapi.graph.onnx_io import node_of, numbers_of, type_proto
from ep_nnapi.graph.value import Constant, DType, Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.sizes import Size, is_symbolic, now
from ep_nnapi.sizes.arithmetic import is_computed, sized_constants
from ep_nnapi.sizes.ceil_mode import correct_ceil_mode
from ep_nnapi.sizes.enumerated import undefined_value
from ep_nnapi.sizes.proxies import inference_proxy
from ep_nnapi.sizes.requirements import is_contradicted
from ep_nnapi.sizes.scaled import correct_scaled_sizes
from ep_nnapi.sizes.symbolic import has_sizes, with_sizes

_MAX_FOLDED = 512 * 512
"""Maximum elements of a folded result: an attention mask for BERT's longest sequence."""

_MAX_SHAPE_ELEMENTS = 64
"""Maximum elements of constants that are passed to shape inference."""

FOLDABLE = frozenset(
    (
        *("Abs", "Add", "And", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal"),
        *("Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND"),
        *("Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod"),
        *("Mul", "Neg", "NonZero", "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd"),
        *("Reshape", "ScatterElements", "ScatterND", "Shape", "Sign", "Size", "Slice", "Split"),
        *("Sqrt", "Squeeze", "Sub", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor"),
    )
)
"""Operators that are folded: their results are bitwise the same on every machine."""

_WITH_SUBGRAPHS = frozenset(("If", "Loop", "Scan", "SequenceMap"))
_INFERRED_DOMAINS = frozenset(("", "ai.onnx.ml", MICROSOFT_DOMAIN, "com.ms.internal.nhwc"))
"""Domains for which ONNX Runtime has shape inference."""
_DATA_DEPENDENT = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))
"""Operators with data-dependent output shapes."""

_READ_SHAPES_ONLY = frozenset(("Shape", "Size", "EyeLike"))
"""Operators in `FOLDABLE` that read only shapes, no elements."""

Assume: TypeAlias = Callable[[GraphNode], Sequence[Value]]
"""Function that returns a node's outputs with sample sizes in place of unknown ones."""


def is_sized(value: Value) -> bool:
    """True if `value` has a static shape."""
    return value.dims is not None and {*map(type, value.dims)} <= _NUMBERS


_NUMBERS = {int, Size}
Dims: TypeAlias = tuple[int | None, ...] | None
"""Inferred dimensions; None for an unknown rank."""
Conflict: TypeAlias = tuple[int, GraphNode]
"""Position and node."""


@frozen
class Inference:
    """Result of shape inference and folding: a graph's values by name.

    conflict  the first node with inconsistent shapes, as bound, and its position; None if all agree
    assumed  the values that have assumed shapes in `values`, here without these
    """

    values: Mapping[str, Value]
    conflict: Conflict | None
    assumed: Mapping[str, Value]


def infer_shapes(
    nodes: Iterable[GraphNode],
    known: Mapping[str, Value],
    declared: Collection[str],
    assume: Assume | None = None,
    *,
    until: int | None = None,
) -> Inference:
    """Infers shapes and folds shape arithmetic, starting from the values in `known`, by name.

    nodes      single nodes in topological order; `known` has all their outputs
    declared   names of values with shapes declared in the model, which are checked by inference
    assume     gives shapes to outputs without any, if their node's inputs are consistent
    until      stop at the first conflict, or at the node of this position, which counts as one, and
               check the sizes that symbols of outputs say, too

    A folded value has its elements as its constant and `folded` set.
    """
    found, conflict = dict(known), None
    assumed: dict[str, Value] = {}
    for position, node in enumerate(nodes):
        bound = replace(
            node,
            inputs=tuple(v and found.get(v.name, v) for v in node.inputs),
            outputs=tuple(v and found[v.name] for v in node.outputs),
        )
        outputs, valid = outputs_of(bound), True
        known_by_name = all(is_sized(v) and v.name not in declared for v in outputs)
        if until is not None or not known_by_name:
            try:
                outputs = infer_outputs(bound)
            except shape_inference.InferenceError:
                valid = False
        bound = replace(bound, outputs=tuple(outputs))
        contradicted = not has_sizes(bound) and is_contradicted(bound)
        if conflict is None and (position == until or not valid or contradicted):
            conflict = position, bound
        if conflict is not None and until is not None:
            break
        results = _fold(bound, outputs)
        found.update((v.name, v) for v in results)
        if assume is not None and valid and not all(map(is_sized, results)):
            samples = assume(replace(bound, outputs=tuple(results)))
            before = {v.name: v for v in results if not is_sized(v)}
            found.update((v.name, v) for v in samples if v.name in before)
            assumed.update(
                (v.name, before[v.name]) for v in samples if is_sized(v) and v.name in before
            )
    return Inference(found, conflict, assumed)


def declares_wrong_shape(node: GraphNode) -> bool:
    """True if the declared output shape of a node that ONNX Runtime does not infer is wrong."""
    if inference_proxy(node) is node or not all(map(is_sized, outputs_of(node))):
        return False
    if not all(is_sized(v) for v in node.inputs if v is not None):
        return False
    try:
        return infer_outputs(node)[0].dims != outputs_of(node)[0].dims
    except shape_inference.InferenceError:
        return False


def is_only_declared(node: GraphNode) -> bool:
    """True if its output shapes are declared and may be data-dependent: inference finds none."""
    if not _may_be_data_dependent(node) or not all(map(is_sized, outputs_of(node))):
        return False
    try:
        return not all(map(is_sized, infer_outputs(_unsized(node))))
    except shape_inference.InferenceError:
        return True


def is_unverifiable(node: GraphNode) -> bool:
    """True if its declared output shapes cannot be verified by shape inference.

    That holds for nodes with subgraphs, with inputs that are not tensors, of unknown domains, and
    of com.microsoft if an input has no shape from which ONNX Runtime could infer one.
    """
    if node.domain not in _INFERRED_DOMAINS or node.op_type in _WITH_SUBGRAPHS:
        return True
    inputs = [v for v in node.inputs if v is not None]
    if node.domain and inference_proxy(node) is node and not all(map(is_sized, inputs)):
        return True
    return DType.UNDEFINED in [v.dtype for v in inputs]


def _may_be_data_dependent(node: GraphNode) -> bool:
    """True if a node may compute other, data-dependent shapes than its static output shapes."""
    if is_unverifiable(node) or (node.domain and inference_proxy(node) is node):
        return False
    if node.op_type in _DATA_DEPENDENT:
        return True
    for value in node.inputs:
        if value is None or value.constant is not None:
            continue
        if not is_sized(value) or (value.dtype is DType.INT64 and value.rank <= 1):
            return True
    return False


def infer_outputs(node: GraphNode) -> tuple[Value, ...]:
    """The outputs with the sizes that ONNX's shape inference finds; others are unchanged.

    Raises InferenceError if the inputs are inconsistent.
    """
    if undefined_value(node) is not None:
        return outputs_of(node)
    like = inference_proxy(node)
    try:
        found = _inferred_dims(like)
    except shape_inference.InferenceError:
        raise
    except Exception:  # no ONNX schema for the operator, or an operator with subgraphs
        return outputs_of(node)
    inferred = tuple(v and _merge_shape(v, found.get(v.name)) for v in node.outputs)
    inferred = correct_scaled_sizes(replace(node, outputs=inferred))
    if has_sizes(node):
        inferred = with_sizes(node, inferred)
    return correct_ceil_mode(replace(node, outputs=inferred))


_MOST_INFERRED = 4096
_inferred: dict[Hashable, tuple[Dims, ...]] = {}
"""What ONNX infers of outputs by what it reads of a node: most networks repeat their layers."""


def _inferred_dims(node: GraphNode) -> dict[str, Dims]:
    """The dimensions that ONNX's shape inference finds by output, None for an unknown one."""
    names = [v.name if v is not None else "" for v in node.outputs]
    key = _read_by_inference(node)
    if key is None or key not in _inferred:
        types = shape_inference.infer_node_outputs(
            defs.get_schema(node.op_type, node.since, node.domain),
            node_of(node),
            {v.name: type_proto(v) for v in node.inputs if v is not None},
            {
                v.name: numpy_helper.from_array(c.load())
                for v in node.inputs
                if v is not None and (c := _shape_constant(v)) is not None
            },
            opset_imports=[helper.make_opsetid(node.domain, node.since)],
        )
        found = tuple(_dims_of(types.get(name)) for name in names)
        if key is None:
            return dict(zip(names, found, strict=True))
        if len(_inferred) >= _MOST_INFERRED:
            _inferred.clear()
        _inferred[key] = found
    return dict(zip(names, _inferred[key], strict=True))


def _read_by_inference(node: GraphNode) -> Hashable | None:
    """What shape inference reads of a node; None if an attribute is a tensor."""
    if any(isinstance(value, Constant) for value in node.attributes.values()):
        return None
    outputs = tuple([v is not None for v in node.outputs])
    shapes = [v and _shape_constant(v) for v in node.inputs]
    read = [c and (c.dtype, c.shape, c.load().tobytes()) for c in shapes]
    inputs = [(v and (v.dtype, numbers_of(v)), c) for v, c in zip(node.inputs, read, strict=True)]
    return node.domain, node.op_type, node.since, repr(node.attributes), tuple(inputs), outputs


def _dims_of(inferred: TypeProto | None) -> Dims:
    if inferred is None or not inferred.tensor_type.HasField("shape"):
        return None
    dims = inferred.tensor_type.shape.dim
    return tuple([d.dim_value if d.HasField("dim_value") else None for d in dims])


def _merge_shape(value: Value, inferred: Dims) -> Value:
    if inferred is None:
        return value
    known = value.dims if value.dims is not None else (None,) * len(inferred)
    if None not in inferred:
        return replace(value, dims=inferred)
    if len(known) != len(inferred):
        return value
    pairs = zip(known, inferred, strict=True)
    return replace(value, dims=tuple(k if isinstance(k, int) or d is None else d for k, d in pairs))


def _shape_constant(value: Value) -> Constant | None:
    """The constant of a value that may be a shape; None for others."""
    constant = value.constant
    if constant is None or not value.dtype.readable or prod(constant.shape) > _MAX_SHAPE_ELEMENTS:
        return None
    return constant


def _fold(node: GraphNode, outputs: Sequence[Value]) -> Sequence[Value]:
    """The outputs, folded to constants where possible."""
    sized = [v for v in outputs if is_sized(v)]
    large = any(is_symbolic(v.shape) or v.size > _MAX_FOLDED for v in sized)  # others are not
    if node.domain or node.op_type not in FOLDABLE or large or is_computed(node, outputs):
        return outputs
    if node.op_type not in _READ_SHAPES_ONLY and not _has_constant_inputs(node):
        return outputs
    from onnx.reference import ReferenceEvaluator  # slow import, which few models need

    try:
        if node.op_type == "GatherElements" and not _indices_fit(node):
            return outputs
        with np.errstate(all="ignore"):  # a result of a division by zero may be unused
            given = {v.name: _input_array(v, node) for v in node.inputs if v is not None}
            evaluator = ReferenceEvaluator(node_of(node), opsets={"": node.since})
            arrays = [np.asarray(a) for a in evaluator.run(None, given)]
    except Exception:  # invalid for the current sizes: the error is left to the run
        return outputs
    pairs = list(zip(outputs, arrays, strict=True))
    if any(not v.dtype.readable or v.dtype.numpy != a.dtype for v, a in pairs):
        return outputs
    constants = sized_constants(node, arrays)
    return [
        replace(v, dims=c.shape, constant=c, folded=True)
        for v, c in zip(outputs, constants, strict=True)
    ]


def _has_constant_inputs(node: GraphNode) -> bool:
    given = [v for v in node.inputs if v is not None]
    if node.op_type == "Range" and any(v.dtype is DType.FLOAT for v in given):
        return False  # ONNX Runtime accumulates the steps, so rounding differs
    return bool(given) and all(
        v.constant is not None and v.dtype.readable and prod(v.constant.shape) <= _MAX_FOLDED
        for v in given
    )


def _indices_fit(node: GraphNode) -> bool:
    """True if all indices are within the data: numpy counts others down to it, one by one."""
    data, indices = (_input_array(v, node) for v in node.inputs if v is not None)
    axis = node.attributes.get("axis", 0)
    size = data.shape[axis] if isinstance(axis, int) else 0
    return bool(np.all((-size <= indices) & (indices < size)))


def _input_array(value: Value, node: GraphNode) -> Array:
    """The elements of an input; for a node of `_READ_SHAPES_ONLY` a broadcast zero of no size."""
    if node.op_type in _READ_SHAPES_ONLY or value.constant is None:
        shape = tuple(now(size) for size in value.shape)
        return np.broadcast_to(np.zeros((), value.dtype.numpy), shape)
    return value.constant.load()


_PREFIX = re.compile(r"^\[\w+\]\s*(\(op_type:[^)]*\):\s*)?")
"""The kind of error and the node, with which onnx's messages begin."""


def shape_conflict(node: GraphNode) -> str:
    """Describes why the node's shapes are inconsistent; "" where shape inference finds no reason.

    ONNX Runtime keeps a declared output shape, with a warning, where its own inference differs.
    """
    try:
        inferred = infer_outputs(_unsized(node))
    except shape_inference.InferenceError as error:
        return _PREFIX.sub("", str(error).strip())
    for value, found in zip(outputs_of(node), (v for v in inferred if v), strict=True):
        if is_sized(value) and is_sized(found) and value.dims != found.dims:
            return (
                f"{value.name} is declared as {list(value.shape)}, inferred as {list(found.shape)}"
            )
    return ""


def unconfirmed_shape(node: GraphNode) -> str:
    """Names an output of ONNX's whose shape is only declared; "" where inference finds each shape.

    Raises InferenceError if the inputs are inconsistent.
    """
    inferred = (v for v in infer_outputs(_unsized(node)) if v)
    for value, found in zip(outputs_of(node), inferred, strict=True):
        if is_sized(value) and not is_sized(found):
            return f"{value.name} is only declared as {list(value.shape)}"
    return ""


def _unsized(node: GraphNode) -> GraphNode:
    return replace(node, outputs=tuple(v and replace(v, dims=None) for v in node.outputs))
