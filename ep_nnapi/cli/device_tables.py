"""Output of `ep-nnapi devices`: the devices of a runtime, and what each takes of a model."""

from __future__ import annotations

from collections.abc import Mapping

from ep_nnapi.cli.terminal import table
from ep_nnapi.diagnostics.device_support import device_support
from ep_nnapi.nnapi.runtime import Device
from ep_nnapi.options import parse
from ep_nnapi.provider.devices import devices

_HEAD = ("device", "type", "version", "feature level")


def show(model: str | None, options: Mapping[str, object]) -> None:
    """Prints one row for each device."""
    if model is None:
        table(_HEAD, map(_row, devices(parse(options).runtime)))
        return
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


def data(model: str | None, options: Mapping[str, object]) -> list[dict[str, object]]:
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
