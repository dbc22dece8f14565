"""A runtime whose device answers from a profile and computes on a host device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.profile.answers import Answer, Profile
from ep_nnapi.nnapi.profile.form import form_of
from ep_nnapi.nnapi.profile.use import uses
from ep_nnapi.nnapi.runtime import (
    REFERENCE_DEVICE,
    Compilation,
    CompileOptions,
    Device,
    Runtime,
)
from ep_nnapi.nnapi.validate import validate


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
