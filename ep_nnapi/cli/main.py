"""Entry point of the command line: parse arguments, call one library function, print its result.

Each command imports its modules when called: of `prepare`, only workers import ONNX Runtime.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from ep_nnapi.cli import (
    arguments,
    bundle_command,
    check_command,
    compare_command,
    fix_command,
    prepare_arguments,
    report_command,
    terminal,
    tune_command,
)
from ep_nnapi.cli import tables as printing
from ep_nnapi.cli.arguments import Parser, dashed, options_of
from ep_nnapi.cli.completion import complete
from ep_nnapi.cli.terminal import DONE, FAILED, NEGATIVE, UNUSABLE, line, print_json, progress
from ep_nnapi.installed import explained
from ep_nnapi.nnapi.errors import ModelError, NnapiError, OptionError
from ep_nnapi.options.table import OptionKeywords


def main(given: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 done, 1 negative result, 2 unusable input, or 3 NNAPI failed."""
    with terminal.until_closed():
        return _exit_code(given)


def _exit_code(given: Sequence[str] | None) -> int:
    try:
        parser = _parser()
        complete(parser)
        parsed = parser.parse_args(dashed(sys.argv[1:] if given is None else given))
        with explained():
            code: int = parsed.verb(parsed)
        sys.stdout.flush()  # what cannot be written is an error here
        return code
    except (ModelError, OptionError) as error:
        line(f"ep-nnapi: {error}", error=True)
        return UNUSABLE
    except NnapiError as error:
        line(f"ep-nnapi: {error}", error=True)
        return FAILED
    except OSError as error:  # a full disk, or one that cannot be read
        return terminal.unusable(error)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="ep-nnapi", description="ONNX models on Android's NNAPI")
    arguments.add_version(parser)
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    checking = _verb(
        verbs.add_parser, "check", check_command.run, "which nodes NNAPI takes, and why not"
    )
    check_command.add(checking)
    running = _verb(verbs.add_parser, "run", _run, "run on NNAPI and compare with the CPU")
    arguments.add_run(running)
    commands = {"compare": compare_command, "tune": tune_command, "fix": fix_command}
    for name, command in commands.items():
        command.add(_verb(verbs.add_parser, name, command.run, command.HELP))
    preparing = _verb(verbs.add_parser, "prepare", _prepare, "optimize and save, for use offline")
    prepare_arguments.add(preparing)
    bundle_command.add(
        _plain(verbs.add_parser("bundle", help=bundle_command.HELP), bundle_command.run)
    )
    report_help = "write a page that shows the graph, every decision and all levels"
    report_command.add(_verb(verbs.add_parser, "report", report_command.run, report_help))
    listing_help = "the NNAPI models that a model is lowered to"
    listed = _verb(verbs.add_parser, "listing", _listing, listing_help)
    arguments.add_listing(listed)
    ops = _plain(verbs.add_parser("ops", help="the operators that can be taken"), _ops)
    devices = _plain(verbs.add_parser("devices", help="the devices of the NNAPI runtime"), _devices)
    arguments.add_devices(devices)
    profile_help = "record a device's answers, for --device-profile on another machine"
    profiling = _plain(verbs.add_parser("profile", help=profile_help), _profile)
    arguments.add_profile(profiling)
    lib_help = "path of libneuralnetworks.so, and flags to build C programs with it"
    library = _plain(verbs.add_parser("lib", help=lib_help), _lib)
    arguments.add_lib(library)
    for each in (checking, running, preparing, listed, ops, devices, profiling, library):
        arguments.add_json(each)
    return parser


def _verb(
    add: Callable[..., argparse.ArgumentParser],
    name: str,
    action: Callable[[argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    parser = _plain(add(name, help=text), action)
    also = ", or a directory of .onnx files" if name in ("check", "prepare") else ""
    arguments.add_model(parser, f"an .onnx or .ort file{also}")
    return parser


def _plain(
    parser: argparse.ArgumentParser, action: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser.set_defaults(verb=action)
    return parser


def _run(given: argparse.Namespace) -> int:
    from ep_nnapi.diagnostics.run_and_compare import run

    if given.random and given.input:
        raise OptionError("--random and --input exclude each other; give one of them")
    with progress("runs on both providers"):
        result = run(
            given.model,
            given.input,
            seed=given.seed,
            tolerance=given.tolerance,
            latency=not given.no_latency,
            profile=given.profile,
            **options_of(given),
        )
    if given.json:
        print_json(printing.run_data(result))
    else:
        printing.run_result(result)
    return NEGATIVE if result.verdict.negative else DONE


def _prepare(given: argparse.Namespace) -> int:
    with progress("models") as advance:
        done = prepare_arguments.call(given, options_of(given), advance)
    if given.json:
        print_json([m.to_json() for m in done.models])
    else:
        printing.preparation(done)
    for model in done.failed:
        line(f"ep-nnapi: {model.model}: {model.error}", error=True)
    return NEGATIVE if done.failed else DONE


def _listing(given: argparse.Namespace) -> int:
    from ep_nnapi.diagnostics.check import lowered
    from ep_nnapi.nnapi.listing import listing
    from ep_nnapi.provider.dynamic_cluster import DynamicCluster

    provider = lowered(given.model, **options_of(given))
    found = [(c.report, listing(c.models[0], data=given.weights)) for c in provider.clusters]
    if given.json:
        print_json([report.to_json() | {"model": text} for report, text in found])
    else:
        for _, text in found:
            print(text)
    tried = (c for c in provider.clusters if isinstance(c, DynamicCluster))
    for value in {v.name: v for c in tried for v in c.open_inputs}.values():
        line(
            f"ep-nnapi: {value.name} is {[d or '?' for d in value.dims or ()]}: sizes that come of "
            "it are only tried here, and compiled as they come; --fix gives others",
            error=True,
        )
    if not provider.clusters:
        line("ep-nnapi: NNAPI takes no node of this model", error=True)
        return NEGATIVE
    return DONE


def _ops(given: argparse.Namespace) -> int:
    from ep_nnapi.operators import ops

    if given.json:
        print_json([asdict(o) for o in ops()])
    else:
        printing.ops(ops())
    return DONE


def _devices(given: argparse.Namespace) -> int:
    from ep_nnapi.cli import device_tables

    if given.calibrate is not None:
        return _calibrate(given)
    if given.device is not None:
        raise OptionError("--device is the one to measure; give --calibrate FILE with it")
    options: OptionKeywords = {} if given.runtime is None else {"runtime": given.runtime}
    if given.json:
        print_json(device_tables.data(given.model, options))
    else:
        device_tables.show(given.model, options)
    return DONE


def _calibrate(given: argparse.Namespace) -> int:
    from ep_nnapi.diagnostics.calibrate import calibrate

    runtime = {} if given.runtime is None else {"runtime": given.runtime}
    with progress("sessions measured") as advance:
        found = calibrate(given.calibrate, device=given.device, progress=advance, **runtime)
    if given.json:
        print_json(found.to_json())
    else:
        printing.calibration(found)
    return DONE


def _profile(given: argparse.Namespace) -> int:
    from ep_nnapi.cli import device_tables
    from ep_nnapi.diagnostics.record_profile import record_profile

    runtime = {} if given.runtime is None else {"runtime": given.runtime}
    asked = {"device": given.device, "times": given.times, **runtime}
    with progress("recording") as advance:
        found = record_profile(given.output, given.models, progress=advance, **asked)
    if given.json:
        print_json(device_tables.profile_data(given.output, found))
    else:
        device_tables.profile(given.output, found)
    return DONE


def _lib(given: argparse.Namespace) -> int:
    from ep_nnapi.nnapi.capi import header, libneuralnetworks_path

    flags = [header.compiler_flags()] * given.cflags + [header.linker_flags()] * given.libs
    if flags and (given.header or given.pkgconfigdir or given.cmakedir):
        raise OptionError("--cflags and --libs go with each other only")
    if given.json and (flags or given.header or given.pkgconfigdir or given.cmakedir):
        raise OptionError("--json has the path, the flags and the directories; give it alone")
    if given.json:
        print_json({"path": libneuralnetworks_path()} | header.data())
    elif given.header:
        print(header.write_header(given.header))
    elif given.pkgconfigdir or given.cmakedir:
        print(header.PKG_CONFIG if given.pkgconfigdir else header.CMAKE)
    else:
        print(" ".join(flags) or libneuralnetworks_path())
    return DONE
