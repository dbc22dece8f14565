"""The verb `devices`: the devices of a runtime, what each takes of a model, and what it costs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, line, print_json, progress, table
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.table import OPTIONS, Options, parse

if TYPE_CHECKING:
    from ep_nnapi.costs.calibration import Calibration
    from ep_nnapi.nnapi.runtime import Device

HELP = "the devices of the NNAPI runtime"
_HEAD = ("device", "type", "version", "feature level")


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: what to measure, which runtime and model it is about."""
    parser.add_argument(
        "--calibrate",
        metavar="FILE",
        help="measure a device for --partitioning worth_it (a few seconds) and write FILE",
    )
    parser.add_argument("--device", metavar="NAME", help="the device to measure")
    parser.add_argument("model", nargs="?", help="an .onnx or .ort file: what each takes of it")
    runtime = next(o for o in OPTIONS if o.name == "runtime")
    parser.add_argument(arguments.flag(runtime), metavar=runtime.metavar, help=runtime.help)
    arguments.add_json(parser)


def run(given: argparse.Namespace) -> int:
    """Prints one row for each device, or measures one."""
    from ep_nnapi.diagnostics.calibrate import calibrate

    if given.calibrate is None and given.device is not None:
        raise OptionError("--device is the one to measure; give --calibrate FILE with it")
    if given.calibrate is not None:
        with progress("sessions measured") as advance:
            found = arguments.call(calibrate, given, path=given.calibrate, progress=advance)
        if given.json:
            print_json(found.to_json())
        else:
            show_costs(found)
        return DONE
    options = parse({} if given.runtime is None else {"runtime": given.runtime})
    if given.json:
        print_json(data(given.model, options))
    else:
        show(given.model, options)
    return DONE


def show(model: str | None, options: Options) -> None:
    """Prints one row for each device, and the order in which sessions use them."""
    from ep_nnapi.provider.devices import device_order, devices

    if model is None:
        table(_HEAD, map(_row, devices(options.runtime)))
    else:
        _show_support(model, options)
    line(f"sessions use: {', then '.join(device_order(options))}")


def _show_support(model: str, options: Options) -> None:
    from ep_nnapi.diagnostics.check import device_support

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


def data(model: str | None, options: Options) -> list[dict[str, object]]:
    """Returns the devices as plain data for JSON."""
    from ep_nnapi.diagnostics.check import device_support
    from ep_nnapi.provider.devices import devices

    if model is None:
        return [_data(d) for d in devices(options.runtime)]
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


def show_costs(found: Calibration) -> None:
    """Prints one row for each kind of cost, with the CPU provider's and the device's."""
    cpu, nnapi = found.model.cpu, found.model.nnapi
    rows: list[tuple[str, float | None, float]] = [
        ("cluster", None, found.model.per_cluster),
        ("byte over its border", None, found.model.per_byte),
        ("node", cpu.per_node, nnapi.per_node),
        ("byte of a node", cpu.per_byte, nnapi.per_byte),
        *((f"{f} MAC", cpu.per_mac[f], nnapi.per_mac[f]) for f in cpu.per_mac),
    ]
    table(
        ("microseconds", "CPU provider", found.device),
        ((name, "-" if a is None else f"{a:.3g}", f"{b:.3g}") for name, a, b in rows),
    )
