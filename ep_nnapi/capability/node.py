"""Capability check of one node: it can run on NNAPI if its lowering succeeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ep_nnapi.capability.call_checks import check_call, require_valid_sizes
from ep_nnapi.capability.requantize import insert_requantization, lower_in_floats
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import MAX_NUMPY_RANK, Constant, Value
from ep_nnapi.lowering.arguments import View
from ep_nnapi.lowering.call import Call, Whole
from ep_nnapi.nnapi.errors import Reason, Reject, SpecError, module_logger
from ep_nnapi.nnapi.immutable import immutable, replace
from ep_nnapi.nnapi.sizes import Trace, now
from ep_nnapi.operators import VARIANTS, constants
from ep_nnapi.operators.lib.activation import is_implied
from ep_nnapi.operators.lib.node import KNOWN_OPSET, Node, Operator
from ep_nnapi.operators.lib.quantizing import require_bytes, require_storable
from ep_nnapi.operators.unsupported import why
from ep_nnapi.options.target import RuleSet, Target
from ep_nnapi.quantization.propagate import (
    RAW_INTEGER_OPS,
    require_unquantized,
    with_identity_quantization,
)
from ep_nnapi.quantization.qdq_groups import QUANTIZE
from ep_nnapi.sizes.definitions import definition
from ep_nnapi.sizes.enumerated import undefined_value
from ep_nnapi.sizes.inference import shape_conflict, unconfirmed_shape
from ep_nnapi.sizes.int64_ranges import narrow_to_int32

logger = module_logger(__name__)


@immutable
class CapableNode:
    """A capable node, its lowering to calls, and a note for the user, "" for none.

    unnoted   True if the lowering read the number of a `Size` without a condition
    """

    node: GraphNode
    calls: tuple[Call, ...]
    note: str = ""
    unnoted: bool = False


def judge(
    node: GraphNode, target: Target, *, checked: bool = True, trace: Trace | None = None
) -> CapableNode | Rejection:
    """Returns the node's lowering at `target`, or its rejection with the first reason.

    checked   False for a node that has been lowered before, for other sizes: its calls are neither
              checked for the target nor have origins
    trace     of the sizes, if the result says whether conditions cover the lowering
    """
    before = trace.unnoted if trace is not None else 0
    try:
        calls, note = _lower(node, target, checked=checked)
        return CapableNode(node, calls, note, trace is not None and trace.unnoted > before)
    except Reject as reject:
        return Rejection(node.name, node.op_type, reject.reason, reject.detail)
    except Exception as error:  # a defect in one operator must not fail the session
        conflict = shape_conflict(node)
        if isinstance(error, SpecError) and not conflict and (only := unconfirmed_shape(node)):
            conflict = f"{only}; {error}"
        if conflict:
            return Rejection(node.name, node.op_type, Reason.SHAPE, conflict)
        return defect(node, error)


def defect(node: GraphNode, error: Exception) -> Rejection:
    """The rejection of a node due to a defect of this package; logs the traceback."""
    logger.error(
        "the analysis of %s (%s) failed", node.name, node.op_type, exc_info=error, stacklevel=2
    )
    detail = f"its analysis failed, which is a defect of ep-nnapi: {error}"
    return Rejection(node.name, node.op_type, Reason.OP, detail)


def _lower(
    node: GraphNode, target: Target, *, checked: bool = True
) -> tuple[tuple[Call, ...], str]:
    """The calls and the note; a QDQ group that NNAPI cannot compute accurately uses floats."""
    if target.rules is RuleSet.EP_NNAPI:
        node = _without_empty(node)
    for prepare in (
        _require_defined_values,
        _require_numpy_ranks,  # the sizes of higher ranks cannot be read
        narrow_to_int32,  # INT64 values whose elements all fit INT32
        _require_valid_tensors,  # neither empty nor too large for NNAPI
        _prepare_quantization,  # 8-bit values as NNAPI's quantized tensors can represent them
    ):
        node = prepare(node)
    for value in node.inputs:
        if value is not None and value.constant is not None and value.constant.recipe is not None:
            require_bytes(value, target.max_dequantized_bytes)
    if (node.domain, node.op_type) not in VARIANTS and node.since <= KNOWN_OPSET:
        graph = definition(node)
        if graph is not None:
            return _lower_definition(node, graph, target, checked=checked)
    try:
        direct = tuple(_lower_operator(node, target))
        calls = _legalize(node, target, direct, checked=checked)
    except Reject as quantized:
        if not node.quantized:
            raise
        return _lower_in_floats(node, target, quantized)
    added = len(calls) - len(direct)
    return calls, _requantization_note(direct, added) or _dynamic_quantization_note(node)


_KEPT = (
    *("Attention", "GroupQueryAttention", "MultiHeadAttention", "RotaryEmbedding"),
    "TensorScatter",
)
"""Operators that a device may have; of others it may have what defines them."""


def _lower_definition(
    node: GraphNode, graph: Graph, target: Target, *, checked: bool
) -> tuple[tuple[Call, ...], str]:
    """The calls and the note of a node without a lowering, by the nodes that define it."""
    origin, calls = tuple([part.name for part in node.originals]), list[Call]()
    whole = _whole(node, target) if node.op_type in _KEPT else None
    for part in graph.nodes:
        try:
            found, _ = _lower(part, target, checked=checked)
        except Reject as reject:
            detail = f"by ONNX's definition of {node.op_type}, {part.op_type}: {reject.detail}"
            raise Reject(reject.reason, detail) from None
        calls += [call.with_origin(origin, whole or call.whole) for call in found]
    return tuple(calls), "computed by ONNX's definition of it"


def _lower_in_floats(
    node: GraphNode, target: Target, quantized: Reject
) -> tuple[tuple[Call, ...], str]:
    """The calls and the note of a QDQ group whose quantized lowering is rejected.

    The operator that its calls compute together is that of the floats, without the conversions.
    """

    def lower(in_floats: GraphNode) -> Iterator[Call]:
        calls = tuple(_lower_operator(in_floats, target))
        whole = _whole_of(in_floats, calls, target)
        return (call.with_origin(call.origin, call.whole or whole) for call in calls)

    try:
        calls = _legalize(node, target, lower_in_floats(node, lower), names_whole=False)
        return calls, f"computed in floats: {quantized.detail}"
    except Reject as in_floats:
        if in_floats.detail == quantized.detail:
            raise
        detail = f"{quantized.detail}; computed in floats: {in_floats.detail}"
        raise Reject(quantized.reason, detail) from None


def _legalize(
    node: GraphNode,
    target: Target,
    given: Iterable[Call],
    *,
    checked: bool = True,
    names_whole: bool = True,
) -> tuple[Call, ...]:
    """The node's calls, requantized where needed and validated for the target; raises Reject.

    names_whole   False if the calls say already what operator they compute together
    """
    origin = tuple([part.name for part in node.originals])
    legal = tuple(insert_requantization(given, target.feature_level))
    if not checked:
        return legal
    whole = _whole_of(node, legal, target) if names_whole else None
    calls = tuple([c.with_origin(origin, c.whole or whole) for c in legal])
    for call in calls:
        check_call(call, node, target)
    return calls


def _is_one_to_one(node: GraphNode, calls: Sequence[Call]) -> bool:
    """True if one operation takes what the node takes."""
    if len(calls) != 1:
        return False
    tensors = [arg for arg in calls[0].inputs if isinstance(arg, (Value, View))]
    taken = {arg.value.name if isinstance(arg, View) else arg.name for arg in tensors}
    return all(v is None or v.name in taken for v in node.inputs)


def _whole_of(node: GraphNode, calls: Sequence[Call], target: Target) -> Whole | None:
    """The operator that these calls compute together; None if one operation is as much."""
    return None if _is_one_to_one(node, calls) and not _keeps(node) else _whole(node, target)


def _whole(node: GraphNode, target: Target) -> Whole | None:
    """The operator that the node's calls compute together; None if more than it or part of it."""
    activation, (y, *_) = node.activation, node.outputs
    numbers = {k: v for k, v in node.attributes.items() if not isinstance(v, Constant)}
    if len(numbers) < len(node.attributes) or node.implicit or _is_rounding(node):
        return None
    if activation and y and not is_implied(Node(activation, target), y):
        return None
    return Whole(
        _operator(node), node.since, node.inputs, node.outputs, numbers, keeps=_keeps(node)
    )


def _is_rounding(node: GraphNode) -> bool:
    """True for a QuantizeLinear together with what dequantizes its result."""
    return bool(node.parts) and node.op_type == QUANTIZE


def _keeps(node: GraphNode) -> bool:
    return any(each.keeps for each in VARIANTS.get((node.domain, node.op_type), ()))


def _dynamic_quantization_note(node: GraphNode) -> str:
    if _is_rounding(node):
        return "computed in floats: NNAPI computes with 8 bits; 16 are rounded as real numbers"
    if node.domain or node.op_type not in RAW_INTEGER_OPS:
        return ""
    return (
        "computed in floats: NNAPI computes with 8 bits only if scales are constant; "
        "use quantize_static for constant scales"
    )


def _requantization_note(direct: Iterable[Call], added: int) -> str:
    if not added:
        return ""
    names = ", ".join(dict.fromkeys(c.spec.name for c in direct))
    return f"requantized by {added} ADD: {names} cannot write the scale that the model declares"


def _without_empty(node: GraphNode) -> GraphNode:
    """A Concat without parts of no elements; a Slice that gives none is folded: it is no call."""
    if node.op_type == "Concat" and not node.parts:
        kept = tuple([v for v in node.inputs if v is not None and not _is_empty(v)])
        return node if len(kept) in (0, len(node.inputs)) else replace(node, inputs=kept)
    y = node.outputs[0] if node.op_type == "Slice" else None
    if y is None or not _is_empty(y) or node.parts:
        return node
    nothing = Constant.of(np.empty([*map(now, y.shape)], y.dtype.numpy))
    return replace(node, outputs=(replace(y, constant=nothing, folded=True),))


def _is_empty(value: Value) -> bool:
    """True for a size of 0 in any case."""
    return any(type(d) is int and d == 0 for d in value.dims or ())


def _require_defined_values(node: GraphNode) -> GraphNode:
    detail = undefined_value(node)
    if detail is not None:
        raise Reject(Reason.ATTRIBUTE, detail)
    return node


def _require_numpy_ranks(node: GraphNode) -> GraphNode:
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.dims is not None and len(value.dims) > MAX_NUMPY_RANK:
            rank = len(value.dims)
            raise Reject(
                Reason.RANK, f"{value.name} has rank {rank}; the maximum is {MAX_NUMPY_RANK}"
            )
    return node


def _require_valid_tensors(node: GraphNode) -> GraphNode:
    # an empty constant may mean an omitted input; it is an error only as an operand
    require_valid_sizes([v for v in (*node.inputs, *node.outputs) if v and v.constant is None])
    return node


def _prepare_quantization(node: GraphNode) -> GraphNode:
    """Checks the 8-bit values; unquantized ones that are only moved get identity quantization."""
    if not node.parts:
        require_unquantized(node)
        return with_identity_quantization(node)
    if node.quantized:
        require_storable(v for v in (*node.inputs, *node.outputs) if v is not None)
    return node


def _lower_operator(node: GraphNode, target: Target) -> Iterator[Call]:
    """Yields the operator's calls, and those of a group's activation unless it is implied."""
    activation, y = node.activation, node.outputs[0]
    if not [v for v in node.outputs if v is not None and not v.folded]:
        yield from constants.folded_outputs(Node(node, target))
        return
    if activation is None or y is None or is_implied(Node(activation, target), y):
        yield from _operator_version(node).lower(Node(node, target))
        return
    before = replace(y, name=f"{y.name}/before {activation.op_type}")
    yield from _lower_operator(replace(node, outputs=(before,), activation=None), target)
    inputs = (before, *activation.inputs[1:])
    yield from _lower_operator(replace(activation, inputs=inputs, outputs=(y,)), target)


def _operator(node: GraphNode) -> str:
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def _operator_version(node: GraphNode) -> Operator:
    variants = VARIANTS.get((node.domain, node.op_type), ())
    operator = _operator(node)
    if not variants:
        raise Reject(Reason.OP, f"{operator}: {why(node.domain, node.op_type)}")
    if not node.domain and node.since > KNOWN_OPSET:
        detail = f"{operator}-{node.since} is newer than opset {KNOWN_OPSET}, the last known"
        raise Reject(Reason.OPSET, detail)
    for variant in variants:
        if variant.since <= node.since:
            return variant
    raise Reject(
        Reason.OPSET,
        f"{operator}-{node.since} is older than {operator}-{variants[-1].since}, the first known; "
        "convert the model to a newer opset",
    )
