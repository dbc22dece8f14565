"""How the operands of an NNAPI operation are declared.

A form is written as text, operands in the NDK's order:

    input:T filter:T bias:T stride_width:i activation:i | layout:b@3

`name:type`, where the type is a code (i INT32, f FLOAT32, h FLOAT16, b BOOL, m MODEL, I
TENSOR_INT32, B TENSOR_BOOL8), a type variable that each `Typing` of the operation binds, or `any`.
Behind it may stand `*` (any number of such operands) or `+` (at least one; one such parameter a
form), `?` (may be left out: no value) and `@n` (only from feature level n). The list may end at any
`|`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ep_nnapi.nnapi.codes import OperandCode

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
    """What a signature needs to know of an operand."""

    @property
    def rank(self) -> int | None:
        """None: unknown; 0 for scalars."""

    @property
    def omitted(self) -> bool:
        """Whether it has no value."""

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes, 0 for unknown; () for unknown rank and scalars."""

    @property
    def scale(self) -> float:
        """Scale of the whole tensor; 0: none."""

    @property
    def zero_point(self) -> int:
        """Zero point of the whole tensor."""

    @property
    def channel_dim(self) -> int | None:
        """The dimension along which scales differ; None: no such scales."""

    def fits(self, code: OperandCode) -> bool:
        """Whether it is, or may be written as, an operand of that type."""

    def describe(self) -> str:
        """Name and type for a message: "x is TENSOR_FLOAT16"."""


@dataclass(frozen=True, slots=True)
class Param:
    """One formal operand.

    many   "" exactly one, "*" any number, "+" at least one
    last   the list may end here
    """

    name: str
    type: str
    many: str = ""
    optional: bool = False
    level: int = 1
    last: bool = False


Form = tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class Typing:
    """One binding of the type variables, accepted from feature level `level`."""

    level: int
    types: Mapping[str, OperandCode]

    def code(self, type_name: str) -> OperandCode | None:
        """The operand code that `type_name` stands for; None: any."""
        if type_name == ANY:
            return None
        return CODES[type_name] if type_name in CODES else self.types[type_name]


def typing(level: int, **types: OperandCode) -> Typing:
    """`typing(3, T=TENSOR_FLOAT16, S=FLOAT16)`."""
    return Typing(level, types)


def parse_form(text: str) -> Form:
    """The parameters that a form's text declares."""
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


def align(form: Form, count: int) -> Form | None:
    """One parameter for each of `count` operands, or None when the form has no such length."""
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
    """Whether an operand may stand for that parameter."""
    if operand.omitted and not param.optional:
        return False
    code = types.code(param.type)
    return code is None or operand.fits(code)
