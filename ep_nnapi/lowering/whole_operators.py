"""Operators of ONNX as one call each, for devices that compute them without their members."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ep_nnapi.lowering.arguments import operand_code
from ep_nnapi.lowering.call import Call, Whole
from ep_nnapi.nnapi.signature import Typing, row

WHOLE_OPERATOR = row("WHOLE_OPERATOR", 1 << 31, "input:any* -> output:any+", [Typing(1, types={})])
"""No operation of NNAPI: the one member of a composite that stands for all of them."""


def with_whole_operators(calls: Iterable[Call], names: Collection[str]) -> list[Call]:
    """Returns the calls with one in place of the members of each operator of these names.

    Its operands are the operator's, without constants that its composite keeps. An operator that
    has none of those that it would keep, or constants alone, has its members.
    """
    found: list[Call] = []
    made: dict[int, Whole] = {}  # kept, so that each id is its own
    for call in calls:
        whole = call.whole
        if whole is None or whole.name not in names or not _is_computed(whole):
            found.append(call)
        elif id(whole) not in made:
            made[id(whole)] = whole
            found.append(_call(whole, call.origin))
    return found


def _is_computed(whole: Whole) -> bool:
    constant = {v.constant is not None for v in whole.inputs if v is not None}
    return constant == {True, False} if whole.keeps else False in constant


def _call(whole: Whole, origin: tuple[str, ...]) -> Call:
    given = [v for v in whole.inputs if v is not None and (v.constant is None or not whole.keeps)]
    inputs = tuple([v for v in given if operand_code(v) is not None])
    outputs = tuple([v for v in whole.outputs if v is not None])
    params, _ = next(WHOLE_OPERATOR.aligned(len(inputs), len(outputs)))
    return Call(WHOLE_OPERATOR, params, inputs, outputs, origin, whole)
