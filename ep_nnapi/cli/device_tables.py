"""Output of `ep-nnapi devices`: the devices of a runtime, and what each takes of a model."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.cli.terminal import line, table
from ep_nnapi.diagnostics.device_support import device_support
from ep_nnapi.nnapi.profile.answers import Profile
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.options.table import OptionKeywords, parse
from ep_nnapi.provider.devices import device_order, devices

_HEAD = ("device", "type", "version", "feature level")


def show(model: str | None, options: OptionKeywords) -> None:
    """Prints one row for each device, and the order in which sessions use them."""
    chosen = parse(options)
    if model is None:
        table(_HEAD, map(_row, devices(chosen.runtime)))
    else:
        _show_support(model, options)
    line(f"sessions use: {', then '.join(device_order(chosen))}")


def _show_support(model: str, options: OptionKeywords) -> None:
    table(
        (*_HEAD, "nodes taken", "clusters", "operators taken", "declined by the device"),
        (
            (
                *_row(found.device),
                f"{found.report.taken} of {found.report.nodes}",
                str(len(found.report.clusters)),
                found.taken,
                found.declined,
            )
            for found in device_support(model, options)
        ),
    )


def data(model: str | None, options: OptionKeywords) -> list[dict[str, object]]:
    """Returns the devices as plain data for JSON."""
    if model is None:
        return [_data(d) for d in devices(parse(options).runtime)]
    return [_data(f.device) | f.to_json() for f in device_support(model, options)]


def _row(device: Device) -> tuple[str, ...]:
    return (device.name, device.type.name, device.version, str(device.feature_level))


def _data(device: Device) -> dict[str, object]:
    return {
        "name": device.name,
        "type": device.type.name,
        "version": device.version,
        "feature_level": device.feature_level,
    }


def profile_data(output: str, found: Profile) -> dict[str, object]:
    """Returns the summary of a device profile as plain data for JSON."""
    counts = [{"of": what, "supported": n, "asked": asked} for what, n, asked in _counts(found)]
    level = {"device": found.device.name, "feature_level": found.device.feature_level}
    return {"output": output} | level | {"counts": counts, "calibration": found.calibration}


def profile(output: str, found: Profile) -> None:
    """Prints the summary of a device profile that was written to `output`."""
    line(f"{output}: {found.device.name}, feature level {found.device.feature_level}")
    for what, supported, asked in _counts(found):
        line(f"supports {supported} of {asked} {what}")
    if found.calibration is not None:
        line("has measured times, by which --partitioning worth_it estimates")


def _counts(found: Profile) -> Iterator[tuple[str, int, int]]:
    """What a device was asked for, the number that it supports and the number asked."""
    supported = {name for (name, *_), answers in found.groups.items() if answers is not None}
    asked = {name for name, *_ in found.groups}
    yield "operations in at least one form", len(supported), len(asked)
    if found.exact:
        yield "operations of the given models", sum(found.exact.values()), len(found.exact)
