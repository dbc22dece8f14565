"""Operand lists of NNAPI operations: parameters parsed from a compact text notation.

A form is one operand list of an operation, written as text in the NDK's order:

    input:T filter:T bias:T stride_width:i activation:i | layout:b@3

Each parameter is `name:type`. The type is a code (i INT32, f FLOAT32, h FLOAT16, b BOOL, m MODEL, I
TENSOR_INT32, B TENSOR_BOOL8), a type variable that each `Typing` of the operation binds, or `any`.
Suffixes, in this order: `*` (any number of operands) or `+` (at least one), at most one such
parameter in a form; `?` (optional: may be omitted); `@n` (since feature level n). Operands after
a `|` may be left off the end of the list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.immutable import frozen

CODES = {
    "i": OperandCode.INT32,
    "f": OperandCode.FLOAT32,
    "h": OperandCode.FLOAT16,
    "b": OperandCode.BOOL,
    "m": OperandCode.MODEL,
    "I": OperandCode.TENSOR_INT32,
    "B": OperandCode.TENSOR_BOOL8,
}
ANY = "any"
_PARAM = re.compile(
    r"(?P<name>\w+):(?P<type>\w+)(?P<many>[*+]?)(?P<optional>\??)(@(?P<level>\d))?$"
)


class Typed(Protocol):
    """Operand properties that signature matching uses."""

    @property
    def kind(self) -> object:
        """Hashable key that determines `omitted` and `fits`."""

    @property
    def rank(self) -> int | None:
        """Rank: 0 for scalars, None if unknown."""

    @property
    def omitted(self) -> bool:
        """True if the operand is an omitted optional one."""

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes, 0 if unknown; () for unknown rank and for scalars."""

    @property
    def scale(self) -> float:
        """Per-tensor scale; 0 if there is none."""

    @property
    def zero_point(self) -> int:
        """Per-tensor zero point; 0 if there is none."""

    @property
    def channel_dim(self) -> int | None:
        """Axis of per-channel scales; None if not quantized per channel."""

    def fits(self, code: OperandCode) -> bool:
        """Return True if it has, or can be converted to, operand type `code`."""

    def describe(self) -> str:
        """Name and type for a message, such as "x is TENSOR_FLOAT16"."""


@frozen
class Param:
    """One parameter of an operation.

    many   "" exactly one operand, "*" any number, "+" at least one
    level  feature level that introduced the parameter
    last   the operand list may end after it
    """

    name: str
    type: str
    many: str = ""
    optional: bool = False
    level: int = 1
    last: bool = False


Params = tuple[Param, ...]


@frozen
class Typing:
    """One binding of the type variables, supported since feature level `level`."""

    level: int
    types: Mapping[str, OperandCode]

    def code(self, type_name: str) -> OperandCode | None:
        """The operand type for a code letter or type variable; None for `any`."""
        if type_name == ANY:
            return None
        return CODES[type_name] if type_name in CODES else self.types[type_name]


def typing(level: int, **types: OperandCode) -> Typing:
    """Return a Typing; example: `typing(3, T=TENSOR_FLOAT16, S=FLOAT16)`."""
    return Typing(level, types)


def parse_params(text: str) -> Params:
    """Parse a form (see the module); raises ValueError for a malformed parameter."""
    params: list[Param] = []
    for group in text.split("|"):
        tokens = group.split()
        for i, token in enumerate(tokens):
            m = _PARAM.match(token)
            if m is None:
                raise ValueError(f"malformed parameter {token!r} in {text!r}")
            level, last = int(m["level"] or 1), i == len(tokens) - 1
            params.append(Param(m["name"], m["type"], m["many"], bool(m["optional"]), level, last))
    return tuple(params)


def align(form: Params, count: int) -> Params | None:
    """The parameter of each of `count` operands; None if the form cannot have that many."""
    many = next((i for i, p in enumerate(form) if p.many), None)
    if many is not None:
        copies = count - len(form) + 1
        if copies < (1 if form[many].many == "+" else 0):
            return None
        return form[:many] + (form[many],) * copies + form[many + 1 :]
    if count > len(form) or (count > 0 and not form[count - 1].last) or (count == 0 and form):
        return None
    return form[:count]


def fits(param: Param, types: Typing, operand: Typed) -> bool:
    """Return True if `operand` is a legal argument for `param` under the typing `types`."""
    if operand.omitted and not param.optional:
        return False
    code = types.code(param.type)
    return code is None or operand.fits(code)
