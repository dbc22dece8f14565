"""Phones that would take the alternatives of compiled clusters: feature levels, device profiles."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ep_nnapi.diagnostics.inspect_context import unpacked
from ep_nnapi.epcontext.alternatives import Alternative, everything
from ep_nnapi.epcontext.layout import AlternativeKind
from ep_nnapi.nnapi.errors import module_logger
from ep_nnapi.provider.compiler import Compiler
from ep_nnapi.provider.declined import Declined
from ep_nnapi.provider.devices import choose_device, default_device, runtime_of
from ep_nnapi.provider.virtual_devices import VirtualDevice, level_devices, profiled_devices

logger = module_logger(__name__)
WITHOUT_NNAPI = "without NNAPI"


@dataclass(frozen=True, slots=True)
class Phone:
    """What one phone takes of the compiled clusters of a model.

    name           of the virtual device, or `without NNAPI`
    feature_level  0 without NNAPI
    declined       of each cluster, by the names of its alternatives: why; empty if it takes it
    """

    name: str
    feature_level: int
    declined: tuple[Mapping[str, str], ...]

    def takes(self, alternative: str, cluster: int) -> bool:
        """Returns True if it takes an alternative of a cluster, by its position in the model."""
        return self.declined[cluster].get(alternative) == ""

    def answer(self, alternative: str) -> str:
        """Returns `yes`, or the reason of the first cluster that it does not take; "-": unknown."""
        found = [each[alternative] for each in self.declined if alternative in each]
        reasons = [why for why in found if why]
        if not reasons:
            return "yes" if found else "-"
        of = f"{len(reasons)} of {len(found)} not: " if len(found) > 1 else ""
        return of + reasons[0]

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        declined = [dict(each) for each in self.declined]
        return {"name": self.name, "feature_level": self.feature_level, "declined": declined}


def phones(model: str | os.PathLike[str] | bytes) -> tuple[Phone, ...]:
    """Returns the virtual devices, then a phone without NNAPI; empty without compiled clusters.

    A device profile that cannot be read is left out, which is logged. Raises as `contents`.
    """
    clusters = [alternatives for _, _, alternatives in unpacked(model)]
    if not clusters:
        return ()
    return (
        *(_phone(device, clusters) for device in level_devices()),
        *(_phone(device, clusters) for device in _profiled()),
        Phone(WITHOUT_NNAPI, 0, tuple({a.name: _why(a, 0, None) for a in c} for c in clusters)),
    )


def columns(found: Sequence[Phone]) -> tuple[str, ...]:
    """Returns the names of a table of phones x alternatives, whose rows are of `row`."""
    names = dict.fromkeys(name for phone in found for each in phone.declined for name in each)
    return ("phone", "level", *names)


def row(phone: Phone, names: Sequence[str]) -> tuple[str, ...]:
    """Returns a row of the table with these columns."""
    answers = (phone.answer(name) for name in names[2:])
    return (phone.name, str(phone.feature_level or "-"), *answers)


def takers(found: Sequence[Phone], alternative: str, cluster: int) -> str:
    """Returns the names of phones that take an alternative, such as `levels 4 to 8, npu`; `all`."""
    by_level = {device.name for device in level_devices()}
    taking = [phone for phone in found if phone.takes(alternative, cluster)]
    if len(taking) == len(found):
        return "all"
    levels = [phone.feature_level for phone in taking if phone.name in by_level]
    names = [phone.name for phone in taking if phone.name not in by_level]
    if levels:
        lowest, highest = min(levels), max(levels)
        names.insert(0, f"levels {lowest} to {highest}" if highest > lowest else f"level {lowest}")
    return ", ".join(names) or "-"


def _profiled() -> Iterator[VirtualDevice]:
    for device in profiled_devices():
        if isinstance(device, VirtualDevice):
            yield device
        else:
            logger.warning("no phone: %s", device)


def _phone(device: VirtualDevice, clusters: Sequence[Sequence[Alternative]]) -> Phone:
    compiler = None
    if device.option[0] == "device_profile":  # those by level take all operations of theirs
        options = device.session_options()
        runtime = runtime_of(options)
        name = default_device(runtime, options.flags)
        chosen = choose_device(runtime, name, options.flags)
        compiler = Compiler(options.lowering_target(chosen.feature_level), runtime, chosen)
    level = device.feature_level
    declined = ({a.name: _why(a, level, compiler) for a in each} for each in clusters)
    return Phone(device.name, level, tuple(declined))


def _why(alternative: Alternative, level: int, compiler: Compiler | None) -> str:
    """Returns why the device declines an alternative; empty if it takes it."""
    if alternative.kind is AlternativeKind.LITERT:
        return "if libLiteRt.so is there"
    if alternative.needed > level:
        return f"needs level {alternative.needed}"
    for each in everything([alternative]):
        if each.model is not None and compiler is not None:
            try:
                compiler.check_supported(each.lowered)
            except Declined as declined:
                return declined.detail.removeprefix(f"{compiler.device.name} ")
    return ""
