"""Signatures of NNAPI operations: operand lists, types, ranks, their feature levels, and traits.

A form is one operand list of an operation, written as text in the NDK's order:

    input:T filter:T bias:T stride_width:i activation:i | layout:b@3

Each parameter is `name:type`. The type is a code (i INT32, f FLOAT32, h FLOAT16, b BOOL, m MODEL, I
TENSOR_INT32, B TENSOR_BOOL8), a type variable that each `Typing` of the operation binds, or `any`.
Suffixes, in this order: `*` (any number of operands) or `+` (at least one), at most one such
parameter in a form; `?` (optional: may be omitted); `@n` (since feature level n); `^n` or `^n-m`
(rank n, or n to m). Operands after a `|` may be left off the end of the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache, partial
from itertools import product, repeat
from typing import Any

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.rules import OF_QUANTIZED, OperationRule, RuleOperands, Typed

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
_PARAM = re.compile(r"(\w+):(\w+)([*+]?)(\??)(?:@(\d))?(?:\^(\d)(?:-(\d))?)?$")
"""Name, type, number, optional, level, lowest and highest rank."""


@frozen
class Param:
    """One parameter of an operation.

    many   "" exactly one operand, "*" any number, "+" at least one
    level  feature level that introduced the parameter
    last   the operand list may end after it
    ranks  lowest and highest rank; None: any
    """

    name: str
    type: str
    many: str = ""
    optional: bool = False
    level: int = 1
    last: bool = False
    ranks: tuple[int, int] | None = None


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
            name, kind, many, optional, level, low, high = m.groups()
            ranks = (int(low), int(high or low)) if low else None
            last = i == len(tokens) - 1
            params.append(Param(name, kind, many, bool(optional), int(level or 1), last, ranks))
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


class AxisUse(Enum):
    """Use of the operand `axis` (or `axes`) by an operation on its operand `input`."""

    ALONG = "the output keeps the axis; the last one if the operand is omitted"
    REMOVED = "the output lacks the axis"
    REDUCED = "the output has size 1 along the axes if `keep_dims` is set, else lacks them"


@frozen
class Traits:
    """Properties of an operation beyond its signature, a part of its row in `spec`.

    elementwise          names of the operands that broadcast to the shape of the output
    axis                 use of the operand `axis` or `axes`; None if there is none
    per_axis             names of the operands that have one entry for each axis of `input`
    keeps_quantization   the output has the scale and the zero point of the first input
    selects              each output element is one of the inputs' elements, or a limit of them;
                         the operation does not round
    output_quantization  the scale and the zero point that an unsigned 8-bit output must have
    """

    elementwise: tuple[str, ...] = ()
    axis: AxisUse | None = None
    per_axis: tuple[str, ...] = ()
    keeps_quantization: bool = False
    selects: bool = False
    output_quantization: tuple[float, int] | None = None

    @property
    def clamps(self) -> bool:
        """True for activations that limit the range of their input (RELU, RELU1, RELU6)."""
        return bool(self.elementwise) and self.keeps_quantization and self.selects


NO_TRAITS = Traits()


_MAX_FITTING = 64
"""Number of matches that an operation caches."""


@frozen
class Match:
    """Matched signature: the parameter of each operand, the typing, the feature level needed."""

    inputs: Params
    outputs: Params
    typing: Typing
    level: int


@frozen
class Rules:
    """Rules of an operation that may refuse operands of a typing, see `OperationSpec`."""

    rules: tuple[OperationRule, ...]
    kernel: tuple[OperationRule, ...]


@dataclass(frozen=True)
class OperationSpec:
    """Specification of one NNAPI operation.

    input_params   alternative input lists; the first with matching count and types is used
    output_params  alternative output lists
    typings        alternative bindings of the type variables
    rules          constraints between operands beyond types and ranks
    kernel_rules   what Android's own kernels need beyond what it validates; only lowerings keep to
                   them: nnapi-reference computes more
    traits         properties that shape inference, layouts and quantization use
    Source: the operation's entry in NeuralNetworksTypes.h (ANEURALNETWORKS_<name>).
    """

    name: str
    code: int
    input_params: tuple[Params, ...]
    output_params: tuple[Params, ...]
    typings: tuple[Typing, ...]
    rules: tuple[OperationRule, ...] = ()
    kernel_rules: tuple[OperationRule, ...] = ()
    traits: Traits = NO_TRAITS

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperationSpec) and self.code == other.code

    def __hash__(self) -> int:
        return self.code

    @cached_property
    def input_places(self) -> tuple[Mapping[str, int], ...]:
        """For each input list, the position of the first parameter of each name."""
        return tuple(
            {param.name: len(form) - 1 - i for i, param in enumerate(reversed(form))}
            for form in self.input_params
        )

    @cached_property
    def ranks(self) -> Mapping[str, tuple[int, int]]:
        """Accepted (lowest, highest) rank by operand name, inputs and outputs."""
        params = (p for form in (*self.input_params, *self.output_params) for p in form)
        return {p.name: p.ranks for p in params if p.ranks}

    @cached_property
    def level(self) -> int:
        """The feature level that introduced the operation."""
        return min(t.level for t in self.typings)

    @cached_property
    def arrangements(self) -> dict[tuple[object, ...], Any]:
        """For `lowering.call`: what it has found of the operation's lists of operands."""
        return {}

    @cached_property
    def _rules(self) -> dict[int, Rules]:
        """Rules by the identity of each typing."""
        return {}

    def rules_for(self, typing: Typing) -> Rules:
        """The rules that may refuse operands of one of the operation's typings."""
        found = self._rules.get(id(typing))
        if found is None:
            quantized = any(code.quantized for code in typing.types.values())
            every = (self.rules, self.kernel_rules)
            left = (tuple(r for r in each if quantized or r not in OF_QUANTIZED) for each in every)
            found = self._rules[id(typing)] = Rules(*left)
        return found

    @cached_property
    def _choices(self) -> Callable[[int, int], tuple[PossibleMatch, ...]]:
        """Possible matches by number of inputs and outputs, cached for recent numbers."""
        return lru_cache(maxsize=16)(partial(_choices, self))

    @cached_property
    def _fitting(self) -> dict[tuple[int, tuple[object, ...]], PossibleMatch]:
        """The last matches found, by number of inputs and kinds of all operands."""
        return {}

    def found(self, inputs: int, kinds: tuple[object, ...]) -> PossibleMatch | None:
        """The match found for earlier operands of these kinds, apart from ranks and rules."""
        return self._fitting.get((inputs, kinds))

    def match(self, inputs: Sequence[Typed], outputs: Sequence[Typed], feature_level: int) -> Match:
        """Return the operand lists and typing that match the operands at the lowest level.

        Raises Reject: DTYPE if no typing matches, LEVEL if more than `feature_level` is needed,
        RANK, OP for a number of operands that no form has, SHAPE or QUANTIZATION from a rule.
        """
        operands = (*inputs, *outputs)
        choice = self._choice(operands, len(inputs))
        if choice is None:
            raise self._mismatch(inputs, outputs)
        found = choice.match
        if found.level > feature_level:
            raise self._too_new(found, feature_level)
        for position, low, high in choice.ranked:
            rank = operands[position].rank
            if rank is not None and not low <= rank <= high and not operands[position].omitted:
                param = (*found.inputs, *found.outputs)[position]
                raise self._wrong_rank(param, operands[position])
        rules = self.rules_for(found.typing).rules
        level = self._check_rules(rules, found, operands, feature_level)
        return found if level <= found.level else replace(found, level=level)

    def require_kernel(self, match: Match, operands: Sequence[Typed], feature_level: int) -> None:
        """Raise Reject, as `match` does, if Android's own kernels of the level break a rule."""
        self._check_rules(self.rules_for(match.typing).kernel, match, operands, feature_level)

    def _choice(self, operands: Sequence[Typed], inputs: int) -> PossibleMatch | None:
        """The match at the lowest level for these operands, of which the first are inputs."""
        key = inputs, tuple([operand.kind for operand in operands])
        found = self._fitting.get(key)
        if found is None:
            choices = self._choices(inputs, len(operands) - inputs)
            found = next((c for c in choices if c.fit(operands)), None)
            if found is not None:
                if len(self._fitting) >= _MAX_FITTING:
                    self._fitting.clear()
                self._fitting[key] = found
        return found

    def aligned(self, n_in: int, n_out: int) -> Iterator[tuple[Params, Params]]:
        """Pairs of input and output lists of these lengths, one parameter for each operand."""
        for input_params, output_params in product(self.input_params, self.output_params):
            ins, outs = align(input_params, n_in), align(output_params, n_out)
            if ins is not None and outs is not None:
                yield ins, outs

    def _mismatch(self, inputs: Sequence[Typed], outputs: Sequence[Typed]) -> Reject:
        """The Reject for the first operand that the best matching typing does not accept."""
        operands, best, found = (*inputs, *outputs), -1, None
        for ins, outs in self.aligned(len(inputs), len(outputs)):
            params = ins + outs
            for t in self.typings:
                fitting = [fits(p, t, o) for p, o in zip(params, operands, strict=True)]
                first = fitting.index(False)
                if first > best:
                    best, found = first, params
        if found is None:
            count = f"{len(inputs)} inputs, {len(outputs)} outputs"
            return Reject(Reason.OP, f"{self.name} has no signature with {count}")
        name = f"{self.name}.{found[best].name}"
        if operands[best].omitted and not found[best].optional:
            return Reject(Reason.OP, f"{name} must not be left out")
        left = [t for t in self.typings if all(map(fits, found[:best], repeat(t), operands))]
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

    def _check_rules(
        self,
        rules: Sequence[OperationRule],
        found: Match,
        operands: Sequence[Typed],
        feature_level: int,
    ) -> int:
        if not rules:
            return self.level
        named: dict[str, list[Typed]] = {}
        for param, operand in zip(found.inputs + found.outputs, operands, strict=True):
            named.setdefault(param.name, []).append(operand)
        application = RuleOperands(self.name, found.typing, named)
        needs = [need for rule in rules if (need := rule(application)) is not None]
        if not needs:
            return self.level
        most = max(needs, key=lambda need: need.level)
        if most.level > feature_level:
            raise _newer(f"{self.name} {most.what}", most.level, feature_level)
        return most.level

    def _wrong_rank(self, param: Param, operand: Typed) -> Reject:
        takes = "-".join(map(str, dict.fromkeys(param.ranks or ())))
        found = f"{operand.describe()} of rank {operand.rank}"
        return Reject(Reason.RANK, f"{found}, {self.name}.{param.name} takes rank {takes}")


def row(
    name: str,
    code: int,
    signatures: str,
    typings: Sequence[Typing],
    *rules: OperationRule,
    kernel: Sequence[OperationRule] = (),
    traits: Traits = NO_TRAITS,
) -> OperationSpec:
    """Return a row of the operation table.

    signatures   "inputs -> outputs"; alternatives for either are separated by "or"
    kernel       what Android's own kernels need beyond that, see `OperationSpec.kernel_rules`
    traits       properties that passes over a model use
    """
    ins, outs = (tuple(map(parse_params, side.split(" or "))) for side in signatures.split("->"))
    return OperationSpec(name, code, ins, outs, tuple(typings), rules, tuple(kernel), traits)


@frozen
class PossibleMatch:
    """A possible match.

    takes    (type, optional) of each operand, type None for any
    ranked   operands with limited ranks: position, lowest and highest rank
    """

    match: Match
    takes: tuple[tuple[OperandCode | None, bool], ...]
    ranked: tuple[tuple[int, int, int], ...]

    def fit(self, operands: Sequence[Typed]) -> bool:
        """Return True if the operands have these types."""
        for (code, optional), operand in zip(self.takes, operands, strict=True):
            if (operand.omitted and not optional) or not (code is None or operand.fits(code)):
                return False
        return True


def _choices(spec: OperationSpec, n_in: int, n_out: int) -> tuple[PossibleMatch, ...]:
    """All possible matches for these numbers of operands, lowest feature level first."""
    found = [
        PossibleMatch(
            Match(ins, outs, t, max([spec.level, t.level, *(p.level for p in ins + outs)])),
            tuple([(t.code(p.type), p.optional) for p in ins + outs]),
            tuple([(i, *p.ranks) for i, p in enumerate(ins + outs) if p.ranks]),
        )
        for ins, outs in spec.aligned(n_in, n_out)
        for t in spec.typings
    ]
    return tuple(sorted(found, key=lambda c: c.match.level))


def _newer(what: str, level: int, target: int) -> Reject:
    return Reject(Reason.LEVEL, f"{what} needs feature level {level}, the target has {target}")
