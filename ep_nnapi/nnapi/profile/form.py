"""Normal form of an operation: the properties by which drivers decide if they support it.

An operation belongs to a group: its code, the type of each operand and the rank of each tensor.
Within a group operations differ by traits, each a text `name=class`: the class of a scalar's value,
constant or variable tensors, unknown dimensions, zero points and so on. Every operation of a
group has one class for each name. Values are put into classes so that there are few of them;
what a driver may tell apart has classes of its own (all fused activations, strides of 1, 2 and
more), and sizes of tensors have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Data, Omitted, Operand
from ep_nnapi.nnapi.profile.classes import class_of_contents, class_of_scalar
from ep_nnapi.nnapi.profile.quantization import ZERO_POINTS
from ep_nnapi.nnapi.profile.use import OperationUse
from ep_nnapi.nnapi.signature import Param

MAX_RANK = 7
"""Ranks from this one on count as one."""
MAX_COUNT = 9
"""Numbers of repeated operands from this one on count as one."""

_PAIRS = {
    "square_strides": ("stride_width", "stride_height"),
    "square_filter": ("filter_width", "filter_height"),
    "square_dilation": ("dilation_width", "dilation_height"),
    "square_output": ("output_width", "output_height"),
    "symmetric_columns": ("padding_left", "padding_right"),
    "symmetric_rows": ("padding_top", "padding_bottom"),
}
"""Pairs of scalars that a driver may want to be equal."""


@dataclass(frozen=True, slots=True)
class Form:
    """Normal form of an operation.

    operation   name of the operation
    types       types of the operands, those of a repeated parameter once, such as
                "TENSOR_FLOAT32*2 INT32 > TENSOR_FLOAT32"
    ranks       ranks of the tensors in the same order, such as "4 1 > 4"; "?" if unknown
    traits      texts `name=class`
    """

    operation: str
    types: str
    ranks: str
    traits: frozenset[str]


def form_of(use: OperationUse) -> Form:
    """The normal form of an operation."""
    sides = (list(use.named_inputs), list(use.named_outputs))
    types = " > ".join(" ".join(_types(side)) for side in sides)
    ranks = " > ".join(" ".join(_ranks(use, side)) for side in sides)
    return Form(use.spec.name, types, ranks, frozenset(_traits(use)))


def _collapsed(side: Sequence[tuple[Param, Operand]]) -> Iterator[list[tuple[Param, Operand]]]:
    """The operands by parameter: those of a repeated one together."""
    for name, members in groupby(side, key=lambda pair: pair[0].name):
        del name
        yield list(members)


def _types(side: Sequence[tuple[Param, Operand]]) -> Iterator[str]:
    """The types of a side's operands; equal ones in a row once, with their number."""
    for name, alike in groupby(map(_type, _collapsed(side))):
        count = sum(1 for _ in alike)
        yield name if count == 1 else f"{name}*{count}"


def _type(members: Sequence[tuple[Param, Operand]]) -> str:
    param, operand = members[0]
    codes = sorted({o.type.name for _, o in members})
    if isinstance(operand.value, Omitted):
        return "-"
    return "|".join(codes) + ("+" if param.many else "")


def _ranks(use: OperationUse, side: Sequence[tuple[Param, Operand]]) -> Iterator[str]:
    """The ranks of a side's tensors.

    The rank of an elementwise operand below the output's is "<" if that is more than 4.
    """
    highest = len(use.outputs[0].dimensions)
    for members in _collapsed(side):
        rank = _rank(members)
        lower = rank.isdigit() and int(rank) < min(highest, MAX_RANK)
        if lower and highest > 4 and members[0][0].name in use.spec.traits.elementwise:
            yield "<"
        elif rank:
            yield rank


def _rank(members: Sequence[tuple[Param, Operand]]) -> str:
    _, operand = members[0]
    if not operand.type.tensor or isinstance(operand.value, Omitted):
        return ""
    ranks = {len(o.dimensions) for _, o in members}
    return "|".join("?" if r == 0 else str(min(r, MAX_RANK)) for r in sorted(ranks))


def _traits(use: OperationUse) -> Iterator[str]:
    yield f"relaxed={_yes(use.relaxed)}"
    for members in _collapsed(list(use.named_inputs)):
        (param, operand), operands = members[0], [o for _, o in members]
        if isinstance(operand.value, Omitted):
            continue
        if param.many:
            yield f"{param.name}.count={_count(len(operands))}"
        if operand.type.tensor:
            yield from _tensor_traits(param.name, operands)
        else:
            yield f"{param.name}={_scalar_class(param.name, operand)}"
    for members in _collapsed(list(use.named_outputs)):
        name = members[0][0].name
        if members[0][0].many:
            yield f"{name}.count={_count(len(members))}"
        yield from _output_traits(name, [o for _, o in members])
    yield from _relations(use)


def _tensor_traits(name: str, operands: Sequence[Operand]) -> Iterator[str]:
    constant = [isinstance(o.value, Data) for o in operands]
    kinds = "constant" if all(constant) else "some constant" if any(constant) else "variable"
    yield f"{name}={kinds}"
    yield from _output_traits(name, operands)
    if all(constant) and operands[0].type is OperandCode.TENSOR_INT32:
        contents = class_of_contents(name, operands[0].array)
        if contents is not None:
            yield f"{name}.value={contents}"


def _output_traits(name: str, operands: Sequence[Operand]) -> Iterator[str]:
    if not operands[0].type.tensor:
        return
    yield f"{name}.sizes={'known' if all(o.known for o in operands) else 'unknown'}"
    if operands[0].type in ZERO_POINTS:
        classes = {_zero_point(o) for o in operands}
        yield f"{name}.zero_point={','.join(sorted(classes))}"


def _scalar_class(name: str, operand: Operand) -> str:
    if not isinstance(operand.value, Data):
        return "variable"
    return class_of_scalar(name, operand.array.item())


def _relations(use: OperationUse) -> Iterator[str]:
    """Traits that compare operands with each other."""
    named = {param.name: operand for param, operand in use.named_inputs}
    for trait, names in _PAIRS.items():
        given = [named[n].array.item() for n in names if _constant_scalar(named.get(n))]
        if len(given) == 2:
            yield f"{trait}={_yes(given[0] == given[1])}"
    output = use.outputs[0]
    operands = [named[n] for n in use.spec.traits.elementwise if n in named]
    if len(operands) > 1 and all(o.known for o in (*operands, output)):
        for name, operand in zip(use.spec.traits.elementwise, operands, strict=True):
            yield f"{name}.shape={_broadcast(operand.dimensions, output.dimensions)}"
    yield from _quantization(use, named, output)


def _quantization(use: OperationUse, named: dict[str, Operand], output: Operand) -> Iterator[str]:
    if output.type not in ZERO_POINTS:
        return
    same = [o for o in use.inputs if o.type is output.type]
    if same:
        equal = all(_parameters(o) == _parameters(output) for o in same)
        yield f"same_quantization={_yes(equal)}"
    weights = named.get("filter") or named.get("weights")
    if weights is not None and weights.channels is None and weights.scale:
        product = np.float32(use.inputs[0].scale) * np.float32(weights.scale)
        yield f"wide_output_scale={_yes(bool(np.float32(output.scale) > product))}"


def _zero_point(operand: Operand) -> str:
    usual, lowest, _ = ZERO_POINTS[operand.type]
    return str(operand.zero_point) if operand.zero_point in (usual, lowest) else "other"


def _parameters(operand: Operand) -> tuple[float, int]:
    return float(np.float32(operand.scale)), operand.zero_point


def _constant_scalar(operand: Operand | None) -> bool:
    return operand is not None and not operand.type.tensor and isinstance(operand.value, Data)


def _broadcast(dims: Sequence[int], output: Sequence[int]) -> str:
    """Class of an elementwise operand's shape: how it broadcasts to the output's."""
    whole = tuple(dims) == tuple(output)
    if prod(dims) == 1:
        return "one element, whole" if whole else "one element"
    if prod(dims[:-1]) == 1 and (not output or dims[-1] == output[-1]):
        return "last axis, whole" if whole else "last axis"
    return "whole" if whole else "other"


def _count(n: int) -> str:
    return str(n) if n < MAX_COUNT else f"{MAX_COUNT}+"


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"
