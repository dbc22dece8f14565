"""Device profiles, which operations a device supports, and a runtime that answers from one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.profile.flaws import Flaw, Flaws, flaw_of, minimal
from ep_nnapi.nnapi.profile.form import Form, OperationUse, TraitNames, form_of, uses
from ep_nnapi.nnapi.runtime import (
    REFERENCE_DEVICE,
    Compilation,
    CompileOptions,
    Device,
    ExplainingRuntime,
    Runtime,
    SizedRuntime,
)
from ep_nnapi.nnapi.validate import validate

Group: TypeAlias = tuple[str, str, str]
"""An operation, the types and the ranks of its operands, as in `Form`."""


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

    supported: TraitNames
    declined: tuple[TraitNames, ...]

    @staticmethod
    def of(answers: Mapping[TraitNames, bool], base: TraitNames) -> Conditions:
        """The conditions that follow from samples of one group.

        base   a supported sample; of others the traits in which they differ from it matter
        """
        supported = frozenset().union(*(t for t, yes in answers.items() if yes))
        declined = (t - base for t, yes in answers.items() if not yes)
        return Conditions(supported, minimal(declined))

    def answer(self, traits: TraitNames) -> Answer:
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
    flaws          what it computes wrongly, by operation and types; None: it was not examined
    """

    device: Device
    runtime_level: int
    groups: Mapping[Group, Conditions | None]
    exact: Mapping[str, bool]
    calibration: Mapping[str, object] | None = None
    flaws: Flaws | None = None

    def verdicts(self, model: Model, declined: Iterable[int]) -> Mapping[int, tuple[Reason, str]]:
        """As in `ExaminedDevice`."""
        flaws, operations = self.flaws_in(model), model.operations
        device = self.device.name
        return {
            i: (flaws[i].reason, flaws[i].sentence(device, operations[i].spec.name))
            for i in declined
            if i in flaws
        }

    def flaws_in(self, model: Model) -> dict[int, Flaw]:
        """The flaws of operations of a valid model, by their index."""
        if not self.flaws:
            return {}
        found = (flaw_of(self.flaws, form_of(use)) for use in uses(model))
        return {i: flaw for i, flaw in enumerate(found) if flaw is not None}

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


class ProfiledRuntime:
    """The runtime of a recorded device; see `Runtime` for the methods. Thread-safe.

    It has the profile's device, and nnapi-reference as Android has its own CPU device. Both compute
    on the host runtime's nnapi-reference.

    host   the host runtime
    """

    def __init__(self, profile: Profile, host: Runtime) -> None:
        self.profile, self.feature_level = profile, profile.runtime_level
        self._host, self.share = host, host.share
        self._reference = next(d for d in host.devices() if d.name == REFERENCE_DEVICE)
        self.verdicts = profile.verdicts

    def devices(self) -> tuple[Device, ...]:
        """The recorded device, then nnapi-reference at the runtime's level."""
        level = min(self._reference.feature_level, self.feature_level)
        others = (replace(self._reference, feature_level=level),)
        return (self.profile.device, *(d for d in others if d.name != self.profile.device.name))

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """One bool for each operation of `model`: True if the recorded device supports it.

        It supports none that it computes wrongly.
        """
        validate(model, self.feature_level)
        if device.name != self.profile.device.name:
            return self._host.supported(model, self._reference)
        flawed = self.profile.flaws_in(model)
        answers = enumerate(self.answers(model))
        return tuple(answer is Answer.SUPPORTED and i not in flawed for i, answer in answers)

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


class ExaminedRuntime:
    """A runtime whose device is not given what it was found to compute wrongly. Thread-safe.

    Nor is it asked about such operations. All else is up to the runtime.
    """

    def __init__(self, profile: Profile, runtime: Runtime) -> None:
        self.profile = profile
        self._runtime = runtime
        self.functions = getattr(runtime, "functions", runtime)  # what failures are counted by
        self.feature_level = runtime.feature_level
        self.devices, self.share, self.compile = runtime.devices, runtime.share, runtime.compile
        self.verdicts = profile.verdicts

    def supported(self, model: Model, device: Device) -> tuple[bool, ...]:
        """One bool for each operation of `model`; of a model with flaws, False for those alone."""
        if device.name == self.profile.device.name:
            flawed = self.profile.flaws_in(model)
            if flawed:
                return tuple(i not in flawed for i in range(len(model.operations)))
        return self._runtime.supported(model, device)

    def takes_sizes(self, device: Device) -> bool:
        """As the runtime says."""
        return isinstance(self._runtime, SizedRuntime) and self._runtime.takes_sizes(device)

    def whole_operators(self, device: Device) -> Collection[str]:
        """None: a profile has answers for operations."""
        return ()

    def explanation(self, model: Model, declined: Iterable[int]) -> str:
        """The reason why the device does not support these operations; "" for no more to say."""
        if isinstance(self._runtime, ExplainingRuntime):
            return self._runtime.explanation(model, declined)
        return ""
