"""Compatibility of a compiled model with the NNAPI runtime that is to run it.

ONNX Runtime stores a string of the provider's in the metadata of each compiled model, and asks the
provider about it: `get_model_compatibility_for_ep_devices` in Python.
"""

from __future__ import annotations

import re
from enum import IntEnum

from ep_nnapi.epcontext.layout import FORMAT_VERSION
from ep_nnapi.nnapi.immutable import frozen, replace
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.options.table import Options
from ep_nnapi.provider.devices import choose_device, default_device, runtime_of


class Compatibility(IntEnum):
    """Answers of a provider about a compiled model. Source: OrtCompiledModelCompatibility."""

    NOT_APPLICABLE = 0
    OPTIMAL = 1
    PREFER_RECOMPILATION = 2
    UNSUPPORTED = 3


@frozen
class CompiledFor:
    """Conditions under which a model was compiled.

    level         feature level that it was lowered for
    needed        lowest feature level that has all of its operations; at most `level`; 0 if it
                  runs without NNAPI too
    alternatives  names of those that all clusters have, such as nnapi:1; none for one program
    """

    format: int
    level: int
    needed: int
    device: str
    alternatives: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The string in the metadata, which `parse` reads."""
        text = f"ep-nnapi format={self.format} level={self.level} needed={self.needed}"
        names = f" alternatives={','.join(self.alternatives)}" if self.alternatives else ""
        return f"{text}{names} device={self.device}"

    def on(self, device: Device) -> Compatibility:
        """Returns the compatibility with a device.

        UNSUPPORTED           its level is too low, or its format is another than this package's
        PREFER_RECOMPILATION  it runs; another level or device may get a better model; of
                              alternatives, the device can run none of NNAPI's
        """
        if self.needed > device.feature_level or self.format != FORMAT_VERSION:
            return Compatibility.UNSUPPORTED
        if self.alternatives:
            pairs = (name.partition(":") for name in self.alternatives)
            levels = [int(level) for kind, _, level in pairs if kind == "nnapi"]
            runs = min(levels, default=device.feature_level + 1) <= device.feature_level
            return Compatibility.OPTIMAL if runs else Compatibility.PREFER_RECOMPILATION
        same = (self.level, self.device) == (device.feature_level, device.name)
        return Compatibility.OPTIMAL if same else Compatibility.PREFER_RECOMPILATION


_PATTERN = re.compile(
    r"ep-nnapi format=(\d+) level=(\d+) needed=(\d+)(?: alternatives=(\S+))? device=(.+)"
)


def parse(info: str) -> CompiledFor | None:
    """Returns the conditions that `info` describes; None if it is of another form.

    >>> parse("ep-nnapi format=3 level=4 needed=3 device=nnapi-reference").needed
    3
    """
    match = _PATTERN.fullmatch(info)
    if match is None:
        return None
    written, level, needed = (int(number) for number in match.groups()[:3])
    names = tuple(match.group(4).split(",")) if match.group(4) else ()
    return CompiledFor(written, level, needed, match.group(5), names)


def validate(info: str, options: Options | None = None) -> Compatibility:
    """Returns the compatibility with the device of a session that has these options.

    NOT_APPLICABLE for a foreign string. Without options it is the default device.
    """
    compiled = parse(info)
    if compiled is None:
        return Compatibility.NOT_APPLICABLE
    options = options or Options()
    runtime = runtime_of(options)
    name = options.device or default_device(runtime, options.flags)
    device = choose_device(runtime, name, options.flags)
    level = options.lowering_target(device.feature_level).feature_level
    return compiled.on(replace(device, feature_level=level))
