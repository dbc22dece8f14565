"""Operations on graph values, built by name from spec rows before operand indexes exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from operator import attrgetter

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.arguments import Arg, Given, TypedArg, View, kind_of, rank_of
from ep_nnapi.lowering.arrangement import arranged
from ep_nnapi.nnapi.codes import HIGHEST_LEVEL
from ep_nnapi.nnapi.errors import Reject, SpecError
from ep_nnapi.nnapi.immutable import immutable
from ep_nnapi.nnapi.model import AttributeValue
from ep_nnapi.nnapi.signature import Match, OperationSpec, Params

_NAME, _MANY = attrgetter("name"), attrgetter("many")


@immutable
class Whole:
    """The operator that several calls compute together; `model.Composite` with values.

    keeps   True if its constants are kept where the calls have only others made from them
    """

    name: str
    since: int
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attributes: Mapping[str, AttributeValue] = field(hash=False)
    keeps: bool = False


@immutable
class Call:
    """One operation, operands in NNAPI's order.

    origin   names of the ONNX nodes it came from
    whole    the operator that it computes together with other calls
    """

    spec: OperationSpec
    params: Params
    inputs: tuple[Arg, ...]
    outputs: tuple[Value | View, ...]
    origin: tuple[str, ...] = field(default=())
    whole: Whole | None = field(default=None, compare=False)
    _matched: list[Match] = field(default_factory=list, init=False, repr=False, compare=False)
    _reads: tuple[Value, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _writes: tuple[Value, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that it reads, without constants."""
        if self._reads is None:  # many passes over the calls ask
            values = [a.value if isinstance(a, View) else a for a in self.inputs]
            found = tuple([v for v in values if isinstance(v, Value) and v.constant is None])
            object.__setattr__(self, "_reads", found)
            return found
        return self._reads

    @property
    def writes(self) -> tuple[Value, ...]:
        """The values that it computes."""
        if self._writes is None:
            found = tuple([o.value if isinstance(o, View) else o for o in self.outputs])
            object.__setattr__(self, "_writes", found)
            return found
        return self._writes

    def match(self, feature_level: int) -> Match:
        """The signature, found once; raises Reject as `OperationSpec.match` does."""
        for found in self._matched:
            if found.level <= feature_level:
                return found
        found = self._by_types(feature_level) or self.spec.match(
            [TypedArg(a) for a in self.inputs],
            [TypedArg(o) for o in self.outputs],
            feature_level,
        )
        self._matched.append(found)
        return found

    def _by_types(self, feature_level: int) -> Match | None:
        """The signature of earlier calls with such types, if nothing but ranks matters as well."""
        args = (*self.inputs, *self.outputs)
        found = self.spec.found(len(self.inputs), tuple([kind_of(arg) for arg in args]))
        if found is None or found.match.level > feature_level:
            return None
        if self.spec.rules_for(found.match.typing).rules:
            return None
        for position, low, high in found.ranked:
            if not low <= rank_of(args[position]) <= high:
                return None
        return found.match

    def require_kernel(self, feature_level: int) -> None:
        """Raise Reject if Android's own kernels do not compute what `match` accepts."""
        if self.spec.kernel_rules:
            match = self.match(feature_level)
            if self.spec.rules_for(match.typing).kernel:
                operands = [TypedArg(a) for a in (*self.inputs, *self.outputs)]
                self.spec.require_kernel(match, operands, feature_level)

    def set_match(self, match: Match) -> None:
        """Set the signature to that of a call with operands of the same types and ranks."""
        self._matched.append(match)

    def is_supported(self, feature_level: int, kernel_level: int = HIGHEST_LEVEL) -> bool:
        """True if the feature level has the operation for these operands, the other the kernel."""
        try:
            self.match(feature_level)
            self.require_kernel(kernel_level)
        except Reject:
            return False
        return True

    def with_origin(self, origin: tuple[str, ...], whole: Whole | None = None) -> Call:
        """The call with other names of ONNX nodes, and as a part of another operator."""
        return Call(self.spec, self.params, self.inputs, self.outputs, origin, whole)

    def with_operands(
        self, inputs: tuple[Arg, ...], outputs: tuple[Value | View, ...], *origin: str
    ) -> Call:
        """The call with other operands of the same types, and more names of ONNX nodes.

        Its signature stays: sizes and quantization are the same too, in the same layouts.
        """
        names = tuple(dict.fromkeys(self.origin + origin)) if origin else self.origin
        call = Call(self.spec, self.params, inputs, outputs, names, self.whole)
        call._matched.extend(self._matched)
        return call

    def named(self) -> Mapping[str, Given]:
        """Operands by parameter name; a tuple for a repeated parameter."""
        if not any(map(_MANY, self.params)):
            return dict(zip(map(_NAME, self.params), self.inputs, strict=True))
        found: dict[str, Given] = {}
        repeated: dict[str, list[Value | View]] = {}
        for param, arg in zip(self.params, self.inputs, strict=True):
            if param.many and isinstance(arg, (Value, View)):  # not omitted
                repeated.setdefault(param.name, []).append(arg)
            else:
                found[param.name] = arg
        found.update((name, tuple(args)) for name, args in repeated.items())
        return found


def apply(
    spec: OperationSpec,
    *given: Given,
    out: Value | View | Sequence[Value | View],
    **named: Given,
) -> Call:
    """Apply an operation to operands: the first ones by position, the others by name.

    `activation` defaults to NONE; operands that are None are omitted. Raises SpecError if no
    operand list of the operation has these names, which is a bug in the caller.
    """
    outputs = (out,) if isinstance(out, (Value, View)) else tuple(out)
    found = arranged(spec, given, named)
    if found is not None:
        return Call(spec, *found, outputs)
    names = ", ".join(k for k, v in named.items() if v is not None) or "none by name"
    raise SpecError(
        f"{spec.name} has no signature with {len(given)} operands by position and {names}"
    )
