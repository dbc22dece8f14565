"""Calibration files (calibration.json): measured costs of a device and of the host's CPU.

A calibration is valid only for the device and the machine where it was measured. Measurements of a
desktop are never used to plan for a phone.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TypeVar

from ep_nnapi.costs.cost_model import PHONE, CostClass, CostModel, Rates
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import read_regular, write_output
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.options.table import HOST, SYSTEM, Options
from ep_nnapi.options.target import RuleSet

VERSION = 1
T = TypeVar("T")
_AGAIN = "measure again with ep-nnapi devices --calibrate"


@frozen
class Calibration:
    """A measured cost model, with the device and machine it was measured on.

    runtime         "host" for this package's own runtime, "system" for any other
    device          name of the device
    device_version  version of the device
    feature_level   feature level of the device
    machine         the computer, as named by `this_machine`
    model           the measured costs
    """

    runtime: str
    device: str
    device_version: str
    feature_level: int
    machine: str
    model: CostModel

    @staticmethod
    def of(runtime: str, device: Device, model: CostModel) -> Calibration:
        """Returns the calibration for a model that was measured on `device` on this machine."""
        kind = _kind(runtime)
        level = device.feature_level
        return Calibration(kind, device.name, device.version, level, this_machine(), model)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file atomically; raises OptionError if it cannot be written."""
        write_output(Path(path), json.dumps(self.to_json(), indent=1) + "\n")

    def to_json(self) -> dict[str, object]:
        """Returns the content of calibration.json as JSON-serializable data."""
        return {"version": VERSION, **asdict(self)}

    def mismatch(self, options: Options, device: Device) -> str | None:
        """Returns why the calibration is invalid for these options and `device`; None if valid."""
        phone = options.target is RuleSet.BUILTIN or _kind(options.runtime) != HOST
        if phone and self.runtime == HOST:
            wanted = "target builtin-nnapi" if options.target is RuleSet.BUILTIN else "this runtime"
            return f"was measured on a desktop, and {wanted} is a phone's; give one measured there"
        if options.target is RuleSet.BUILTIN and _kind(options.runtime) == HOST:
            return None  # measured on a phone; used to prepare models for it on this host
        if (self.runtime, self.device) != (_kind(options.runtime), device.name):
            return (
                f"is about device {self.device} of runtime {self.runtime}, not {device.name}; "
                "measure this one"
            )
        if self.device_version != device.version:
            return (
                f"is about version {self.device_version} of {device.name}, "
                f"which has {device.version} now; {_AGAIN}"
            )
        if self.machine != this_machine():
            return f"was measured on another machine ({self.machine}); measure this one"
        return None


def cost_model(
    options: Options, device: Device, recorded: Mapping[str, object] | None = None
) -> CostModel:
    """Returns the cost model for estimates: of the option `calibration` if set, else `PHONE`.

    recorded   content of the calibration in the options' device profile, which comes before `PHONE`
    Raises OptionError if the file cannot be read, has another version or is not for `device`.
    """
    if options.calibration is None:
        return PHONE if recorded is None else _recorded_model(options, device, recorded)
    path = Path(options.calibration)
    calibration = read(path)
    mismatch = calibration.mismatch(options, device)
    if mismatch is not None:
        raise OptionError(f"calibration {path} {mismatch}, or drop the option")
    return calibration.model


def _recorded_model(options: Options, device: Device, recorded: Mapping[str, object]) -> CostModel:
    """Returns the costs that were measured with a profile's device, on whichever machine."""
    where = f"the calibration in device profile {options.device_profile}"
    try:
        found = _calibration(recorded)
    except (KeyError, TypeError, ValueError):
        raise OptionError(
            f"{where} is not valid; record it again with ep-nnapi profile --times"
        ) from None
    mismatch = found.mismatch(options, device) if options.target is RuleSet.BUILTIN else None
    if mismatch is not None:
        raise OptionError(f"{where} {mismatch} with the option calibration")
    return found.model


def read(path: Path) -> Calibration:
    """Returns the calibration stored in a file; raises OptionError with a one-sentence message."""
    try:
        data = json.loads(read_regular(path))
    except FileNotFoundError:
        raise OptionError(f"calibration {path}: no such file; {_AGAIN} {path}") from None
    except (OSError, RecursionError, ValueError) as error:
        why = f": {error.strerror}" if isinstance(error, OSError) else ""
        raise OptionError(f"calibration {path} cannot be read{why}; {_AGAIN} {path}") from None
    version = data.get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise OptionError(
            f"calibration {path} is of version {version}, not {VERSION}; {_AGAIN} {path}"
        )
    try:
        return _calibration(data)
    except (KeyError, TypeError, ValueError):
        raise OptionError(
            f"calibration {path} is not a calibration file; {_AGAIN} {path}"
        ) from None


def this_machine() -> str:
    """Returns a description of this machine: architecture, processor name and processor count."""
    return f"{platform.machine()} {_processor()}, {os.cpu_count()} processors"


def _kind(runtime: str) -> str:
    return HOST if runtime == HOST else SYSTEM


def _processor() -> str:
    """Returns the processor's name, from /proc/cpuinfo where it is available."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (value for key, _, value in (line.partition(":") for line in lines) if _names(key))
    return next(names, platform.processor()).strip()


def _names(key: str) -> bool:
    return key.strip() in ("model name", "Hardware")


def _calibration(data: Mapping[str, object]) -> Calibration:
    if data["version"] != VERSION:
        raise ValueError("no version")
    model = _typed(data["model"], dict)
    return Calibration(
        _typed(data["runtime"], str),
        _typed(data["device"], str),
        _typed(data["device_version"], str),
        int(_number(data["feature_level"])),
        _typed(data["machine"], str),
        CostModel(
            _rates(_typed(model["cpu"], dict)),
            _rates(_typed(model["nnapi"], dict)),
            _number(model["per_byte"]),
            _number(model["per_cluster"]),
        ),
    )


def _rates(data: Mapping[str, object]) -> Rates:
    per_mac = _typed(data["per_mac"], dict)
    rates = {f: _number(per_mac[f]) for f in CostClass}
    return Rates(_number(data["per_node"]), _number(data["per_byte"]), rates)


def _typed(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"not of type {kind.__name__}")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("not a number")
    if not isfinite(value) or value < 0:
        raise ValueError("not a cost")
    return float(value)
