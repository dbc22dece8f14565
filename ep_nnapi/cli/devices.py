"""The verb `devices`: the devices of a runtime, what each takes of a model, and what it costs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ep_nnapi.cli import arguments
from ep_nnapi.cli.terminal import DONE, line, print_json, print_result, progress, table
from ep_nnapi.nnapi.errors import OptionError, RuntimeFailure
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.options.table import OPTIONS, Options, parse
from ep_nnapi.options.values import is_remote

if TYPE_CHECKING:
    from ep_nnapi.costs import Calibration
    from ep_nnapi.nnapi.runtime import Device

T = TypeVar("T")
HELP = "the devices of the NNAPI runtime"
_HEAD = ("device", "type", "version", "feature level")


def add(parser: arguments.Parser) -> None:
    """Adds the arguments: what to measure, which runtime and model it is about."""
    parser.takes(
        "--calibrate FILE",
        "measure a device for --partitioning worth_it (a few seconds) and write FILE",
    )
    parser.takes("--device NAME", "the device to measure")
    parser.add_argument("model", nargs="?", help="an .onnx or .ort file: what each takes of it")
    parser.takes("--clean", "list and remove the weights that were pushed to phones or boards")
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
        print_result(given.json, found.to_json, show_costs, found)
        return DONE
    options = parse({} if given.runtime is None else {"runtime": given.runtime})
    if given.clean:
        return _clean(options.runtime, as_json=given.json)
    print_result(given.json, partial(data, given.model, options), show, given.model, options)
    return DONE


def _clean(runtime: str, *, as_json: bool) -> int:
    """Removes pushed weights, and prints one row for each file."""
    if not is_remote(runtime):
        raise OptionError(f"--clean is for --runtime adb and exec:COMMAND, not {runtime}")
    from ep_nnapi.remote.runtime import remote_runtime

    removed = _of_each(runtime, lambda name: remote_runtime(name).agent().pushed(remove=True))
    if as_json:
        print_json([{"runtime": name, "file": f.name, "bytes": f.size} for name, f in removed])
        return DONE
    table(("runtime", "removed", "bytes"), ((name, f.name, str(f.size)) for name, f in removed))
    return DONE


def _found(runtime: str) -> list[tuple[str, Device]]:
    """The devices with the runtimes that they are of: several for the phones of adb."""
    from ep_nnapi.provider.devices import devices

    return _of_each(runtime, devices)


def _of_each(runtime: str, found: Callable[[str], Iterable[T]]) -> list[tuple[str, T]]:
    """What is found of each phone of adb, or of another runtime, with the runtime's name.

    A phone that cannot be used, or is lost meanwhile, is a line on standard error. If none is left,
    raises the OptionError or RuntimeFailure of the last one.
    """
    if not is_remote(runtime):
        return [(runtime, one) for one in found(runtime)]
    from ep_nnapi.remote.runtime import reached

    pairs: list[tuple[str, T]] = []
    amiss: list[OptionError | RuntimeFailure] = []
    names = reached(runtime)
    for name in names:
        try:
            pairs += [(name, one) for one in found(name)]
        except (OptionError, RuntimeFailure) as error:
            amiss.append(error)
    last = amiss.pop() if len(amiss) == len(names) else None
    for failed in amiss:
        line(f"ep-nnapi: {failed}", error=True)
    if last is not None:
        raise last
    return pairs


def show(model: str | None, options: Options) -> None:
    """Prints one row for each device, and the order in which sessions use them."""
    from ep_nnapi.provider.devices import device_order

    if model is not None:
        _show_support(model, options)
    elif is_remote(options.runtime):
        rows = _found(options.runtime)
        table(("runtime", *_HEAD), ((name, *_row(device)) for name, device in rows))
        names = {name for name, _ in rows}
        if len(names) > 1:
            return  # a session names one of them
        options = replace(options, runtime=next(iter(names), options.runtime))
    else:
        table(_HEAD, (_row(device) for _, device in _found(options.runtime)))
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

    if model is None:
        told = is_remote(options.runtime)
        return [({"runtime": n} if told else {}) | _data(d) for n, d in _found(options.runtime)]
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
