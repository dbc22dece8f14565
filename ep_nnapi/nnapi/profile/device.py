"""Device profiles, which operations a device supports, and a runtime that answers from one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.profile.form import Form, OperationUse, form_of, uses
from ep_nnapi.nnapi.runtime import (
    REFERENCE_DEVICE,
    Compilation,
    CompileOptions,
    Device,
    Runtime,
)
from ep_nnapi.nnapi.validate import validate

Group: TypeAlias = tuple[str, str, str]
"""An operation, the types and the ranks of its operands, as in `Form`."""
Traits: TypeAlias = frozenset[str]


class Answer(Enum):
    """The answer of a profile for one operation."""

    SUPPORTED = "supported"
    DECLINED = "declined"
    NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class Conditions:
    """The answers for the operations of one group.

    supported  the traits of all samples that the device supports
    declined   sets of traits that it declines; none contains another one

    A driver judges an operation by a list of checks, each of one or a few properties, and declines
    it if one fails. So an operation is supported if each of its traits is one of a supported
    sample, and it has no set of declined traits.
    """

    supported: Traits
    declined: tuple[Traits, ...]

    @staticmethod
    def of(answers: Mapping[Traits, bool], base: Traits) -> Conditions:
        """The conditions that follow from samples of one group.

        base   a supported sample; of others the traits in which they differ from it matter
        """
        supported = frozenset().union(*(t for t, yes in answers.items() if yes))
        declined = (t - base for t, yes in answers.items() if not yes)
        return Conditions(supported, _minimal(declined))

    def answer(self, traits: Traits) -> Answer:
        """The answer for an operation of the group."""
        if any(declined <= traits for declined in self.declined):
            return Answer.DECLINED
        return Answer.SUPPORTED if traits <= self.supported else Answer.NOT_RECORDED


@dataclass(frozen=True, slots=True)
class Profile:
    """The recorded answers of one device.

    device         the device as its runtime reports it
    runtime_level  feature level of that runtime
    groups         conditions by group; None: all samples of the group are declined
    exact          answers for the operations of models, by their digests
    calibration    the content of a calibration.json that was measured with the device, if any
    """

    device: Device
    runtime_level: int
    groups: Mapping[Group, Conditions | None]
    exact: Mapping[str, bool]
    calibration: Mapping[str, object] | None = None

    def answer(self, use: OperationUse, form: Form) -> Answer:
        """The answer for an operation and its normal form.

        The answer for the very operation comes first. For a group without samples there is none: a
        guess from another group might put a node on the device that the phone leaves to the CPU.
        """
        exact = self.exact.get(use.digest) if self.exact else None
        if exact is not None:
            return Answer.SUPPORTED if exact else Answer.DECLINED
        group = (form.operation, form.types, form.ranks)
        if group not in self.groups:
            return Answer.NOT_RECORDED
        conditions = self.groups[group]
        return Answer.DECLINED if conditions is None else conditions.answer(form.traits)


def _minimal(sets: Iterable[Traits]) -> tuple[Traits, ...]:
    """The sets that contain no other one, in a fixed order."""
    found: list[Traits] = []
    for traits in sorted(set(sets), key=lambda t: (len(t), sorted(t))):
        if not any(other <= traits for other in found):
            found.append(traits)
    return tuple(found)


class ProfiledRuntime:
    """The runtime of a recorded device; see `Runtime` for the methods. Thread-safe.

    It has the profile's device, and nnapi-reference as Android has its own CPU device. Both compute
    on the host runtime's nnapi-reference.

    host   the host runtime
    """

    def __init__(self, profile: Profile, host: Runtime) -> None:
        self.profile = profile
        self._host = host
        self._reference = next(d for d in host.devices() if d.name == REFERENCE_DEVICE)

    @property
    def feature_level(self) -> int:
        """The feature level of the runtime that the profile was recorded with."""
        return self.profile.runtime_level

    def devices(self) -> tuple[Device, ...]:
        """The recorded device, then nnapi-reference at the runtime's level."""
        level = min(self._reference.feature_level, self.feature_level)
        others = (replace(self._reference, feature_level=level),)
        return (self.profile.device, *(d for d in others if d.name != self.profile.device.name))

    def share(self, model: Model) -> Model:
        """The model as the host runtime shares it."""
        return self._host.share(model)

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """One bool for each operation of `model`: True if the recorded device supports it."""
        validate(model, self.feature_level)
        if device.name != self.profile.device.name:
            return self._host.supported(model, self._reference)
        return tuple(answer is Answer.SUPPORTED for answer in self.answers(model))

    def answers(self, model: Model) -> Iterator[Answer]:
        """The profile's answers for the operations of a valid model."""
        return (self.profile.answer(use, form_of(use)) for use in uses(model))

    def explanation(self, model: Model, declined: Iterable[int]) -> str:
        """The reason why the recorded device does not support these operations, for a message."""
        answers = list(self.answers(model))
        if all(answers[i] is Answer.NOT_RECORDED for i in declined):
            return "not in its profile; record it with this model"
        return "profile"

    def compile(
        self, model: Model, device: Device, options: CompileOptions | None = None
    ) -> Compilation:
        """Compile `model` for the host's nnapi-reference."""
        del device
        validate(model, self.feature_level)
        return self._host.compile(model, self._reference, options or CompileOptions())
