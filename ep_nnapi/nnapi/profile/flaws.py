"""Flaws of a device: operations that it computes wrongly, or that it hangs, dies or fails in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.profile.form import Form, TraitNames

ANY_TYPES = ""
"""In place of types: the flaw of an operation whatever the types of its operands."""


class Defect(StrEnum):
    """What is wrong with a result; the worst last."""

    WRONG = "wrong"
    FAILS = "fails"
    DIES = "dies"
    HANGS = "hangs"


_SENTENCES = {
    Defect.FAILS: "{device} fails in {operation}, which it says it supports",
    Defect.DIES: "{device} ends its process in {operation}",
    Defect.HANGS: "{device} hangs in {operation}",
}


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw of operations that have all of some traits.

    traits    of the operations, their ranks included; empty for all of the types
    error     the measured difference from the reference, in stored numbers; None if the results
              have another shape or are no numbers, and for defects other than WRONG
    allowed   the difference that NNAPI allows there
    detail    result code or signal
    """

    traits: TraitNames
    defect: Defect
    error: float | None = None
    allowed: float = 0.0
    detail: str = ""

    @property
    def reason(self) -> Reason:
        """The reason of rejections."""
        return Reason.ACCURACY if self.defect is Defect.WRONG else Reason.DRIVER

    def sentence(self, device: str, operation: str) -> str:
        """What the device does, for a message."""
        if self.defect is Defect.WRONG:
            off = "results that are no numbers or of another shape"
            if self.error is not None:
                off = f"an error of {self.error:.3g}, above {self.allowed:.3g}"
            return f"{device} computes {operation} wrongly: {off}"
        said = _SENTENCES[self.defect].format(device=device, operation=operation)
        return f"{said} ({self.detail})" if self.detail else said

    @property
    def severity(self) -> tuple[int, float]:
        """Greater for what is worse."""
        excess = float("inf") if self.error is None else self.error / (self.allowed or 1e-9)
        return list(Defect).index(self.defect), excess


Kind = tuple[str, str]
"""An operation, and the types of its operands as in `Form`, or ANY_TYPES."""
Flaws = Mapping[Kind, tuple[Flaw, ...]]


def flaw_of(flaws: Flaws, form: Form) -> Flaw | None:
    """The first flaw that an operation of this form has."""
    if not flaws:
        return None
    kinds = ((form.operation, form.types), (form.operation, ANY_TYPES))
    listed = (flaw for kind in kinds for flaw in flaws.get(kind, ()))
    return next((flaw for flaw in listed if flaw.traits <= form.all_traits), None)


def flaws_of(answers: Iterable[tuple[TraitNames, Flaw | None]]) -> tuple[Flaw, ...]:
    """The flaws of one kind of operations that follow from trials; None is a right one.

    As with answers of drivers, what differs between a flawed operation and one that is right is
    the cause. If fewer are right than not, all operations of the kind have the worst flaw: few
    results are right by chance.
    """
    worst: dict[TraitNames, Flaw | None] = {}
    for traits, flaw in answers:
        worst[traits] = _worse(worst.get(traits), flaw)
    right = [traits for traits, flaw in worst.items() if flaw is None]
    base = right[0] if 2 * len(right) > len(worst) else None
    causes: dict[TraitNames, Flaw] = {}
    for traits, flaw in worst.items():
        if flaw is not None:
            cause = frozenset() if base is None else traits - base or traits
            causes[cause] = _worse(causes.get(cause), flaw) or flaw
    return tuple(replace(causes[cause], traits=cause) for cause in minimal(causes))


def minimal(sets: Iterable[TraitNames]) -> tuple[TraitNames, ...]:
    """The sets that contain no other one, in a fixed order."""
    found: list[TraitNames] = []
    for traits in sorted(set(sets), key=lambda t: (len(t), sorted(t))):
        if not any(other <= traits for other in found):
            found.append(traits)
    return tuple(found)


def _worse(first: Flaw | None, second: Flaw | None) -> Flaw | None:
    if first is None or second is None:
        return first or second
    return max(first, second, key=lambda flaw: flaw.severity)


def of_operation(operation: str, flaws: Mapping[str, tuple[Flaw, ...]]) -> Flaws:
    """The flaws of an operation; one for all types if it is flawed as a whole in each of them.

    flaws   by types; empty for those that are right
    """
    each = [flaw for found in flaws.values() for flaw in found]
    if each and all(found and not found[0].traits for found in flaws.values()):
        worst = max(each, key=lambda flaw: flaw.severity)
        return {(operation, ANY_TYPES): (replace(worst, traits=frozenset()),)}
    return {(operation, types): found for types, found in flaws.items() if found}
