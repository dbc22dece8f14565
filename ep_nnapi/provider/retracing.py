"""Proof that what nodes are lowered to for sizes holds for others: they are lowered again.

Conditions cover what a lowering computes with sizes, unless it reads the number of one without any.
What is made of such a number differs for another value of the symbol.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from math import prod

from ep_nnapi.capability.node import CapableNode, judge
from ep_nnapi.errors import Rejection
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.lowering.arguments import Arg, View
from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi.expressions import Expression, Symbols
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import Size, Trace, is_symbolic
from ep_nnapi.options.target import Target
from ep_nnapi.provider.tracing import rebound

_FEW = 4096
"""Elements of constants that are compared."""


def difference(
    members: Iterable[CapableNode], symbols: Symbols, traced: Trace, target: Target
) -> str:
    """The first difference of what nodes are lowered to for these values; "" if there is none.

    Nodes whose lowering the conditions cover are not lowered again, nor those whose results are
    known: they are copied. Of nodes that differ in their names and weights alone one is. Calls are
    not checked again, except those of QDQ groups: where a check fails, these are computed in
    floats.
    traced  has the conditions of the first time, which the values meet
    """
    trace = Trace(dict(traced.typical), dict(traced.equal), dict(traced.passed))
    seen: set[Hashable] = set()
    for member in members:
        if not member.unnoted:
            continue
        kind = _kind(member.node)
        if kind is None or kind in seen:
            continue
        seen.add(kind)
        again = judge(_rebound(member.node, symbols, trace), target, checked=member.node.quantized)
        if isinstance(again, Rejection):
            return f"{again.node} is not capable: {again.detail}"
        pairs = zip(member.calls, again.calls, strict=False)
        for one, other in pairs:
            if not _alike(one, other):
                return f"{one.spec.name} of {member.node.name}"
        if len(member.calls) != len(again.calls):
            return f"{member.node.name} is {len(member.calls)} and {len(again.calls)} operations"
    return ""


def _kind(node: GraphNode) -> Hashable | None:
    """What a lowering reads of a node, without its weights; None if no symbol decides on it."""
    if all(v is None or v.folded for v in node.outputs) or not any(
        is_symbolic(_sizes(v)) for n in node.originals for v in _values(n)
    ):
        return None
    return tuple(
        (
            (n.domain, n.op_type, n.since, repr(n.attributes)),
            tuple(_of_value(v, named=False) for v in (*n.inputs, *n.outputs)),
        )
        for n in (node, *node.parts)
    )


def _values(node: GraphNode) -> Iterator[Value]:
    return (v for v in (*node.inputs, *node.outputs) if v is not None)


def _sizes(value: Value) -> tuple[int, ...]:
    numbers = value.constant.numbers if value.constant is not None else ()
    return (*numbers, *(d for d in value.dims or () if isinstance(d, int)))


def _alike(one: Call, other: Call) -> bool:
    """True if two calls are the same, but for what differs with the values of the symbols."""
    if one.spec != other.spec or [p.name for p in one.params] != [p.name for p in other.params]:
        return False
    args, others = (*one.inputs, *one.outputs), (*other.inputs, *other.outputs)
    return len(args) == len(others) and all(
        a is b or _of_arg(a) == _of_arg(b) for a, b in zip(args, others, strict=True)
    )


def _of_arg(arg: Arg) -> Hashable:
    if isinstance(arg, View):
        return _of_value(arg.value), arg.perm
    if isinstance(arg, Size):
        return arg.expression
    return _of_value(arg) if isinstance(arg, Value) else (type(arg), repr(arg))


def _of_value(value: Value | None, *, named: bool = True) -> Hashable:
    if value is None:
        return None
    dims: Hashable = value.dims
    if value.dims is not None and Size in map(type, value.dims):
        dims = tuple([d.expression if isinstance(d, Size) else d for d in value.dims])
    constant = value.constant and _of_constant(value.constant)
    return named and value.name, value.dtype, dims, value.quantization, value.folded, constant


def _of_constant(constant: Constant) -> Hashable:
    """Of many elements, or as many as sizes say, the shape."""
    if constant.numbers:
        return tuple(map(Expression.of, constant.numbers))
    if is_symbolic(constant.shape) or prod(constant.shape) > _FEW:
        return tuple(map(Expression.of, constant.shape)), constant.dtype
    return constant.shape, constant.dtype, constant.array.tobytes()


def _rebound(node: GraphNode, symbols: Symbols, trace: Trace) -> GraphNode:
    """The node with these values of the symbols of its sizes."""
    sized = partial(rebound, values=symbols, trace=trace)

    def changed(value: Value | None) -> Value | None:
        if value is None or not is_symbolic(_sizes(value)):
            return value
        dims = value.dims and tuple(sized(d) if isinstance(d, int) else d for d in value.dims)
        constant = value.constant
        if constant is not None and constant.numbers:
            numbers = tuple(map(sized, constant.numbers))
            constant = Constant.of_sizes(numbers, constant.shape, constant.dtype)
        return replace(value, dims=dims, constant=constant)

    activation = node.activation
    return replace(
        node,
        inputs=tuple(map(changed, node.inputs)),
        outputs=tuple(map(changed, node.outputs)),
        parts=tuple(_rebound(part, symbols, trace) for part in node.parts),
        activation=activation and _rebound(activation, symbols, trace),
    )
