"""Devices that other packages add to the host runtime, found by their entry points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from math import inf
from typing import Protocol

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.nnapi.host.runtime import HostDevice, HostRuntime

GROUP = "nnapi.host_devices"
"""Group of the entry points; each is a `DeviceSource`."""


class DeviceSource(Protocol):
    """The devices of a package: some are always there, others for those who name them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the devices that `named` opens, for a message."""

    def always(self) -> tuple[HostDevice, ...]:
        """Return the devices of every runtime, in the order in which it reports them."""

    def opens(self, name: str) -> bool:
        """Return True if `named` may open a device of that name."""

    def named(self, name: str) -> HostDevice:
        """Open a device by its name; raises OptionError if it is not there."""

    def least_work(self, name: str) -> float:
        """Return from how many multiply-accumulates of a model on the device is preferred.

        Infinity for devices that are tried in the runtime's order, those of other packages too.
        """


@cache
def sources() -> tuple[DeviceSource, ...]:
    """Return the sources of all installed packages, by name."""
    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return tuple(entry.load() for entry in found)


def is_named_only(name: str | None) -> bool:
    """Return True for a device that a runtime has only if it is opened with its name."""
    return name is not None and any(source.opens(name) for source in sources())


def least_work(name: str) -> float:
    """Return the work from which on a device is preferred, as `DeviceSource.least_work`."""
    return min((source.least_work(name) for source in sources()), default=inf)


def host_runtime(feature_level: int = 8, names: Sequence[str] = ()) -> HostRuntime:
    """Return a runtime with nnapi-reference, the devices that are always there, then `names`.

    Raises OptionError for a feature level that is not 1 to 8, for a name that no package knows and
    for a device that is not there.
    """
    always = [device for source in sources() for device in source.always()]
    return HostRuntime((ReferenceDevice(), *always, *map(_opened, names)), feature_level)


def _opened(name: str) -> HostDevice:
    for source in sources():
        if source.opens(name):
            return source.named(name)
    known = ", ".join(n for source in sources() for n in source.names) or "none"
    raise OptionError(f"device {name!r} cannot be opened by its name; those that can: {known}")
