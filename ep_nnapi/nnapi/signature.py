"""What one NNAPI operation accepts: its forms, types, ranks and the levels that brought them.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product, repeat
from typing import Protocol, TypeAlias

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.rejection import Reason, Reject

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


@dataclass(frozen=True, slots=True)
class Match:
    """What an operation is: a parameter for each operand, the typing, the level it needs."""

    inputs: Form
    outputs: Form
    typing: Typing
    level: int


@dataclass(frozen=True, slots=True)
class Need:
    """What an operation does that takes a higher level than its types: "<operation> <what>"."""

    level: int
    what: str


@dataclass(frozen=True, slots=True)
class Application:
    """An operation's operands by name, for rules that relate them."""

    operation: str
    typing: Typing
    operands: Mapping[str, Sequence[Typed]]

    def __getitem__(self, name: str) -> Typed:
        """The only operand of that name."""
        return self.operands[name][0]


Rule: TypeAlias = Callable[[Application], Need | None]
"""A relation between operands: says what level it takes, or raises Reject if none allows it."""


@dataclass(frozen=True)
class OperationSpec:
    """One NNAPI operation.

    forms         alternative input lists; the first whose count and types fit is the one meant
    output_forms  alternative output lists
    typings       alternative bindings of the type variables
    ranks         accepted (lowest, highest) rank by operand name, inputs and outputs
    rules         relations between operands beyond types and ranks
    Source: the operation's entry in NeuralNetworksTypes.h (ANEURALNETWORKS_<name>).
    """

    name: str
    code: int
    forms: tuple[Form, ...]
    output_forms: tuple[Form, ...]
    typings: tuple[Typing, ...]
    ranks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperationSpec) and self.code == other.code

    def __hash__(self) -> int:
        return hash(self.code)

    @cached_property
    def level(self) -> int:
        """The feature level that brought the operation."""
        return min(t.level for t in self.typings)

    def match(self, inputs: Sequence[Typed], outputs: Sequence[Typed], feature_level: int) -> Match:
        """The form and typing of these operands with the lowest level.

        Raises Reject: DTYPE no typing fits, LEVEL it needs more than `feature_level`, RANK, OP for
        a number of operands that no form has, and SHAPE or QUANTIZATION of a rule.
        """
        found = min(self._fitting(inputs, outputs), key=lambda m: m.level, default=None)
        if found is None:
            raise self._mismatch(inputs, outputs)
        if found.level > feature_level:
            raise self._too_new(found, feature_level)
        named: dict[str, list[Typed]] = {}
        for param, operand in zip(found.inputs + found.outputs, (*inputs, *outputs), strict=True):
            self._check_rank(param, operand)
            named.setdefault(param.name, []).append(operand)
        level = self._check_rules(Application(self.name, found.typing, named), feature_level)
        return replace(found, level=max(found.level, level))

    def _aligned(self, n_in: int, n_out: int) -> Iterator[tuple[Form, Form]]:
        for form, output_form in product(self.forms, self.output_forms):
            ins, outs = align(form, n_in), align(output_form, n_out)
            if ins is not None and outs is not None:
                yield ins, outs

    def _fitting(self, inputs: Sequence[Typed], outputs: Sequence[Typed]) -> Iterator[Match]:
        operands = (*inputs, *outputs)
        for ins, outs in self._aligned(len(inputs), len(outputs)):
            params = ins + outs
            for t in self.typings:
                if all(_fits(p, t, o) for p, o in zip(params, operands, strict=True)):
                    level = max([self.level, t.level, *(p.level for p in params)])
                    yield Match(ins, outs, t, level)

    def _mismatch(self, inputs: Sequence[Typed], outputs: Sequence[Typed]) -> Reject:
        """The refusal of the operand that fits least far into the closest typing."""
        operands, best, found = (*inputs, *outputs), -1, None
        for ins, outs in self._aligned(len(inputs), len(outputs)):
            params = ins + outs
            for t in self.typings:
                fits = [_fits(p, t, o) for p, o in zip(params, operands, strict=True)]
                first = fits.index(False)
                if first > best:
                    best, found = first, params
        if found is None:
            count = f"{len(inputs)} inputs, {len(outputs)} outputs"
            return Reject(Reason.OP, f"{self.name} has no form of {count}")
        name = f"{self.name}.{found[best].name}"
        if operands[best].omitted and not found[best].optional:
            return Reject(Reason.OP, f"{name} must not be left out")
        left = [t for t in self.typings if all(map(_fits, found[:best], repeat(t), operands))]
        codes, every = ({t.code(found[best].type) for t in ts} for ts in (left, self.typings))
        takes = ", ".join(sorted(c.name for c in codes if c is not None))
        takes += "" if codes == every else " here"
        return Reject(Reason.DTYPE, f"{operands[best].describe()}, {name} takes {takes}")

    def _too_new(self, found: Match, feature_level: int) -> Reject:
        newest = max(found.inputs + found.outputs, key=lambda p: p.level)
        what = self.name
        if newest.level == found.level and newest.level > self.level:
            what = f"{self.name}.{newest.name}"
        elif found.level > self.level:
            types = sorted({c.name for c in found.typing.types.values() if c.tensor})
            what = f"{self.name} of {', '.join(types)}"
        return _newer(what, found.level, feature_level)

    def _check_rules(self, application: Application, feature_level: int) -> int:
        needs = [need for rule in self.rules if (need := rule(application)) is not None]
        most = max(needs, key=lambda need: need.level, default=Need(self.level, ""))
        if most.level > feature_level:
            raise _newer(f"{self.name} {most.what}", most.level, feature_level)
        return most.level

    def _check_rank(self, param: Param, operand: Typed) -> None:
        limits = self.ranks.get(param.name)
        if limits is None or operand.omitted or operand.rank is None:
            return
        low, high = limits
        if not low <= operand.rank <= high:
            takes = str(low) if low == high else f"{low}-{high}"
            found = f"{operand.describe()} of rank {operand.rank}"
            raise Reject(Reason.RANK, f"{found}, {self.name}.{param.name} takes rank {takes}")


def _fits(param: Param, types: Typing, operand: Typed) -> bool:
    if operand.omitted and not param.optional:
        return False
    code = types.code(param.type)
    return code is None or operand.fits(code)


def _newer(what: str, level: int, target: int) -> Reject:
    return Reject(Reason.LEVEL, f"{what} needs feature level {level}, the target has {target}")
