"""Normal form of an operation: the properties by which drivers decide if they support it.

An operation belongs to a group: its code, the type of each operand and the rank of each tensor.
Within a group operations differ by traits, each a text `name=class`: the class of a scalar's value,
constant or variable tensors, unknown dimensions, zero points and so on. Every operation of a
group has one class for each name. Values are put into classes so that there are few of them;
what a driver may tell apart has classes of its own (all fused activations, strides of 1, 2 and
more), and sizes of tensors have none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import TypeAlias

import numpy as np

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.codes import COPIED_AT_ONCE, HIGHEST_LEVEL, OperandCode
from ep_nnapi.nnapi.model import Data, Model, Omitted, Operand
from ep_nnapi.nnapi.runtime import model_digest
from ep_nnapi.nnapi.signature import OperationSpec, Param, Params


@dataclass(frozen=True, slots=True)
class OperationUse:
    """An operation, its operands in NNAPI's order and the parameter of each.

    relaxed   True if the model allows float32 to be computed as float16
    """

    spec: OperationSpec
    input_params: Params
    output_params: Params
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    relaxed: bool = False

    @property
    def named_inputs(self) -> Iterator[tuple[Param, Operand]]:
        """The inputs with their parameters."""
        return zip(self.input_params, self.inputs, strict=True)

    @property
    def named_outputs(self) -> Iterator[tuple[Param, Operand]]:
        """The outputs with their parameters."""
        return zip(self.output_params, self.outputs, strict=True)

    @property
    def digest(self) -> str:
        """Digest of all that a driver can see of the operation, in hexadecimal.

        Of constants that a driver maps instead of reading (over 128 bytes) it covers the type, the
        shape and the quantization only: drivers do not choose by the weights in them.
        """
        whole = hashlib.sha256(f"{self.spec.name} {self.relaxed}".encode())
        for operand in (*self.inputs, *self.outputs):
            whole.update(_described(operand))
        return whole.hexdigest()[:32]


def uses(model: Model) -> Iterator[OperationUse]:
    """The operations of a valid model, in its order."""
    for n, operation in enumerate(model.operations):
        match = model.match(n, HIGHEST_LEVEL)
        inputs, outputs = (
            tuple(model.operands[i] for i in ends) for ends in (operation.inputs, operation.outputs)
        )
        yield OperationUse(
            operation.spec, match.inputs, match.outputs, inputs, outputs, model.relaxed
        )


def _described(operand: Operand) -> bytes:
    channels = operand.channels and (operand.channels.dim, operand.channels.scales)
    about = (operand.dimensions, operand.scale, operand.zero_point, channels)
    value = operand.value
    text = f"{operand.type.name} {about} {type(value).__name__}\n".encode()
    if isinstance(value, Model):
        return text + model_digest(value)
    if isinstance(value, Data) and value.size <= COPIED_AT_ONCE:
        return text + value.bytes.tobytes() + b"\n"
    return text


Scalar: TypeAlias = bool | int | float

EXACT = ("activation", "padding", "axis", "mode", "type", "nms_kernel")
"""Integer operands with few values, each a class."""
COUNTS = (
    *("stride_width", "stride_height", "filter_width", "filter_height", "dilation_width"),
    *("dilation_height", "depth_multiplier", "num_groups", "block_size", "num_splits"),
)
"""Integer operands whose values 1 and 2 are classes, and all above."""
SIZES = ("output_width", "output_height", "k", "shape", "dims")
"""Operands that are sizes of tensors, of which drivers look at the tensors."""


def class_of_scalar(name: str, value: Scalar) -> str:
    """The class of the value of a constant scalar operand."""
    if name in SIZES:
        return "size"
    if isinstance(value, bool) or name in EXACT:
        return str(value)
    if name in COUNTS:
        return str(value) if value in (1, 2) else "3+" if value > 2 else "0-"
    if value == 0 or (value == 1 and not name.startswith("padding_")):
        return str(int(value))
    return "+" if value > 0 else "-"


def class_of_contents(name: str, array: Array) -> str | None:
    """The class of the elements of a constant tensor of indexes; None if they do not matter."""
    classify = _CONTENTS.get(name)
    return None if classify is None else classify([int(i) for i in array.reshape(-1)])


def _exactly(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def _sign(values: Sequence[int]) -> str:
    return "-" if any(v < 0 for v in values) else "+"


def _padded(values: Sequence[int]) -> str:
    """One digit for each axis: 1 if it is padded."""
    if any(v < 0 for v in values):
        return "-"
    pairs = zip(values[::2], values[1::2], strict=True)
    return "".join("1" if any(pair) else "0" for pair in pairs)


def _steps(values: Sequence[int]) -> str:
    if any(v < 0 for v in values):
        return "-"
    return "1" if all(v == 1 for v in values) else "+"


def _axes(values: Sequence[int]) -> str:
    """The axes in ascending order; "-" leads if some count from the end."""
    return ("- " if any(v < 0 for v in values) else "") + _exactly(sorted(values))


_CONTENTS: Mapping[str, Callable[[Sequence[int]], str]] = {
    "axes": _axes,
    "perm": _exactly,
    "paddings": _padded,
    "strides": _steps,
    "begin": _sign,
    "end": _sign,
    "size": _sign,
    "shape": _sign,
}


ZERO_POINTS = {
    OperandCode.TENSOR_QUANT8_ASYMM: (128, 0, 100),
    OperandCode.TENSOR_QUANT8_ASYMM_SIGNED: (0, -128, 100),
}
"""Zero points of samples by type: the usual one first, then the lowest and any other."""
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


TraitNames: TypeAlias = frozenset[str]


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
    traits: TraitNames

    @property
    def all_traits(self) -> TraitNames:
        """The traits among all operations of the same types: the ranks are one of them."""
        return self.traits | {f"ranks={self.ranks}"}


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
            known = isinstance(operand.value, Data)
            chosen = class_of_scalar(param.name, operand.array.item()) if known else "variable"
            yield f"{param.name}={chosen}"
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


def _relations(use: OperationUse) -> Iterator[str]:
    """Traits that compare operands with each other."""
    named = {param.name: operand for param, operand in use.named_inputs}
    for trait, names in _PAIRS.items():
        scalars = (named[n] for n in names if n in named and not named[n].type.tensor)
        given = [o.array.item() for o in scalars if isinstance(o.value, Data)]
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
